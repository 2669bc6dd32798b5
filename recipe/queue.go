package recipe

import (
	"io"
	"iter"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
)

// Queue is FoundationDB's recipe "Queues": first in, first out.
//
// What conflicts:
//   - Enqueue and NextKey: nothing. They only read a snapshot.
//   - Dequeue and First: the range from the start of the queue to the head,
//     inclusive. So a dequeue conflicts with another one, as both want the same
//     item, and with an enqueue that is ordered before the head. It does not
//     conflict with enqueues behind the head.
//   - Dequeue and First when the queue is empty: all of it, so any enqueue. That
//     it was empty is true when the transaction commits.
//   - Items: what the loop has covered, as kv.Reader.Range says.
//   - Clear: nothing. It removes also what others have committed meanwhile.
//
// What order holds:
//   - Items enqueued in one transaction are dequeued in that order.
//   - If one enqueue's transaction committed before another one's began, its
//     item is dequeued first.
//
// What is not guaranteed:
//   - The order of concurrent enqueues. Those that saw the same last item get the
//     same index and are ordered at random; one that saw an older last item may
//     get ahead of others that committed before it.
//   - That indexes are unique, or without gaps, or ever larger: an empty queue
//     begins at 1 again. Keys are unique.
//
// The zero value is no queue: its methods panic.
type Queue struct {
	span   kv.Range // of items
	random io.Reader
}

// NewQueue returns the queue whose items are in a subspace, which should hold
// nothing else. random gives the random elements of keys: nil is crypto/rand,
// which should only be replaced in tests.
func NewQueue(items subspace.Subspace, random io.Reader) Queue {
	return Queue{items.Range(), random}
}

// Enqueue adds an item at the end. It has no conflict. The error is of a read,
// of the random source, [ErrNoIndex], or [ErrKey]; a value that is too large makes
// the commit fail.
func (q Queue) Enqueue(tx kv.Tx, value []byte) error {
	key, err := q.NextKey(tx)
	if err != nil {
		return err
	}
	tx.Set(key, value)
	return nil
}

// NextKey returns the key of the next item, for callers who set it themselves.
// It differs each time. Conflicts and errors are those of Enqueue.
func (q Queue) NextKey(tx kv.Tx) ([]byte, error) {
	keys, err := q.NextKeys(tx, 1, nil)
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

// NextKeys returns the keys of the next n items, in order: the last index is read once, and
// each takes the next one. inUse may be nil. Conflicts and errors are those of Enqueue, and
// the errors of inUse.
func (q Queue) NextKeys(tx kv.Tx, n int, inUse InUse) ([][]byte, error) {
	index, err := q.lastIndex(tx.Snapshot())
	if err == nil {
		index, err = inUse.last(tx, nil, index)
	}
	if err != nil {
		return nil, err
	}
	random, err := draw(q.random, n)
	if err != nil {
		return nil, err
	}
	keys := make([][]byte, n)
	for i := range keys {
		if index, err = next(index); err != nil {
			return nil, err
		}
		keys[i] = newKey(prefix(q.span), index, random[i*RandomSize:][:RandomSize])
	}
	return keys, nil
}

// lastIndex returns the index of the last item, or 0 if there is none.
func (q Queue) lastIndex(r kv.Reader) (int64, error) {
	last, err := kvext.LastKey(r, q.Range(), q.span)
	if last == nil || err != nil {
		return 0, err
	}
	ints, err := parse(prefix(q.span), last, 1)
	return ints[0], err
}

// Dequeue removes the first item and returns it. ok is false if the queue is
// empty, or after an error: of a read, or [ErrKey].
func (q Queue) Dequeue(tx kv.Tx) (item kv.KeyValue, ok bool, err error) { return q.Order().take(tx) }

// First returns what Dequeue would, and removes nothing. Read through a
// snapshot, it has no conflict.
func (q Queue) First(r kv.Reader) (item kv.KeyValue, ok bool, err error) {
	return q.Order().first(r)
}

// Items returns the items in order, or in reverse. It ends after the first
// error, which may be [ErrKey].
func (q Queue) Items(r kv.Reader, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return checked(r, q.Range(), opts, q.check)
}

func (q Queue) check(key []byte) error {
	_, err := parse(prefix(q.span), key, 1)
	return err
}

// Clear removes all items that are there when the transaction commits, those it
// has not seen too. It has no conflict.
func (q Queue) Clear(tx kv.Tx) { tx.ClearRange(q.Range()) }

// Range returns the range of all items' keys.
func (q Queue) Range() kv.Range { return made(q.span) }
