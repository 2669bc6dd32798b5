package jobs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// IDs gives a process the ids of jobs, ascending, from blocks that it takes from the store. The
// rest of a block is lost when the process ends. It is safe for concurrent use.
type IDs struct {
	db    kv.DB
	users int // handles

	busy              chan struct{} // has one while somebody uses what follows
	first, next, last int64         // of the block
	block             int64         // how many were taken at once the last time
}

// A process takes more ids each time, up to lastBlock, so that one that is over soon wastes few.
const (
	firstBlock = 10
	lastBlock  = 1000
)

var (
	idsMu sync.Mutex
	idsOf = make(map[kv.DB]*IDs)
)

// ShareIDs returns what gives all handles of a process the ids of a store. Each call needs one of Leave.
func ShareIDs(db kv.DB) *IDs {
	if !reflect.TypeOf(db).Comparable() {
		i := newIDs(db)
		i.users = 2
		return i // it can't be told from another one, and is not kept
	}
	idsMu.Lock()
	defer idsMu.Unlock()
	i := idsOf[db]
	if i == nil {
		i = newIDs(db)
		idsOf[db] = i
	}
	i.users++
	return i
}

func newIDs(db kv.DB) *IDs { return &IDs{db: db, next: 1, busy: make(chan struct{}, 1)} }

// Leave ends the use by one handle.
func (i *IDs) Leave() {
	idsMu.Lock()
	defer idsMu.Unlock()
	if i.users--; i.users == 0 {
		delete(idsOf, i.db)
	}
}

// Take returns the next id. It may wait for the store, until ctx ends.
func (i *IDs) Take(ctx context.Context) (int64, error) {
	select {
	case i.busy <- struct{}{}:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	defer func() { <-i.busy }()
	if i.next > i.last {
		n := min(max(firstBlock, 10*i.block), lastBlock)
		last, err := takeBlock(ctx, i.db, n)
		if err != nil {
			return 0, err
		}
		i.first, i.next, i.last, i.block = last-n+1, last-n+1, last, n
	}
	i.next++
	return i.next - 1, nil
}

// skip has the next id come from a new block, and returns the block under way: its ids may be on their
// way into the store.
func (i *IDs) skip() (first, last int64) {
	i.busy <- struct{}{}
	defer func() { <-i.busy }()
	first, last = i.first, i.last
	i.next = i.last + 1
	return first, last
}

// takeBlock returns the last of n new ids. If it is unknown whether it has taken one, it takes another.
func takeBlock(ctx context.Context, db kv.DB, n int64) (last int64, err error) {
	for {
		err = db.Transact(ctx, func(tx kv.Tx) error {
			if last, err = lastID(tx); err != nil {
				return err
			}
			if last += n; last > MaxID {
				return fmt.Errorf("no ids are left for jobs: %d were given out", last-n)
			}
			tx.Set(SystemSpace(), tuple.AppendInt(nil, last))
			return nil
		})
		if !errors.Is(err, kv.ErrCommitUnknown) {
			return last, err
		}
	}
}

// MaxID is the largest id.
const MaxID = math.MaxInt64 / 2

// lastID returns the last id that was given to a process, or 0.
func lastID(r kv.Reader) (int64, error) {
	last, err := loadInt(r, SystemSpace())
	if err == nil && last < 0 {
		err = corrupt(SystemSpace(), "the last id that was given out is %d", last)
	}
	return last, err
}
