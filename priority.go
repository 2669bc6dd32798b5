package conq

import (
	"context"
	"iter"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// PriorityQueue is a named priority queue with two ends: PopMin takes the lowest
// priority, PopMax the highest. Make one with OpenPriorityQueue. It is safe for
// concurrent use, and any number of handles, in any number of processes if the
// engine allows that, may stand for one queue.
//
// Each method runs in a transaction of its own and returns nil only when that is
// as durable as the engine promises. In gives the same methods within a
// transaction of the caller.
//
//   - Order: by priority, any int64; then, if one push returned before another
//     began, it is first. Items of one priority that are pushed at the same time
//     come in either order, those of one PushAll in its order, perhaps with others
//     between them. PopMin takes the first of the lowest priority. PopMax takes
//     the last of the highest, or with Options.FIFOTies the first.
//   - Conflicts: pushes never conflict with each other, except when some items are
//     handed over, as for Queue. A pop conflicts with other pops of its items, unless
//     they are of one handle, which combines them, or staged (see Staging). Within a
//     transaction, and where one process has the store, it also conflicts with a push of
//     an item that should have been popped instead; and there, reads that find nothing or
//     read all (Len, All, and pops and peeks that find nothing) conflict with any push
//     if their transaction writes something.
//   - Looking: as for Queue, Peek, Len and All may see an item whose pop is
//     under way.
//   - Not guaranteed: as for Queue.
type PriorityQueue[T any] struct {
	codec Codec[T]
	h     *handle.Handle
}

// Prioritized is a value with its priority.
type Prioritized[T any] = queue.Prioritized[T]

// OpenPriorityQueue opens the priority queue of a name, and makes it if there is
// none. Arguments, errors and duration are as for OpenQueue.
//
// Options.FIFOTies is a matter of this handle: it is not stored.
func OpenPriorityQueue[T any](ctx context.Context, db kv.DB, name string, c Codec[T], opts ...Options) (*PriorityQueue[T], error) {
	h, err := open(ctx, db, name, KindPriorityQueue, c, opts)
	if err != nil {
		return nil, err
	}
	return &PriorityQueue[T]{c, h}, nil
}

// Name returns the name of the queue.
func (p *PriorityQueue[T]) Name() string { return p.h.Name() }

// Close ends the handle, and not the store, as Queue.Close does.
func (p *PriorityQueue[T]) Close() error { return p.h.Close() }

// In returns the queue's methods within tx, where they are part of what the
// caller does there: all of it happens, or nothing. tx must be of the store that the
// queue was opened in. If the store knows that it is not, as it does where one process has it for itself, the methods return a
// [kv.ErrInvalid], and do nothing; otherwise the keys go where tx goes.
func (p *PriorityQueue[T]) In(tx kv.Tx) PriorityQueueTx[T] {
	return PriorityQueueTx[T]{p, p.h.In(tx)}
}

// Push adds v behind the items of its priority. The largest payload is half of
// the engine's Limits().Transaction; one over it is a *kv.TooLargeError and
// nothing is written. It does not conflict with another Push, except as
// [PriorityQueue] says. Behind an item of the same priority and the count 2^63-1,
// which conq does not write, there is no place: the error is recipe.ErrNoIndex.
func (p *PriorityQueue[T]) Push(ctx context.Context, v T, priority int64) error {
	return p.PushAll(ctx, []Prioritized[T]{{Value: v, Priority: priority}})
}

// PushAll adds values in one transaction: all or nothing. So the transaction's
// limits hold for all of them together. Values of one priority keep their order.
// No values do nothing.
func (p *PriorityQueue[T]) PushAll(ctx context.Context, values []Prioritized[T]) error {
	items, err := p.encode(values)
	if err != nil {
		return err
	}
	return p.h.Add(ctx, items...)
}

// PopMin removes the first item of the lowest priority and returns it, or
// ErrEmpty. If the item does not decode it stays, and the error is an ErrDecode.
func (p *PriorityQueue[T]) PopMin(ctx context.Context) (T, error) { return p.Pop(ctx, Min) }

// PopMax removes the last item of the highest priority (with Options.FIFOTies the
// first) and returns it, or ErrEmpty. If the item does not decode it stays, and
// the error is an ErrDecode.
func (p *PriorityQueue[T]) PopMax(ctx context.Context) (T, error) { return p.Pop(ctx, Max) }

// Pop is PopMin or PopMax, by the end that it is given.
func (p *PriorityQueue[T]) Pop(ctx context.Context, from End) (T, error) {
	return single[T](p.h.Take(ctx, from, 1))
}

// PopN removes up to n items from an end, those that Pop would return one after
// another, and returns them in that order, or ErrEmpty. n must be positive. They
// may be fewer than there are, as with Queue.DequeueN. From Max, with
// Options.FIFOTies, it reads once for each priority, not once in all.
func (p *PriorityQueue[T]) PopN(ctx context.Context, from End, n int) ([]Prioritized[T], error) {
	return severalPrioritized[T](p.h.Take(ctx, from, n))
}

// PopWait is Pop, but waits until there is an item, or ctx ends. See PopWaitN.
func (p *PriorityQueue[T]) PopWait(ctx context.Context, from End) (T, error) {
	return single[T](p.h.TakeWait(ctx, from, 1))
}

// PopWaitN is PopN, but waits until there is at least one item, or ctx ends:
// then the error is ctx's cause, and nothing was taken. In all else it is as
// Queue.DequeueWaitN. Those who wait at Min and at Max stand in different
// lines, unless other processes share the store.
func (p *PriorityQueue[T]) PopWaitN(ctx context.Context, from End, n int) ([]Prioritized[T], error) {
	return severalPrioritized[T](p.h.TakeWait(ctx, from, n))
}

// Peek returns the item that Pop would and leaves it, or returns ErrEmpty. If the
// item does not decode, the error is an ErrDecode. It conflicts with nothing.
func (p *PriorityQueue[T]) Peek(ctx context.Context, at End) (T, error) {
	return peeked[T](p.h.Peek(ctx, at))
}

// Len counts the items, as Queue.Len does.
func (p *PriorityQueue[T]) Len(ctx context.Context) (int, error) { return p.h.Len(ctx) }

// Clear removes all items, as Queue.Clear does. It conflicts with no push: one at the
// same time comes before it or after it.
func (p *PriorityQueue[T]) Clear(ctx context.Context) error { return p.h.Clear(ctx) }

// Reclaim puts items back that consumers who died have got by staging, as Queue.Reclaim does.
func (p *PriorityQueue[T]) Reclaim(ctx context.Context) error { return p.h.Reclaim(ctx) }

// All returns the items and leaves them: the lowest priority first, those of one
// priority in the order of their pushes. In all else it is as Queue.All, pages
// included.
func (p *PriorityQueue[T]) All(ctx context.Context) iter.Seq2[Prioritized[T], error] {
	return sequence(p.h.All(ctx), prioritizedOf[T])
}

// encode returns the items to be added for values.
func (p *PriorityQueue[T]) encode(values []Prioritized[T]) ([]handle.Item, error) {
	items := make([]handle.Item, len(values))
	for i, v := range values {
		payload, err := encode(p.h, p.codec, v.Value)
		if err != nil {
			return nil, handle.Nth(i, len(values), err)
		}
		items[i] = handle.Item{Payload: payload, Priority: v.Priority}
	}
	return items, nil
}

// Page returns a page of items as Queue.Page does, from the lowest priority up or from the highest down. Of one priority,
// Max begins with the item that was pushed last, whatever Options.FIFOTies says.
func (p *PriorityQueue[T]) Page(ctx context.Context, from End, after []byte, n int) (values []Prioritized[T], next []byte, err error) {
	items, next, err := p.h.Page(ctx, from, after, n)
	values, err = severalPrioritized[T](items, err)
	return values, next, err
}

// PriorityQueueTx is a PriorityQueue within a transaction. Its methods see what
// the transaction has done before, and take effect when it commits. It is valid as
// long as the transaction and not safe for concurrent use. ErrEmpty and ErrDecode,
// after which nothing has changed, need not be returned to Transact; any other error
// must be, as a part of what was to be added may be there, or the store has failed.
type PriorityQueueTx[T any] struct {
	queue *PriorityQueue[T]
	in    handle.Tx
}

// Push is PriorityQueue.Push within the transaction.
func (p PriorityQueueTx[T]) Push(v T, priority int64) error {
	return p.PushAll([]Prioritized[T]{{Value: v, Priority: priority}})
}

// PushAll is PriorityQueue.PushAll within the transaction.
func (p PriorityQueueTx[T]) PushAll(values []Prioritized[T]) error {
	if err := p.in.Ready(); err != nil {
		return err
	}
	items, err := p.queue.encode(values)
	if err != nil {
		return err
	}
	return p.in.Add(items...)
}

// PopMin is PriorityQueue.PopMin within the transaction; see Pop.
func (p PriorityQueueTx[T]) PopMin() (T, error) { return p.Pop(Min) }

// PopMax is PriorityQueue.PopMax within the transaction; see Pop.
func (p PriorityQueueTx[T]) PopMax() (T, error) { return p.Pop(Max) }

// Pop is PriorityQueue.Pop within the transaction. It conflicts with what changes
// which item that is; with ErrEmpty, with any push.
func (p PriorityQueueTx[T]) Pop(from End) (T, error) { return single[T](p.in.Take(from, 1)) }

// PopN is PriorityQueue.PopN within the transaction. It conflicts with what
// changes the items up to the last one that it takes; when it took all there were
// and that are fewer than n, or none, with any push: it misses nothing.
func (p PriorityQueueTx[T]) PopN(from End, n int) ([]Prioritized[T], error) {
	return severalPrioritized[T](p.in.Take(from, n))
}

// Peek is PriorityQueue.Peek within the transaction. It conflicts as Pop does.
func (p PriorityQueueTx[T]) Peek(at End) (T, error) { return peeked[T](p.in.Peek(at)) }

// Len is PriorityQueue.Len within the transaction, and exact. It conflicts with
// all that changes the queue. A queue that can't be read within the transaction's
// time fails with kv.ErrTooOld.
func (p PriorityQueueTx[T]) Len() (int, error) { return p.in.Len() }

// Clear is PriorityQueue.Clear within the transaction.
func (p PriorityQueueTx[T]) Clear() error {
	return p.in.Clear()
}

// All is PriorityQueue.All within the transaction, on its snapshot. It conflicts
// with what changes the items up to the last one that the loop was given; if it
// ran out, with all that changes the queue. The body may pop what it was given;
// whether the loop meets what the body pushes is not specified.
func (p PriorityQueueTx[T]) All() iter.Seq2[Prioritized[T], error] {
	return sequence(p.in.All(), prioritizedOf[T])
}
