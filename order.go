package conq

import (
	"cmp"
	"iter"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
)

// order is one in which items are taken. A key that is not an item's is an item that does not
// decode.
type order interface {
	// items returns them. limit is how many will be looked at, or 0.
	items(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error]

	// known returns them if they are at hand (see kv.Known).
	known(r kv.Reader, limit int) (items []kv.KeyValue, known bool, err error)

	// covered returns the ranges on which having taken all up to last depends.
	covered(last []byte) []kv.Range

	// sorted returns the indices of items that are added together in the order in which
	// they would be taken.
	sorted(items []Item) []int
}

// forwards and backwards are the orders of the keys.
type (
	forwards  struct{ *store }
	backwards struct{ *store }
)

func (f forwards) items(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error] {
	return r.Range(f.span, kv.RangeOptions{Limit: limit})
}

func (f forwards) known(r kv.Reader, limit int) ([]kv.KeyValue, bool, error) {
	return kv.Known(r, f.span, kv.RangeOptions{Limit: limit}, nil)
}

func (f forwards) covered(last []byte) []kv.Range {
	return []kv.Range{{Begin: f.span.Begin, End: kv.After(last)}}
}

func (f forwards) sorted(items []Item) []int { return ascending(items) }

func (b backwards) items(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error] {
	return r.Range(b.span, kv.RangeOptions{Limit: limit, Reverse: true})
}

func (b backwards) known(r kv.Reader, limit int) ([]kv.KeyValue, bool, error) {
	return kv.Known(r, b.span, kv.RangeOptions{Limit: limit, Reverse: true}, nil)
}

func (b backwards) covered(last []byte) []kv.Range {
	return []kv.Range{{Begin: last, End: b.span.End}}
}

// sorted has of one priority, too, the last that is added first.
func (b backwards) sorted(items []Item) []int {
	order := ascending(items)
	slices.Reverse(order)
	return order
}

// descending is the order by priority from the highest down, and for each priority that of
// the pushes: with FIFOTies, that of PopMax.
type descending struct{ *store }

func (d descending) items(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for rest := d.span; ; {
			last, found, err := lastOf(r, rest)
			if err == nil && !found {
				return
			}
			var same kv.Range
			if err == nil {
				same, err = d.samePriority(last.Key)
			}
			if err != nil {
				yield(kv.KeyValue{}, err)
				return
			}
			for item, err := range r.Range(same, kv.RangeOptions{Limit: limit}) {
				if !yield(item, err) || err != nil {
					return
				}
			}
			rest.End = same.Begin
		}
	}
}

func (d descending) known(kv.Reader, int) ([]kv.KeyValue, bool, error) { return nil, false, nil }

// covered is the items of last's priority up to last, and all of higher priorities.
func (d descending) covered(last []byte) []kv.Range {
	same, err := d.samePriority(last)
	if err != nil {
		return []kv.Range{d.span} // can't be: items found it by its priority
	}
	return []kv.Range{{Begin: same.Begin, End: kv.After(last)}, {Begin: same.End, End: d.span.End}}
}

func (d descending) sorted(items []Item) []int {
	return sorted(items, func(a, b Item) int { return cmp.Compare(b.Priority, a.Priority) })
}

// samePriority returns the range of the items of the priority of one.
func (s *store) samePriority(key []byte) (kv.Range, error) {
	priority, err := s.layout.priority(key)
	if err != nil {
		return kv.Range{}, s.foreign(err)
	}
	return s.ofPriority(priority), nil
}

func lastOf(r kv.Reader, in kv.Range) (last kv.KeyValue, found bool, err error) {
	for item, err := range r.Range(in, kv.RangeOptions{Limit: 1, Reverse: true}) {
		return item, err == nil, err
	}
	return last, false, nil
}

// ofPriority returns the range of the items of one priority.
func (s *store) ofPriority(priority int64) kv.Range {
	return subspace.FromBytes(appendInt(s.prefix(), priority)).Range()
}
