package conq

import (
	"iter"

	"github.com/conq-go/conq/internal/handle"
)

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
