package work

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// ids gives a process the ids of jobs, ascending, from blocks that it takes from the store. The
// rest of a block is lost when the process ends.
type ids struct {
	db    kv.DB
	users int // handles

	mu         sync.Mutex
	next, last int64
	block      int64 // how many were taken at once the last time
}

// A process takes more ids each time, up to lastBlock, so that one that is over soon wastes few.
const (
	firstBlock = 10
	lastBlock  = 1000
)

var (
	idsMu sync.Mutex
	idsOf = make(map[kv.DB]*ids)
)

// shareIDs returns what gives all handles of a process the ids of a store. Each call needs one of leave.
func shareIDs(db kv.DB) *ids {
	if !reflect.TypeOf(db).Comparable() {
		return &ids{db: db, next: 1, users: 2} // it can't be told from another one, and is not kept
	}
	idsMu.Lock()
	defer idsMu.Unlock()
	i := idsOf[db]
	if i == nil {
		i = &ids{db: db, next: 1}
		idsOf[db] = i
	}
	i.users++
	return i
}

func (i *ids) leave() {
	idsMu.Lock()
	defer idsMu.Unlock()
	if i.users--; i.users == 0 {
		delete(idsOf, i.db)
	}
}

func (i *ids) take() (int64, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.next > i.last {
		n := min(max(firstBlock, 10*i.block), lastBlock)
		last, err := takeBlock(i.db, n)
		if err != nil {
			return 0, err
		}
		i.next, i.last, i.block = last-n+1, last, n
	}
	i.next++
	return i.next - 1, nil
}

// takeBlock returns the last of n new ids. If it is unknown whether it has taken one, it takes another.
func takeBlock(db kv.DB, n int64) (last int64, err error) {
	key := jobs.SystemSpace()
	for range 10 {
		err = db.Transact(context.Background(), func(tx kv.Tx) error {
			value, err := tx.Get(key)
			if err != nil {
				return err
			}
			last, _, _ = tuple.NextInt(value)
			last += n
			tx.Set(key, tuple.AppendInt(nil, last))
			return nil
		})
		if !errors.Is(err, kv.ErrCommitUnknown) {
			break
		}
	}
	return last, err
}
