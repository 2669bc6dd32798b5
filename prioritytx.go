package conq

import (
	"iter"

	"github.com/conq-go/conq/internal/handle"
)

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
