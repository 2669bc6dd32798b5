package conq

import (
	"iter"
	"math"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

// PriorityQueueTx is a PriorityQueue within a transaction. Its methods see what
// the transaction has done before, and take effect when it commits. It is valid as
// long as the transaction and not safe for concurrent use. ErrEmpty and ErrDecode,
// after which nothing has changed, need not be returned to Transact; any other error
// must be, as a part of what was to be added may be there, or the store has failed.
type PriorityQueueTx[T any] struct {
	queue *PriorityQueue[T]
	tx    kv.Tx
}

// Push is PriorityQueue.Push within the transaction.
func (p PriorityQueueTx[T]) Push(v T, priority int64) error {
	return p.PushAll([]Prioritized[T]{{v, priority}})
}

// PushAll is PriorityQueue.PushAll within the transaction.
func (p PriorityQueueTx[T]) PushAll(values []Prioritized[T]) error {
	if err := p.ready(); err != nil {
		return err
	}
	payloads, err := p.queue.encodeAll(values)
	if err != nil || len(payloads) == 0 {
		return err
	}
	return p.queue.add(p.tx, payloads)
}

// PopMin is PriorityQueue.PopMin within the transaction. It conflicts with what
// changes which item that is; with ErrEmpty, with any push.
func (p PriorityQueueTx[T]) PopMin() (T, error) {
	if err := p.ready(); err != nil {
		var none T
		return none, err
	}
	return takeOne(&p.queue.store, p.tx, p.queue.recipe.Min, p.queue.readValue)
}

// PopMax is PriorityQueue.PopMax within the transaction. It conflicts with what
// changes which item that is; with ErrEmpty, with any push.
func (p PriorityQueueTx[T]) PopMax() (T, error) {
	if err := p.ready(); err != nil {
		var none T
		return none, err
	}
	return takeOne(&p.queue.store, p.tx, p.max, p.queue.readValue)
}

// PopMinN is PriorityQueue.PopMinN within the transaction. It conflicts with what
// changes the items up to the last one that it takes; when it took all there were
// and that are fewer than n, or none, with any push: it misses nothing.
func (p PriorityQueueTx[T]) PopMinN(n int) ([]Prioritized[T], error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	return takeN(&p.queue.store, p.tx, n, p.queue.fromMin())
}

// PopMaxN is PriorityQueue.PopMaxN within the transaction. It conflicts as PopMinN
// does, from the other end.
func (p PriorityQueueTx[T]) PopMaxN(n int) ([]Prioritized[T], error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	return takeN(&p.queue.store, p.tx, n, p.queue.fromMax(p.queue.ties))
}

// PeekMin is PriorityQueue.PeekMin within the transaction. It conflicts as PopMin
// does.
func (p PriorityQueueTx[T]) PeekMin() (T, error) {
	if err := p.ready(); err != nil {
		var none T
		return none, err
	}
	return readOne(&p.queue.store, p.tx, p.queue.recipe.Min, p.queue.readValue)
}

// PeekMax is PriorityQueue.PeekMax within the transaction. It conflicts as PopMax
// does.
func (p PriorityQueueTx[T]) PeekMax() (T, error) {
	if err := p.ready(); err != nil {
		var none T
		return none, err
	}
	return readOne(&p.queue.store, p.tx, p.max, p.queue.readValue)
}

// Len is PriorityQueue.Len within the transaction, and exact. It conflicts with
// all that changes the queue. A queue that can't be read within the transaction's
// time fails with kv.ErrTooOld.
func (p PriorityQueueTx[T]) Len() (int, error) {
	if err := p.ready(); err != nil {
		return 0, err
	}
	return length(p.queue.store.visitIn(p.tx))
}

// Clear is PriorityQueue.Clear within the transaction.
func (p PriorityQueueTx[T]) Clear() error {
	if err := p.ready(); err != nil {
		return err
	}
	p.queue.store.clearAll(p.tx)
	return nil
}

// All is PriorityQueue.All within the transaction, on its snapshot. It conflicts
// with what changes the items up to the last one that the loop was given; if it
// ran out, with all that changes the queue. The body may pop what it was given;
// whether the loop meets what the body pushes is not specified.
func (p PriorityQueueTx[T]) All() iter.Seq2[Prioritized[T], error] {
	if err := p.ready(); err != nil {
		return failing[Prioritized[T]](err)
	}
	return sequence(p.queue.store.visitIn(p.tx), p.queue.readItem)
}

func (p PriorityQueueTx[T]) ready() error {
	if p.queue == nil {
		return errUnopened
	}
	return p.queue.store.readyIn(p.tx)
}

// max finds what the recipe's PopMax would take, with its conflicts. With FIFOTies the recipe's
// Max would conflict with all pushes of the priority, as it looks up the last key: so this reads
// a snapshot, and conflicts on what the result depends on.
func (p PriorityQueueTx[T]) max(kv.Reader) (kv.KeyValue, bool, error) {
	if p.queue.ties != recipe.FirstPushed {
		return p.queue.recipe.Max(p.tx)
	}
	item, found, err := p.queue.recipe.Max(p.tx.Snapshot())
	if err != nil {
		return item, false, err
	}
	covered := []kv.Range{p.queue.store.span}
	if found {
		covered = descending[T]{p.queue}.covered(nil, item.Key)
	}
	for _, r := range covered {
		p.tx.AddReadConflict(r)
	}
	return item, found, nil
}

// prioritized is the payload of a Prioritized value.
type prioritized struct {
	payload  []byte
	priority int64
}

func (p *PriorityQueue[T]) encodeAll(values []Prioritized[T]) ([]prioritized, error) {
	payloads := make([]prioritized, len(values))
	for i, v := range values {
		payload, err := encode(&p.store, p.codec, v.Value)
		if err != nil {
			return nil, nth(i, len(values), err)
		}
		payloads[i] = prioritized{payload, v.Priority}
	}
	return payloads, nil
}

// add is the recipe's Push, (priority, count, random) -> payload with the last count + 1, for several
// payloads: the last count of each priority is read once, and each payload takes the next one. They
// are written in the order of their keys, as engines like it best, but take their random bytes in
// their own order, as if they were pushed one by one. As for queues, the first count of a priority
// may have to be larger because of staged items (see behindStaged).
func (p *PriorityQueue[T]) add(tx kv.Tx, payloads []prioritized) error {
	keys := new(newKeys)
	if err := keys.draw(&p.store, len(payloads)); err != nil {
		return err
	}
	keys.sort(payloads)
	next, staged, err := p.findNext(tx, keys)
	if err != nil {
		return err
	}
	for n, item := range keys.order {
		again := n > 0 && keys.order[n-1].priority == item.priority
		switch {
		case n == 0:
		case !again:
			next = next[1:]
		case next[0].Count == math.MaxInt64:
			return p.store.foreign(recipe.ErrFull)
		default:
			next[0].Count++
		}
		key := keys.make(next[0].Prefix, next[0].Count, item.index)
		if staged && !again {
			if key, err = p.store.behindStaged(tx, key); err == nil {
				next[0].Count, err = p.store.integer(key, 1)
			}
			if err != nil {
				return err
			}
		}
		p.store.set(tx, key, payloads[item.index].payload)
	}
	return p.store.announce(tx)
}

// findNext finds where items of each priority go, and tells whether items of the queue may be
// staged: see behindStaged. One look for all of them comes first if it would be asked several times.
func (p *PriorityQueue[T]) findNext(tx kv.Tx, keys *newKeys) (next []recipe.Next, staged bool, err error) {
	if next, err = p.recipe.NextOfEach(tx, keys.priorities); err != nil {
		return nil, false, p.store.foreign(err)
	}
	staged = p.store.mayBeStaged() // after NextOfEach
	if staged && len(keys.priorities) > 1 {
		staged, err = p.store.stage.AnyPlace(tx)
	}
	return next, staged, err
}

func (p *PriorityQueue[T]) readValue(r kv.Reader, item kv.KeyValue) (T, error) {
	return decode(&p.store, p.codec, r, item)
}

func (p *PriorityQueue[T]) readItem(r kv.Reader, item kv.KeyValue) (Prioritized[T], error) {
	priority, err := p.priority(item.Key)
	if err != nil {
		return Prioritized[T]{}, err
	}
	v, err := p.readValue(r, item)
	if err != nil {
		return Prioritized[T]{}, err
	}
	return Prioritized[T]{v, priority}, nil
}

func (p *PriorityQueue[T]) priority(key []byte) (int64, error) {
	priority, err := p.recipe.Priority(key)
	if err != nil {
		return 0, p.store.foreign(err)
	}
	return priority, nil
}
