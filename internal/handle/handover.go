package handle

import (
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
)

// What is added while the queue is empty and callers of the same handle wait for items is
// handed to them, in the transaction that adds it: it is as if they had taken it just after
// it was added. So it is never written, nor does a call wait for the disk. That is
// elimination, as in Shavit and Touitou's trees, for what a combining leader finds. No caller
// of another handle may wait, as it may have come before.

// consumers are the callers that take at one end of a queue.
type consumers interface {
	// expected returns how many may wait here in a moment, or 0 if it is not worth while to let
	// them come before n items are added. handed tells that the last batch was handed over.
	expected(n int, handed bool) int
	// taking tells whether items are being taken.
	taking() bool
	// level returns how many items there are to take, as far as the handle knows.
	level() int64
	// free returns how many wait, and hold would hold at most.
	free() int
	// hold has up to n callers that wait stay until deliver, or returns nil if no items may be
	// handed to any.
	hold(n int) *offer
}

func (t *taker) expected(n int, handed bool) int {
	waiting := t.list.Waiting()
	switch {
	case t.q.signals == nil: // other processes may share the store
		return 0
	case waiting == 0 && !handed && !(t.active.Load() && t.level() <= int64(fewBatches*n)):
		return 0
	}
	return max(waiting, int(t.served.Load()))
}

func (t *taker) taking() bool { return t.active.Load() }

func (t *taker) level() int64 { return t.q.tally.level() }

func (t *taker) free() int { return t.list.Free() }

func (t *taker) hold(n int) *offer {
	if t.q.signals.Others(t.q.name, t) {
		return nil
	}
	p := t.list.Hold(n)
	if p == nil {
		return nil
	}
	return &offer{taker: t, waiters: p}
}

// offer is what callers that wait at an end are about to get.
type offer struct {
	*taker
	waiters *waiters // nil once it was delivered
	got     [][]Item
}

// deal decides what they get of items, and returns the others, in their order.
func (o *offer) deal(tx kv.Tx, items []Item) (left []Item, err error) {
	wants := o.waiters.Wants()
	empty, err := o.q.empty(tx)
	if err != nil || !empty || len(wants) == 0 {
		o.deliver(err) // so that they can look
		return items, err
	}
	b := o.q.limit(sum(wants), waits)
	order := asTaken(o.side, items)
	d := &deal{q: o.q, copies: true}
	for _, i := range order {
		d.items = append(d.items, items[i])
	}
	d.items = d.items[:b.affordPayloads(d.items)]
	shares, err := d.deal(wants, false)
	if err != nil {
		return nil, err
	}
	o.got, _ = gotten(shares) // the error is of a caller that got nothing: its items are added
	return without(items, order[:d.taken]), nil
}

// without returns the items that are not at some indices.
func without(items []Item, at []int) []Item {
	gone := make([]bool, len(items))
	for _, i := range at {
		gone[i] = true
	}
	left := make([]Item, 0, len(items)-len(at))
	for i, item := range items {
		if !gone[i] {
			left = append(left, item)
		}
	}
	return left
}

// deliver gives them what was dealt, unless err is the error of the transaction. It counts
// once.
func (o *offer) deliver(err error) {
	if o.waiters == nil {
		return
	}
	if len(o.got) == 0 {
		err = nil // it does not concern them
	} else if err != nil {
		o.got = nil
	}
	waiters := o.waiters
	o.waiters = nil
	defer waiters.Deliver(o.got, err) // also if the observer panics
	n := 0
	for _, items := range o.got {
		n += len(items)
	}
	if n > 0 {
		o.served.Store(int32(len(o.got)))
		o.q.observe(Event{Kind: Taken, Calls: len(o.got), Items: n, Attempts: 1})
	}
}

// empty tells whether there are no items, which is then what tx depends on.
func (q *queue) empty(tx kv.Tx) (bool, error) {
	_, found, err := q.first(tx.Snapshot(), staging.Front)
	if err != nil || found {
		return false, err
	}
	tx.AddReadConflict(q.space.Items)
	return true, nil
}

// first returns the first item of a side.
func (q *queue) first(r kv.Reader, side staging.Side) (item kv.KeyValue, found bool, err error) {
	items, err := q.firstItems(r, side, &limit{items: 1})
	if err != nil || len(items) == 0 {
		return item, false, err
	}
	return items[0], true, nil
}
