package handle

import (
	"cmp"
	"slices"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
)

// Item is an item of a queue.
type Item struct {
	Key      []byte // where it is; nil before it is added, and if it was handed over
	Payload  []byte // the whole of it
	Priority int64  // 0 in a Queue
	Value    any    // what the handle's decode has made of Payload

	keys int // over how many keys it lies, if it was found; 0 if its own is damaged
}

// add adds items where the recipe has them, and those of one priority in their order. They are
// written in the order of their keys, as engines like it best.
func (q *queue) add(tx kv.Tx, items []Item) error {
	q.entry.Prefetch(tx)
	q.prefetchInUse(tx, items)
	keys, err := q.nextKeys(tx, items, q.inUse(items))
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

// found returns an item as a read has found it. That takes its key apart, once.
func (q *queue) found(pair kv.KeyValue) Item {
	item := Item{Key: pair.Key, Payload: pair.Value}
	k, _ := layout.Parse(q.space.Fields(pair.Key), q.space.Integers) // read will tell
	if item.keys = k.Pieces; q.hasPriorities() {
		item.Priority = k.Integers[0]
	}
	return item
}

// whole returns an item that was found with its payload and its value.
func (q *queue) whole(r kv.Reader, item Item) (Item, error) {
	err := q.read(r, &item)
	if err == nil {
		err = q.decoded(&item)
	}
	return item, err
}

// read fills in the whole payload of an item that was found.
func (q *queue) read(r kv.Reader, item *Item) (err error) {
	pair := kv.KeyValue{Key: item.Key, Value: item.Payload}
	if item.keys == 0 {
		item.Payload, err = q.space.Payload(r, pair) // which tells what is wrong
	} else {
		item.Payload, err = q.space.Joined(r, pair, item.keys)
	}
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

// copied is a payload as it comes out of the store: the caller's own, and not nil.
func copied(payload []byte) []byte { return append([]byte{}, payload...) }
