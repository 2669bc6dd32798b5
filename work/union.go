package work

import (
	"context"
	"slices"
	"strings"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Union leases jobs of several queues of one store as if they were one queue: the lowest priority first, and within a
// priority the job that was put first. Given to Run, it lets one pool of workers serve all the queues. When one of the queues is closed, so is the Union: calls return
// conq.ErrClosed, also those that wait. It needs no Close of its own, and is safe for concurrent use.
type Union[T any] struct {
	all     []*Queue[T]
	reserve reserver
}

// NewUnion returns the union of at least one queue.
func NewUnion[T any](queues ...*Queue[T]) (*Union[T], error) {
	if len(queues) == 0 {
		return nil, invalid("a union of no queues")
	}
	if slices.Contains(queues, nil) {
		return nil, invalid("a union of a queue that is nil")
	}
	for _, q := range queues[1:] {
		if q.db != queues[0].db {
			return nil, invalid("a union of queues of different stores")
		}
	}
	u := &Union[T]{all: slices.Clone(queues)}
	var engines []*engine
	for _, q := range queues {
		engines = append(engines, &q.engine)
	}
	u.reserve.init(engines...)
	return u, nil
}

// Name returns the names of the queues, separated by commas.
func (u *Union[T]) Name() string {
	var names []string
	for _, q := range u.all {
		names = append(names, q.name)
	}
	return strings.Join(names, ", ")
}

// Reserve is Queue.Reserve.
func (u *Union[T]) Reserve(ctx context.Context, opts ...ReserveOptions) (*Lease[T], error) {
	return theOne(u.ReserveN(ctx, 1, opts...))
}

// ReserveN is Queue.ReserveN.
func (u *Union[T]) ReserveN(ctx context.Context, n int, opts ...ReserveOptions) ([]*Lease[T], error) {
	return reserveNow(ctx, u, &u.reserve, n, opts)
}

// ReserveWait is Queue.ReserveWait.
func (u *Union[T]) ReserveWait(ctx context.Context, opts ...ReserveOptions) (*Lease[T], error) {
	return theOne(u.ReserveWaitN(ctx, 1, opts...))
}

// ReserveWaitN is Queue.ReserveWaitN.
func (u *Union[T]) ReserveWaitN(ctx context.Context, n int, opts ...ReserveOptions) ([]*Lease[T], error) {
	if err := u.ready(ctx); err != nil {
		return nil, err
	}
	open, done := u.whileOpen(ctx)
	defer done()
	return reserveWait(open, u, &u.reserve, n, opts)
}

// wrap returns an error as it is: those of its queues name them.
func (u *Union[T]) wrap(err error) error { return err }

// ready returns the error for a union of which a queue is closed, or for a nil context.
func (u *Union[T]) ready(ctx context.Context) error {
	for _, q := range u.all {
		if err := q.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// whileOpen returns a context that also ends when one of the queues is closed.
func (u *Union[T]) whileOpen(ctx context.Context) (open context.Context, done func()) {
	open, end := context.WithCancelCause(ctx)
	var stops []func() bool
	for _, q := range u.all {
		stops = append(stops, context.AfterFunc(q.open, func() { end(context.Cause(q.open)) }))
	}
	return open, func() {
		for _, stop := range stops {
			stop()
		}
		end(nil)
	}
}

func (u *Union[T]) handOut(ctx context.Context, got []reserved) ([]*Lease[T], error) {
	leases := make([]*Lease[T], len(got))
	for i, c := range got {
		leases[i] = u.all[c.queue].leaseOf(c.Reserved)
	}
	return handOut(ctx, leases, func(l *Lease[T]) queue.Codec[T] { return l.queue.codec })
}

// Drained tells whether all of the queues are; see Queue.Drained.
func (u *Union[T]) Drained(ctx context.Context) (bool, error) {
	for _, q := range u.all {
		if drained, err := q.Drained(ctx); err != nil || !drained {
			return false, err
		}
	}
	return true, nil
}

// tell has the first queue's log know what concerns all.
func (u *Union[T]) tell(id ID, err error) { u.all[0].tell(id, err) }

// head is the first ready job of a queue.
type head struct {
	queue int
	jobs.Position
}

func (h head) before(o head) bool {
	if h.Priority != o.Priority {
		return h.Priority < o.Priority
	}
	return h.Place < o.Place || h.Place == o.Place && h.ID < o.ID
}

// leaseFirst leases the first ones of all ready jobs of a union.
func (r *reserver) leaseFirst(tx *reserving, asks []ask) (got []reserved, more bool, err error) {
	reader := kv.Reader(tx.Tx)
	if r.queues[0].limits.Shared || r.isLarge(tx) {
		reader = tx.Snapshot() // another job may have become the first
	}
	var heads []head
	for i := range r.queues {
		if heads, err = r.appendHead(heads, reader, i); err != nil {
			return nil, false, err
		}
	}
	bytes, limit, n := 0, r.queues[0].bytesPerTransaction(), want{asks: asks}.n()
	for looked := 0; len(heads) > 0 && len(got) < n; looked++ {
		if bytes >= limit || looked > 0 && !r.queues[0].recipe.Fits(tx.Tx) {
			return got, true, nil
		}
		first := 0
		for i := range heads {
			if heads[i].before(heads[first]) {
				first = i
			}
		}
		of := heads[first].queue
		heads = slices.Delete(heads, first, first+1)
		some, have := 1, len(got)
		if len(heads) == 0 {
			some = n - have
		}
		if got, more, err = r.leaseSome(tx, of, asks, got, some); err != nil {
			return nil, false, err
		}
		for _, j := range got[have:] {
			bytes += len(j.Payload)
		}
		switch {
		case more:
			return got, true, nil // those of other queues may come behind what is there
		case len(got) == have || len(got) == n:
			continue // none may start now, or that is all
		}
		if heads, err = r.appendHead(heads, reader, of); err != nil {
			return nil, false, err
		}
	}
	return got, false, nil
}

// appendHead appends the head of a queue, if it has one.
func (r *reserver) appendHead(heads []head, reader kv.Reader, queue int) ([]head, error) {
	e := r.queues[queue]
	p, found, err := e.recipe.First(reader, e.isAside)
	if found {
		heads = append(heads, head{queue, p})
	}
	return heads, err
}
