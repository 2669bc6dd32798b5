package handle

import (
	"cmp"
	"slices"

	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

// Item is an item of a queue.
type Item struct {
	Key      []byte // where it is; nil before it is added, and if it was handed over
	Payload  []byte // the whole of it
	Priority int64  // 0 in a Queue
	Value    any    // what the handle's decode has made of Payload
}

// algorithm is how a kind of queue finds the places of its items: its recipe.
type algorithm interface {
	Range() kv.Range

	// nextKeys returns the keys of items that are added, in their order.
	nextKeys(tx kv.Tx, items []Item, inUse recipe.InUse) ([][]byte, error)

	// priority returns that of an item by its key.
	priority(key []byte) (int64, error)
}

// fifo is the algorithm of a Queue.
type fifo struct{ recipe.Queue }

func (f fifo) nextKeys(tx kv.Tx, items []Item, inUse recipe.InUse) ([][]byte, error) {
	return f.NextKeys(tx, len(items), inUse)
}

func (f fifo) priority([]byte) (int64, error) { return 0, nil }

// prioritized is the algorithm of a PriorityQueue.
type prioritized struct{ recipe.PriorityQueue }

func (p prioritized) nextKeys(tx kv.Tx, items []Item, inUse recipe.InUse) ([][]byte, error) {
	priorities := make([]int64, len(items))
	for i, item := range items {
		priorities[i] = item.Priority
	}
	return p.NextKeys(tx, priorities, inUse)
}

func (p prioritized) priority(key []byte) (int64, error) { return p.Priority(key) }

// add adds items where the recipe has them, and those of one priority in their order. They are
// written in the order of their keys, as engines like it best.
func (s *store) add(tx kv.Tx, items []Item) error {
	keys, err := s.algorithm.nextKeys(tx, items, s.inUse(items))
	if err != nil {
		return s.foreign(err)
	}
	for _, i := range ascending(items) {
		s.set(tx, keys[i], items[i].Payload)
	}
	return s.announce(tx)
}

// ascending returns the indices of items in the order of their priorities, and of one priority
// in their own.
func ascending(items []Item) []int {
	return sorted(items, func(a, b Item) int { return cmp.Compare(a.Priority, b.Priority) })
}

// asTaken returns the indices of items that are added together in the order in which a side would
// take them.
func asTaken(side staging.Side, items []Item) []int {
	switch side {
	case staging.Back: // of one priority, too, the last is first
		order := ascending(items)
		slices.Reverse(order)
		return order
	case staging.BackFIFO:
		return sorted(items, func(a, b Item) int { return cmp.Compare(b.Priority, a.Priority) })
	}
	return ascending(items)
}

func sorted(items []Item, compare func(a, b Item) int) []int {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return compare(items[i], items[j]) })
	return order
}

// read fills in what its key and the store have of an item.
func (s *store) read(r kv.Reader, item *Item) (err error) {
	if item.Priority, err = s.algorithm.priority(item.Key); err != nil {
		return s.foreign(err)
	}
	item.Payload, err = s.payload(r, kv.KeyValue{Key: item.Key, Value: item.Payload})
	return err
}

// decoded fills in the value of an item that was read.
func (s *store) decoded(item *Item) (err error) {
	if s.decode == nil {
		return nil
	}
	if item.Value, err = s.decode(item.Payload); err != nil {
		return s.decodeError(item.Key, err)
	}
	return nil
}

// decoder reads and decodes items.
func (s *store) decoder(r kv.Reader) func(*Item) error {
	return func(item *Item) error {
		if err := s.read(r, item); err != nil {
			return err
		}
		return s.decoded(item)
	}
}

// raw makes items of pairs that the store has.
func raw(pairs []kv.KeyValue) []Item {
	items := make([]Item, len(pairs))
	for i, pair := range pairs {
		items[i] = Item{Key: pair.Key, Payload: pair.Value}
	}
	return items
}

// copied is a payload as it comes out of the store: the caller's own, and not nil.
func copied(payload []byte) []byte { return append([]byte{}, payload...) }
