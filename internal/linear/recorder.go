package linear

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Target is a handle of a queue of either kind. Errors are those of package
// conq: ErrEmpty, kv.ErrCommitUnknown, and others for what has not happened.
type Target interface {
	Put(ctx context.Context, items []Item) error
	Take(ctx context.Context, end queue.End, n int) ([]Item, error)
	Peek(ctx context.Context, end queue.End) (Item, error)
	Len(ctx context.Context) (int, error)
}

// Recorder writes down the calls to one queue. It is safe for concurrent use, as
// long as each client makes one call at a time.
type Recorder struct {
	name     string
	fifoTies bool
	clock    atomic.Int64 // counts events: all that order needs

	mu     sync.Mutex
	ops    []Op
	failed []error
}

// NewRecorder returns a recorder for a queue. fifoTies tells how its high end
// chooses among items of equal priority.
func NewRecorder(name string, fifoTies bool) *Recorder {
	return &Recorder{name: name, fifoTies: fifoTies}
}

// History returns what was recorded, without the calls that have not happened.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return History{Name: r.name, FIFOTies: r.fifoTies, Ops: append([]Op(nil), r.ops...)}
}

// Failed returns the errors of the calls that have not happened.
func (r *Recorder) Failed() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]error(nil), r.failed...)
}

// Call makes the call that op says, as op.Client, and records it. It returns op
// with the result. The error is that of the target; ErrEmpty is a result, not an
// error.
func (r *Recorder) Call(ctx context.Context, t Target, op Op) (Op, error) {
	op.Call = r.clock.Add(1)
	err := perform(ctx, t, &op)
	op.Return = r.clock.Add(1)
	op.Unknown = errors.Is(err, kv.ErrCommitUnknown)

	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil, op.Unknown && (op.Kind == Put || op.Kind == Take):
		r.ops = append(r.ops, op)
	default:
		r.failed = append(r.failed, fmt.Errorf("%v: %w", op, err))
	}
	return op, err
}

// perform makes the call of op and fills in the result.
func perform(ctx context.Context, t Target, op *Op) (err error) {
	switch op.Kind {
	case Put:
		return t.Put(ctx, op.Items)
	case Take:
		op.Items, err = t.Take(ctx, op.End, op.N)
	case Peek:
		var item Item
		if item, err = t.Peek(ctx, op.End); err == nil {
			op.Items = []Item{item}
		}
	case Len:
		op.Length, err = t.Len(ctx)
	default:
		return fmt.Errorf("linear: no such kind of call: %d", op.Kind)
	}
	if errors.Is(err, conq.ErrEmpty) {
		op.Items, err = nil, nil
	}
	return err
}
