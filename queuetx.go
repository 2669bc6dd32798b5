package conq

import (
	"fmt"
	"iter"
	"math"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

// QueueTx is a Queue within a transaction. Its methods see what the transaction
// has done before, and take effect when it commits. It is valid as long as the
// transaction and not safe for concurrent use. ErrEmpty and ErrDecode, after which
// nothing has changed, need not be returned to Transact; any other error must be, as
// a part of what was to be added may be there, or the store has failed.
type QueueTx[T any] struct {
	queue *Queue[T]
	tx    kv.Tx
}

// Enqueue is Queue.Enqueue within the transaction.
func (q QueueTx[T]) Enqueue(v T) error { return q.EnqueueAll([]T{v}) }

// EnqueueAll is Queue.EnqueueAll within the transaction.
func (q QueueTx[T]) EnqueueAll(values []T) error {
	if err := q.ready(); err != nil {
		return err
	}
	payloads, err := q.queue.encodeAll(values)
	if err != nil || len(payloads) == 0 {
		return err
	}
	return q.queue.add(q.tx, payloads)
}

// Dequeue is Queue.Dequeue within the transaction. It conflicts with what changes
// which item is the first; with ErrEmpty, with any enqueue.
func (q QueueTx[T]) Dequeue() (T, error) {
	if err := q.ready(); err != nil {
		var none T
		return none, err
	}
	return takeOne(&q.queue.store, q.tx, q.queue.recipe.First, q.queue.readItem)
}

// DequeueN is Queue.DequeueN within the transaction. It conflicts with what
// changes the items up to the last one that it takes; when it took all there were
// and that are fewer than n, or none, with any enqueue: it misses nothing.
func (q QueueTx[T]) DequeueN(n int) ([]T, error) {
	if err := q.ready(); err != nil {
		return nil, err
	}
	return takeN(&q.queue.store, q.tx, n, q.queue.fromFront())
}

// Peek is Queue.Peek within the transaction. It conflicts as Dequeue does.
func (q QueueTx[T]) Peek() (T, error) {
	if err := q.ready(); err != nil {
		var none T
		return none, err
	}
	return readOne(&q.queue.store, q.tx, q.queue.recipe.First, q.queue.readItem)
}

// Len is Queue.Len within the transaction, and exact. It conflicts with all that
// changes the queue. A queue that can't be read within the transaction's time
// fails with kv.ErrTooOld.
func (q QueueTx[T]) Len() (int, error) {
	if err := q.ready(); err != nil {
		return 0, err
	}
	return length(q.queue.store.visitIn(q.tx))
}

// Clear is Queue.Clear within the transaction.
func (q QueueTx[T]) Clear() error {
	if err := q.ready(); err != nil {
		return err
	}
	q.queue.store.clearAll(q.tx)
	return nil
}

// All is Queue.All within the transaction, on its snapshot. It conflicts with what
// changes the items up to the last one that the loop was given; if it ran out, with
// all that changes the queue. The body may dequeue what it was given; whether the
// loop meets what the body enqueues is not specified.
func (q QueueTx[T]) All() iter.Seq2[T, error] {
	if err := q.ready(); err != nil {
		return failing[T](err)
	}
	return sequence(q.queue.store.visitIn(q.tx), q.queue.readItem)
}

func (q QueueTx[T]) ready() error {
	if q.queue == nil {
		return errUnopened
	}
	return q.queue.store.readyIn(q.tx)
}

func (q *Queue[T]) encodeAll(values []T) ([][]byte, error) {
	payloads := make([][]byte, len(values))
	for i, v := range values {
		payload, err := encode(&q.store, q.codec, v)
		if err != nil {
			return nil, nth(i, len(values), err)
		}
		payloads[i] = payload
	}
	return payloads, nil
}

// nth says which of several values an error is about.
func nth(i, n int, err error) error {
	if n == 1 {
		return err
	}
	return fmt.Errorf("conq: value %d of %d: %w", i+1, n, err)
}

// add is the recipe's Enqueue, (index, random) -> payload with the last index + 1, for several
// payloads: the last index is read once, and each payload takes the next one. Beyond the recipe,
// random bytes are drawn for up to mostDrawn keys at once, and the first index may have to be
// larger, so that staged items come before these if they go back (see behindStaged).
func (q *Queue[T]) add(tx kv.Tx, payloads [][]byte) error {
	index, err := q.recipe.NextIndex(tx)
	if err != nil {
		return q.store.foreign(err)
	}
	keys := new(newKeys)
	for i, payload := range payloads {
		if i > 0 && index == math.MaxInt64 {
			return q.store.foreign(recipe.ErrFull)
		} else if i > 0 {
			index++
		}
		if i%mostDrawn == 0 {
			if err := keys.draw(&q.store, min(len(payloads)-i, mostDrawn)); err != nil {
				return err
			}
		}
		key := keys.make(q.store.prefix(), index, i%mostDrawn)
		if i == 0 {
			if key, err = q.store.behindStaged(tx, key); err == nil {
				index, err = q.store.integer(key, 0)
			}
		}
		if err != nil {
			return err
		}
		q.store.set(tx, key, payload)
	}
	return q.store.announce(tx)
}

func (q *Queue[T]) readItem(r kv.Reader, item kv.KeyValue) (T, error) {
	return decode(&q.store, q.codec, r, item)
}
