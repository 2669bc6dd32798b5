package conq

import (
	"errors"
	"fmt"
	"math"

	"github.com/conq-go/conq/kv"
)

// A batch takes no more than this out of a queue, whatever the engine allows, so
// that it fits in memory.
const (
	maxBatchItems = 10_000
	maxBatchBytes = 8 << 20
)

// budget is what a batch may still take. It is at most half of what the engine
// allows to a transaction: the other half is for what the caller does with the
// items in the same one.
type budget struct {
	items, bytes, operations int
	spent                    bool // something did not fit any more
}

func (s *store) budget(n int) (*budget, error) {
	if n <= 0 {
		return nil, fmt.Errorf("conq: queue %q: a batch of %d items: at least 1 is needed", s.name, n)
	}
	b := &budget{items: min(n, maxBatchItems), bytes: maxBatchBytes, operations: math.MaxInt}
	if s.limits.Transaction > 0 {
		b.bytes = min(b.bytes, s.limits.Transaction/2)
	}
	if s.limits.Operations > 0 {
		b.operations = s.limits.Operations / 2
	}
	return b, nil
}

// left tells whether more would have been taken, had there been more.
func (b *budget) left() bool { return b.items > 0 && !b.spent }

// spend takes off what an item over n keys costs, and tells whether it was there.
func (b *budget) spend(item kv.KeyValue, n int) bool {
	b.items--
	b.bytes -= n * (len(item.Key) + len(item.Value)) // all pieces but the last are as long as the first
	b.operations -= 2 * n                            // to read and to clear them
	b.spent = b.bytes < 0 || b.operations < 0
	return !b.spent
}

// gather appends items of r to taken while the budget lasts, but at least one in
// all. It leaves no conflict: what is taken in the end may be less.
func (s *store) gather(tx kv.Tx, b *budget, taken []kv.KeyValue, r kv.Range, reverse bool) ([]kv.KeyValue, error) {
	opts := kv.RangeOptions{Limit: b.items, Reverse: reverse}
	for item, err := range tx.Snapshot().Range(r, opts) {
		if err != nil {
			return nil, err
		}
		n, err := s.count(item.Key)
		if err != nil {
			n = 1 // decoding it will tell
		}
		if !b.spend(item, n) && len(taken) > 0 {
			break
		}
		taken = append(taken, item)
	}
	return taken, nil
}

// taking is how a kind of queue takes a batch: how it reads an item, on which
// ranges having taken all up to a key depends, and whether it must be exact that
// there are no more items than it got.
//
// In a transaction of its own that need not be: with an item that comes meanwhile,
// the batch is what it would have been just before. So consumers of a queue that
// is nearly empty do not conflict with its producers. But in a transaction of the
// caller, who may go on to Clear what is left, it must.
type taking[V any] struct {
	read    func(kv.Reader, kv.KeyValue) (V, error)
	covered func(last []byte) []kv.Range
	exact   bool
}

// take decodes items, and clears those that it returns: all before the first one
// that does not decode, whose error counts if it is the very first.
func take[V any](s *store, tx kv.Tx, items []kv.KeyValue, how taking[V]) ([]V, error) {
	if len(items) == 0 {
		tx.AddReadConflict(s.items.Range())
		return nil, ErrEmpty
	}
	values := make([]V, 0, len(items))
	var failed error
	for _, item := range items {
		v, err := how.read(tx, item)
		if failed = err; failed != nil {
			break
		}
		values = append(values, v)
	}
	covered := []kv.Range{s.items.Range()}
	if !how.exact || failed != nil {
		covered = how.covered(items[max(len(values), 1)-1].Key)
	}
	for _, r := range covered {
		tx.AddReadConflict(r)
	}
	if failed != nil && (len(values) == 0 || !errors.Is(failed, ErrDecode)) {
		return nil, failed
	}
	for _, item := range items[:len(values)] {
		s.clear(tx, item.Key)
	}
	return values, nil
}

// finder is how a recipe finds its first item, or last.
type finder func(kv.Reader) (kv.KeyValue, bool, error)

// readOne returns the value of the item that find finds.
func readOne[V any](
	s *store, r kv.Reader, find finder, read func(kv.Reader, kv.KeyValue) (V, error),
) (V, error) {
	var none V
	switch item, found, err := find(r); {
	case err != nil:
		return none, s.foreign(err)
	case !found:
		return none, ErrEmpty
	default:
		return read(r, item)
	}
}

// takeOne is readOne, and clears the item. It is decoded first, so that one that
// does not decode stays, even if the caller commits all the same.
func takeOne[V any](
	s *store, tx kv.Tx, find finder, read func(kv.Reader, kv.KeyValue) (V, error),
) (V, error) {
	return readOne(s, tx, find, func(r kv.Reader, item kv.KeyValue) (V, error) {
		v, err := read(r, item)
		if err == nil {
			s.clear(tx, item.Key)
		}
		return v, err
	})
}

// upTo returns the range on which having taken all items up to last depends.
func (s *store) upTo(last []byte) []kv.Range {
	return []kv.Range{{Begin: s.items.Range().Begin, End: kv.After(last)}}
}
