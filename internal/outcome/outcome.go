// Package outcome runs transactions whose outcome is always known, several at the same time. It may import kv and
// the encoding of its keys. Transactions of one lane (kv.Once) run one after the other; so each borrows a lane, for as long
// as it takes.
//
// There are never more lanes than transactions at the same time, nor than a bound. A
// lane that was used last is used next, so few calls leave few outcome keys. Where
// the engine always knows what has been committed there is one lane, which costs
// nothing and holds nobody up.
package outcome

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"sync"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// MaxLanes is how many transactions of one Lanes run at the same time, where lanes
// are needed at all. Others wait.
const MaxLanes = 64

// idSize is how many random bytes tell the outcome keys of lanes apart.
const idSize = 16

// Lanes is a number of lanes. It is safe for concurrent use. It has no goroutines.
type Lanes struct {
	single *kv.Once // where lanes are not needed
	db     kv.DB
	space  []byte
	random io.Reader

	slots chan struct{} // full while MaxLanes transactions are under way

	mu     sync.Mutex
	free   []*kv.Once
	closed error
}

// New returns lanes whose outcome keys are (space, id). random gives their ids and
// those of calls, one read at a time in each lane, but several lanes at once; nil is
// crypto/rand.
func New(db kv.DB, space subspace.Subspace, random io.Reader) *Lanes {
	if random == nil {
		random = rand.Reader
	}
	l := &Lanes{db: db, space: space.Bytes(), random: random}
	if db.Limits().UnknownCommits {
		l.slots = make(chan struct{}, MaxLanes)
	} else {
		l.single = kv.NewOnce(db, l.space, random)
	}
	return l
}

// Do is kv.TransactOnce in a lane of its own. After Close the error is Close's.
func Do[T any](ctx context.Context, l *Lanes, f func(kv.Tx) (T, error)) (T, error) {
	if l.single != nil {
		return kv.TransactOnce(ctx, l.single, f)
	}
	lane, err := l.borrow(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer l.release(lane)
	return kv.TransactOnce(ctx, lane, f)
}

func (l *Lanes) borrow(ctx context.Context) (lane *kv.Once, err error) {
	if err := l.occupy(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			<-l.slots
		}
	}()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return nil, l.closed
	}
	if n := len(l.free); n > 0 {
		lane = l.free[n-1]
		l.free = l.free[:n-1]
		return lane, nil
	}
	id := make([]byte, idSize)
	if _, err := io.ReadFull(l.random, id); err != nil {
		return nil, fmt.Errorf("outcome: no random bytes: %w", err)
	}
	return kv.NewOnce(l.db, tuple.AppendBytes(l.space[:len(l.space):len(l.space)], id), l.random), nil
}

func (l *Lanes) occupy(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Lanes) release(lane *kv.Once) {
	l.mu.Lock()
	l.free = append(l.free, lane)
	l.mu.Unlock()
	<-l.slots
}

// Forget removes the outcome keys of all lanes that are not in use, after which
// nothing of theirs lands any more whose outcome is unknown. After an error, a further
// call goes on.
func (l *Lanes) Forget(ctx context.Context) error {
	l.mu.Lock()
	lanes := l.free
	l.free = nil
	l.mu.Unlock()
	for i, lane := range lanes {
		if err := lane.Forget(ctx); err != nil {
			l.mu.Lock()
			l.free = append(l.free, lanes[i:]...)
			l.mu.Unlock()
			return err
		}
	}
	return nil
}

// Close has calls that come later return closed, waits for those under way, until ctx
// ends, and forgets all outcome keys. Where lanes are not needed it does nothing. After
// an error, a further call goes on.
func (l *Lanes) Close(ctx context.Context, closed error) error {
	if l.single != nil {
		return nil
	}
	l.mu.Lock()
	if l.closed == nil {
		l.closed = closed
	}
	l.mu.Unlock()
	for n := range MaxLanes {
		if err := l.occupy(ctx); err != nil {
			l.vacate(n)
			return err
		}
	}
	defer l.vacate(MaxLanes)
	return l.Forget(ctx)
}

func (l *Lanes) vacate(n int) {
	for range n {
		<-l.slots
	}
}

// maxForgotten is how many outcome keys of others are looked at when a queue is
// opened.
const maxForgotten = 1000

// ForgetOthers removes outcome keys in a subspace that have not been used for long: the processes of their lanes
// have died without closing them. It looks at some, beginning anywhere, so that in time all are looked at. After an
// error the next one to open the queue will try.
func ForgetOthers(ctx context.Context, db kv.DB, space subspace.Subspace) error {
	if !db.Limits().UnknownCommits {
		return nil
	}
	id := make([]byte, idSize)
	rand.Read(id) // never fails
	all, middle := space.Range(), tuple.AppendBytes(space.Bytes(), id)
	for _, part := range []kv.Range{{Begin: middle, End: all.End}, {Begin: all.Begin, End: middle}} {
		if err := kv.ForgetOutcomes(ctx, db, part, maxForgotten/2); err != nil {
			return err
		}
	}
	return nil
}
