package conq

import (
	"iter"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
)

// direction is an end of a queue to take from: in which order, and how an item is read.
type direction[V any] struct {
	order
	reader[V]
}

type reader[V any] interface {
	readItem(kv.Reader, kv.KeyValue) (V, error)
}

// order is one in which items are taken. A key that is not an item's is an item that does not
// decode.
type order interface {
	// items returns them. limit is how many will be looked at, or 0.
	items(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error]

	// known appends them if they are at hand (see kv.Known).
	known(r kv.Reader, limit int, to []kv.KeyValue) (items []kv.KeyValue, known bool, err error)

	// covered appends the ranges on which having taken all up to last depends.
	covered(to []kv.Range, last []byte) []kv.Range
}

// forwards and backwards are the orders of the keys.
type (
	forwards  struct{ *store }
	backwards struct{ *store }
)

func (f forwards) items(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error] {
	return r.Range(f.span, kv.RangeOptions{Limit: limit})
}

func (f forwards) known(r kv.Reader, limit int, to []kv.KeyValue) ([]kv.KeyValue, bool, error) {
	return kv.Known(r, f.span, kv.RangeOptions{Limit: limit}, to)
}

func (f forwards) covered(to []kv.Range, last []byte) []kv.Range {
	return append(to, kv.Range{Begin: f.span.Begin, End: kv.After(last)})
}

func (b backwards) items(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error] {
	return r.Range(b.span, kv.RangeOptions{Limit: limit, Reverse: true})
}

func (b backwards) known(r kv.Reader, limit int, to []kv.KeyValue) ([]kv.KeyValue, bool, error) {
	return kv.Known(r, b.span, kv.RangeOptions{Limit: limit, Reverse: true}, to)
}

func (b backwards) covered(to []kv.Range, last []byte) []kv.Range {
	return append(to, kv.Range{Begin: last, End: b.span.End})
}

// descending is the order by priority from the highest down, and for each priority that of
// the pushes: with FIFOTies, that of PopMax.
type descending[T any] struct{ *PriorityQueue[T] }

func (d descending[T]) items(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for rest := d.store.span; ; {
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

func (d descending[T]) known(kv.Reader, int, []kv.KeyValue) ([]kv.KeyValue, bool, error) {
	return nil, false, nil
}

// covered is the items of last's priority up to last, and all of higher priorities.
func (d descending[T]) covered(to []kv.Range, last []byte) []kv.Range {
	priority, err := d.store.integer(last, 0)
	if err != nil {
		return append(to, d.store.span) // can't be: items found it by its priority
	}
	same := d.store.ofPriority(priority)
	return append(to, kv.Range{Begin: same.Begin, End: kv.After(last)}, kv.Range{Begin: same.End, End: d.store.span.End})
}

// samePriority returns the range of the items of the priority of one.
func (p *PriorityQueue[T]) samePriority(key []byte) (kv.Range, error) {
	priority, err := p.priority(key)
	if err != nil {
		return kv.Range{}, err
	}
	return p.store.ofPriority(priority), nil
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
