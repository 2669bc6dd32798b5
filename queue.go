package conq

import (
	"context"
	"iter"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/kv"
)

// Queue is a named queue: first in, first out. Make one with OpenQueue. It is
// safe for concurrent use, and any number of handles, in any number of processes
// if the engine allows that, may stand for one queue.
//
// Each method runs in a transaction of its own and returns nil only when that is
// as durable as the engine promises. In gives the same methods within a
// transaction of the caller.
//
//   - Order: if one enqueue returned before another began, its item is dequeued
//     first. Items that are enqueued at the same time come out in either order,
//     those of one EnqueueAll in its order, perhaps with others between them.
//   - Conflicts: enqueues never conflict with each other, nor with a dequeue that
//     finds an item. Only one that hands over some of its items and writes the others
//     (see below) may run again, once. Two dequeues at the same time conflict, and one
//     runs again, unless they are of one handle, which combines them, or staged (see
//     Staging). Within a transaction, reads that reach the end of the queue (Len, All, and
//     Dequeue and Peek that find nothing) conflict with any enqueue if it writes something.
//   - Looking: where other processes share the store, or items are staged, a dequeue is
//     decided first, and removes its items later in the same call. Peek, Len and All read
//     the store as it is, and may see them meanwhile. Nobody else gets them, and enqueues
//     and dequeues are linearizable among themselves; those of In are at the commit.
//   - Handing over: where one process has the store for itself, what is enqueued while the
//     queue is empty, and callers wait on the handle, goes to them at once. It is dequeued
//     then, and never written.
//   - Exactly once: where the engine does not always know whether a transaction has
//     committed, the handle finds out, so that nothing is enqueued twice or lost.
//   - Not guaranteed: that a consumer has handled an item that Dequeue returned to
//     it: if it fails, the item is gone. The same when Dequeue returned
//     kv.ErrCommitUnknown: it may be gone. Nor which of several consumers gets an
//     item; those who wait get them in the order in which they came (see DequeueWaitN).
type Queue[T any] struct {
	codec Codec[T]
	h     *handle.Handle
}

// OpenQueue opens the queue of a name, and makes it if there is none. The name is
// 1 to MaxName bytes of UTF-8 without NUL, or the error is an ErrName. If the name
// is taken by a queue of another kind it is an ErrKind; if store or queue were
// written by a newer version, an ErrFormat. At most one Options may be given.
//
// It looks into the catalogue, and writes to it when the name is new. ctx bounds that, and
// not the life of the handle.
func OpenQueue[T any](ctx context.Context, db kv.DB, name string, c Codec[T], opts ...Options) (*Queue[T], error) {
	h, err := open(ctx, db, name, KindQueue, c, opts)
	if err != nil {
		return nil, err
	}
	return &Queue[T]{c, h}, nil
}

// Name returns the name of the queue.
func (q *Queue[T]) Name() string { return q.h.Name() }

// Close ends the handle, and not the store. Calls that wait for items, or for a
// transaction that is under way, return ErrClosed, and so do all calls that come
// later, within transactions too. A transaction under way is finished, and its calls
// get what came of it: nothing is lost. Close is for a handle that its process needs no
// more while the store stays open: where commits may be unknown
// (kv.Limits.UnknownCommits) or other processes share the store, it waits for what is
// under way and removes the keys that the handle has of its own, for 30 seconds at
// most, or the error matches context.DeadlineExceeded. Those of a handle that was not
// closed are removed in time by whoever opens the queue.
//
// A second call does nothing, or if the first has failed, what it has left. Close is
// safe for concurrent use.
func (q *Queue[T]) Close() error { return q.h.Close() }

// In returns the queue's methods within tx, where they are part of what the
// caller does there: all of it happens, or nothing. tx must be of the store that the
// queue was opened in. If the store knows that it is not, as it does where one process has it for itself, the methods return a
// [kv.ErrInvalid], and do nothing; otherwise the keys go where tx goes.
func (q *Queue[T]) In(tx kv.Tx) QueueTx[T] { return QueueTx[T]{q, q.h.In(tx)} }

// Enqueue adds v at the end. The largest payload is half of the engine's
// Limits().Transaction; one over it is a *kv.TooLargeError and nothing is written.
// It does not conflict with another Enqueue, except as [Queue] says. Behind an item
// of index 2^63-1, which conq does not write, there is no place: the error is
// recipe.ErrNoIndex.
func (q *Queue[T]) Enqueue(ctx context.Context, v T) error {
	return q.EnqueueAll(ctx, []T{v})
}

// EnqueueAll adds values at the end, in order, in one transaction: all or nothing.
// So the transaction's limits hold for all of them together. No values do nothing.
func (q *Queue[T]) EnqueueAll(ctx context.Context, values []T) error {
	items, err := q.encode(values)
	if err != nil {
		return err
	}
	return q.h.Add(ctx, items...)
}

// Dequeue removes the first item and returns it, or ErrEmpty. If the item does
// not decode it stays, and the error is an ErrDecode.
func (q *Queue[T]) Dequeue(ctx context.Context) (T, error) {
	return single[T](q.h.Take(ctx, Min, 1))
}

// DequeueWait is Dequeue, but waits until there is an item, or ctx ends. See
// DequeueWaitN.
func (q *Queue[T]) DequeueWait(ctx context.Context) (T, error) {
	return single[T](q.h.TakeWait(ctx, Min, 1))
}

// DequeueWaitN is DequeueN, but waits until there is at least one item, or ctx
// ends: then the error is ctx's cause, and nothing was taken.
//
// Callers who wait on one handle are served in the order in which they found nothing and
// began to wait. Together they cost one look at the queue each time something is
// enqueued, and nothing in between.
//
// Where other processes share the store, those who wait on different handles stand in
// one line, by the clocks of their processes: while one waits, no other who came later is
// served more than twice, unless some of them stage and others never do (see
// StagingNever). Enqueues through this package are noticed at once, those of other
// programs within a second; and what a process that died was next to get, within 3
// seconds. That is a second more for each further handle in front whose process died, up to
// about 10, where there are fewer than 16 items, and so long if it had staged (see Staging).
// Where one process has the store for itself, what it adds by package recipe or kv alone is
// noticed with the next enqueue through this package.
func (q *Queue[T]) DequeueWaitN(ctx context.Context, n int) ([]T, error) {
	return several[T](q.h.TakeWait(ctx, Min, n))
}

// DequeueN removes up to n items from the start and returns them in order, or
// ErrEmpty. n must be positive.
//
// They may be fewer than there are:
//   - They are at most 10,000. Together, with their keys, they have at most 8 MiB, and
//     half of the transaction's limit for bytes, unless the first alone is larger.
//   - When they are staged, they are at most 1,000, and have at most 4 MiB, and a
//     quarter of that limit.
//   - Reading and clearing them takes at most all but 16 of the transaction's limit
//     for operations.
//   - They end before an item that does not decode. Only if that is the first it is an
//     error, an ErrDecode.
//   - An item that is enqueued meanwhile may be missed.
func (q *Queue[T]) DequeueN(ctx context.Context, n int) ([]T, error) {
	return several[T](q.h.Take(ctx, Min, n))
}

// Peek returns the first item and leaves it, or returns ErrEmpty. If the item does not
// decode, the error is an ErrDecode. It conflicts with nothing.
func (q *Queue[T]) Peek(ctx context.Context) (T, error) {
	return peeked[T](q.h.Peek(ctx, Min))
}

// Len counts the items. It reads all of their keys, and no payloads, so it takes time in proportion, on
// one snapshot unless that takes longer than the engine allows. Then it counts on, in a later snapshot, behind
// the last item that it has counted, and the sum is exact only if the queue did not
// change.
func (q *Queue[T]) Len(ctx context.Context) (int, error) { return q.h.Len(ctx) }

// Clear removes all items, also those that were taken by staging and not collected yet:
// their consumers begin anew. It conflicts with no enqueue: one at the same time comes
// before it or after it.
func (q *Queue[T]) Clear(ctx context.Context) error { return q.h.Clear(ctx) }

// Reclaim puts items back that consumers got by staging (see Staging) and did not collect by their
// deadline, as their processes have died. Methods that take items do so by themselves, but not those
// of In: a consumer that only takes within its own transactions calls Reclaim now and then, and when it
// finds nothing. It reads two keys, and nothing where one process has the store and has staged nothing.
func (q *Queue[T]) Reclaim(ctx context.Context) error { return q.h.Reclaim(ctx) }

// All returns the items in order and leaves them. The loop ends after the first
// error.
//
// It reads one snapshot, unless that takes longer than the engine allows, the body
// of the loop included. Then it goes on page by page, each page on a later
// snapshot and behind the last item of the one before: still in order and nothing
// twice, but then it may meet items that were enqueued after the loop began, and
// miss such that were dequeued since. The body may use the queue.
func (q *Queue[T]) All(ctx context.Context) iter.Seq2[T, error] {
	return sequence(q.h.All(ctx), typed[T])
}

// Page returns up to n items of one snapshot and leaves them: the first ones, or those behind where next of another page
// was, if after is not nil. It may have fewer: a page ends at 8 MiB. next is nil at the end of the queue. If an
// item does not decode, the error is an ErrDecode. It conflicts with nothing.
func (q *Queue[T]) Page(ctx context.Context, after []byte, n int) (values []T, next []byte, err error) {
	items, next, err := q.h.Page(ctx, Min, after, n)
	values, err = several[T](items, err)
	return values, next, err
}

// encode returns the items to be added for values.
func (q *Queue[T]) encode(values []T) ([]handle.Item, error) {
	items := make([]handle.Item, len(values))
	for i, v := range values {
		payload, err := encode(q.h, q.codec, v)
		if err != nil {
			return nil, handle.Nth(i, len(values), err)
		}
		items[i].Payload = payload
	}
	return items, nil
}

// QueueTx is a Queue within a transaction. Its methods see what the transaction
// has done before, and take effect when it commits. It is valid as long as the
// transaction and not safe for concurrent use. ErrEmpty and ErrDecode, after which
// nothing has changed, need not be returned to Transact; any other error must be, as
// a part of what was to be added may be there, or the store has failed.
type QueueTx[T any] struct {
	queue *Queue[T]
	in    handle.Tx
}

// Enqueue is Queue.Enqueue within the transaction.
func (q QueueTx[T]) Enqueue(v T) error { return q.EnqueueAll([]T{v}) }

// EnqueueAll is Queue.EnqueueAll within the transaction.
func (q QueueTx[T]) EnqueueAll(values []T) error {
	if err := q.in.Ready(); err != nil {
		return err
	}
	items, err := q.queue.encode(values)
	if err != nil {
		return err
	}
	return q.in.Add(items...)
}

// Dequeue is Queue.Dequeue within the transaction. It conflicts with what changes
// which item is the first; with ErrEmpty, with any enqueue.
func (q QueueTx[T]) Dequeue() (T, error) { return single[T](q.in.Take(Min, 1)) }

// DequeueN is Queue.DequeueN within the transaction. It conflicts with what
// changes the items up to the last one that it takes; when it took all there were
// and that are fewer than n, or none, with any enqueue: it misses nothing.
func (q QueueTx[T]) DequeueN(n int) ([]T, error) { return several[T](q.in.Take(Min, n)) }

// Peek is Queue.Peek within the transaction. It conflicts as Dequeue does.
func (q QueueTx[T]) Peek() (T, error) { return peeked[T](q.in.Peek(Min)) }

// Len is Queue.Len within the transaction, and exact. It conflicts with all that
// changes the queue. A queue that can't be read within the transaction's time
// fails with kv.ErrTooOld.
func (q QueueTx[T]) Len() (int, error) { return q.in.Len() }

// Clear is Queue.Clear within the transaction.
func (q QueueTx[T]) Clear() error {
	return q.in.Clear()
}

// All is Queue.All within the transaction, on its snapshot. It conflicts with what
// changes the items up to the last one that the loop was given; if it ran out, with
// all that changes the queue. The body may dequeue what it was given; whether the
// loop meets what the body enqueues is not specified.
func (q QueueTx[T]) All() iter.Seq2[T, error] {
	return sequence(q.in.All(), typed[T])
}
