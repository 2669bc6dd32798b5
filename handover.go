package conq

import (
	"cmp"
	"slices"

	"github.com/conq-go/conq/internal/waiting"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

// What is added while the queue is empty and callers of the same handle wait for items is
// handed to them, in the transaction that adds it: it is as if they had taken it just after
// it was added. So it is never written, nor does anybody wait for the disk. That is
// elimination, as in Shavit and Touitou's trees, for what a combining leader finds. There
// must be nobody else who waits, as he may have come before.

// hand is an end of a queue where items may be handed to those who wait.
type hand[P any] interface {
	// expected returns how many may wait here in a moment, or 0 if it is not worth while to let
	// them come before n items are added. handed tells that the last batch was handed over.
	expected(n int, handed bool) int
	// taking tells whether items are being taken.
	taking() bool
	// level returns how many items there are to take, as far as the handle knows.
	level() int64
	// free returns how many wait, and hold would hold at most.
	free() int
	// hold returns nil if there is nobody to whom n payloads may be handed. Those who wait,
	// no more than n, are kept until deliver.
	hold(n int) offer[P]
}

// offer is what those who wait are about to get.
type offer[P any] interface {
	// deal decides what they get of payloads, and returns the others, in their order.
	deal(tx kv.Tx, payloads []P) (left []P, err error)
	// deliver gives them what was dealt, unless err is the error of the transaction. It counts
	// once.
	deliver(err error)
}

// hander is the hand of a taker.
type hander[P, V any] struct {
	t     *taker[V]
	order func([]P) []int // the indices of payloads as they are to be taken; nil if as they are
	value func(P) (V, error)
	size  func(P) int
}

func (h *hander[P, V]) expected(n int, handed bool) int {
	t := h.t
	waiting := t.room.Waiting()
	switch {
	case t.s.mayBeStaged(): // or other processes share the store
		return 0
	case waiting == 0 && !handed && !(t.active.Load() && h.level() <= int64(fewBatches*n)):
		return 0
	}
	return max(waiting, int(t.served.Load()))
}

func (h *hander[P, V]) taking() bool { return h.t.active.Load() }

func (h *hander[P, V]) level() int64 { return h.t.s.tally.level() }

func (h *hander[P, V]) free() int { return h.t.room.Free() }

func (h *hander[P, V]) hold(n int) offer[P] {
	t := h.t
	if t.s.signals.Others(t.s.name, t) {
		return nil
	}
	p := t.room.Hold(n)
	if p == nil {
		return nil
	}
	return &dealt[P, V]{hander: h, party: p}
}

// dealt is what those who wait at an end are about to get.
type dealt[P, V any] struct {
	*hander[P, V]
	party *waiting.Party[V]
	got   [][]V
}

func (d *dealt[P, V]) deal(tx kv.Tx, payloads []P) (left []P, err error) {
	wants := d.party.Wants()
	empty, err := d.t.s.empty(tx)
	if err != nil || !empty || len(wants) == 0 {
		d.deliver(err) // so that they can look
		return payloads, err
	}
	b, err := d.t.s.budget(sum(wants), waits)
	if err != nil {
		return nil, err
	}
	var order []int
	if d.order != nil {
		order = d.order(payloads)
	}
	n := d.dealEach(wants, payloads, order, b)
	if order == nil || n == len(payloads) {
		return payloads[n:], nil
	}
	return without(payloads, order[:n]), nil
}

// dealEach gives each of the first of those who want so many its items, while the budget
// lasts, and returns how many payloads these are: the first ones, in the given order.
func (d *dealt[P, V]) dealEach(wants []int, payloads []P, order []int, b budget) (n int) {
	values := make([]V, 0, min(b.items, len(payloads)))
	d.got = make([][]V, 0, len(wants))
	for _, want := range wants {
		from := len(values)
		for ; len(values)-from < want && n < cap(values) && !b.spent; n++ {
			payload := payloads[n]
			if order != nil {
				payload = payloads[order[n]]
			}
			v, err := d.value(payload)
			if b.bytes -= d.size(payload); err != nil || b.bytes < 0 && n > 0 {
				b.spent = true
				break
			}
			values = append(values, v)
		}
		if len(values) == from {
			break
		}
		d.got = append(d.got, values[from:len(values):len(values)])
	}
	return n
}

// without returns the elements of s but for those at some indices.
func without[E any](s []E, at []int) []E {
	at = slices.Sorted(slices.Values(at))
	left := make([]E, 0, len(s)-len(at))
	for i, e := range s {
		if len(at) > 0 && at[0] == i {
			at = at[1:]
			continue
		}
		left = append(left, e)
	}
	return left
}

func (d *dealt[P, V]) deliver(err error) {
	if d.party == nil {
		return
	}
	if len(d.got) == 0 {
		err = nil // it is none of theirs
	} else if err != nil {
		d.got = nil
	}
	party := d.party
	d.party = nil
	defer party.Deliver(d.got, err) // also if the observer panics
	n := 0
	for _, values := range d.got {
		n += len(values)
	}
	if n > 0 {
		d.t.served.Store(int32(len(d.got)))
		d.t.s.observe(Event{Kind: Taken, Calls: len(d.got), Items: n, Attempts: 1})
	}
}

// empty tells whether there are no items, which is then what tx depends on.
func (s *store) empty(tx kv.Tx) (bool, error) {
	r := tx.Snapshot()
	items, known, err := forwards{s}.known(r, 1, nil)
	if err != nil || len(items) > 0 {
		return false, err
	}
	if !known {
		for _, err := range (forwards{s}.items(r, 1)) {
			return false, err
		}
	}
	tx.AddReadConflict(s.span)
	return true, nil
}

// copied is a payload as it comes out of the store: the caller's own, and not nil.
func copied(payload []byte) []byte { return append([]byte{}, payload...) }

// fromLowest is the order in which PopMin takes payloads that are pushed together.
func fromLowest(payloads []prioritized) []int { return indices(byPriority(payloads)) }

// fromHighest returns the order in which PopMax does.
func fromHighest(ties recipe.Ties) func([]prioritized) []int {
	return func(payloads []prioritized) []int {
		order := byPriority(payloads)
		slices.Reverse(order) // those of one priority, too: the last pushed is first
		if ties == recipe.FirstPushed {
			slices.SortFunc(order, func(a, b placed) int {
				return cmp.Or(cmp.Compare(b.priority, a.priority), a.index-b.index)
			})
		}
		return indices(order)
	}
}

func indices(order []placed) []int {
	is := make([]int, len(order))
	for n, item := range order {
		is[n] = item.index
	}
	return is
}
