package handle

import (
	"cmp"
	"slices"

	"github.com/conq-go/conq/kv"
)

// Item is an item of a queue.
type Item struct {
	Key      []byte // where it is; nil before it is added, and if it was handed over
	Payload  []byte // the whole of it
	Priority int64  // 0 in a Queue
	Value    any    // what the handle's decode has made of Payload
}

// add adds items where the recipe has them, and those of one priority in their order. They are
// written in the order of their keys, as engines like it best.
func (q *queue) add(tx kv.Tx, items []Item) error {
	q.entry.Prefetch(tx)
	q.prefetchInUse(tx, items)
	keys, err := q.algorithm.nextKeys(tx, items, q.inUse(items))
	if err := q.entry.Enlist(tx); err != nil {
		return err // rather than that items of another kind do not decode
	}
	if err != nil {
		return q.foreign(err)
	}
	for _, i := range ascending(items) {
		q.space.Set(tx, keys[i], items[i].Payload)
	}
	return q.announce(tx)
}

// ascending returns the indices of items in the order of their priorities, and of one priority
// in their own.
func ascending(items []Item) []int {
	return sorted(items, func(a, b Item) int { return cmp.Compare(a.Priority, b.Priority) })
}

func sorted(items []Item, compare func(a, b Item) int) []int {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return compare(items[i], items[j]) })
	return order
}

// whole returns an item of the queue with its payload and its value.
func (q *queue) whole(r kv.Reader, pair kv.KeyValue) (Item, error) {
	item := Item{Key: pair.Key, Payload: pair.Value}
	err := q.read(r, &item)
	if err == nil {
		err = q.decoded(&item)
	}
	return item, err
}

// read fills in what its key and the store have of an item.
func (q *queue) read(r kv.Reader, item *Item) (err error) {
	if item.Priority, err = q.algorithm.priority(item.Key); err != nil {
		return q.foreign(err)
	}
	item.Payload, err = q.space.Payload(r, kv.KeyValue{Key: item.Key, Value: item.Payload})
	return err
}

// decoded fills in the value of an item that was read.
func (q *queue) decoded(item *Item) (err error) {
	if q.decode == nil {
		return nil
	}
	if item.Value, err = q.decode(item.Payload); err != nil {
		return q.space.DecodeError(item.Key, err)
	}
	return nil
}

// raw returns items as the store has them.
func raw(pairs []kv.KeyValue) []Item {
	items := make([]Item, 0, len(pairs))
	for _, pair := range pairs {
		items = append(items, Item{Key: pair.Key, Payload: pair.Value})
	}
	return items
}

// copied is a payload as it comes out of the store: the caller's own, and not nil.
func copied(payload []byte) []byte { return append([]byte{}, payload...) }
