package recipe

import (
	"iter"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
)

// Order is an end of a queue, with the order in which items are taken there. Dequeue and the
// pops take the first one; callers who take several in one transaction take them from Items,
// through a snapshot, and conflict on what Covered says.
type Order struct {
	span    kv.Range // of all items
	reverse bool
	check   func(key []byte) error

	// If it is not nil, items are in order from the highest priority down, and those of one
	// priority as they were pushed. It returns the range of the items of a key's priority.
	group func(key []byte) (kv.Range, error)
}

// Order returns the order of Dequeue.
func (q Queue) Order() Order { return Order{span: q.Range(), check: q.check} }

// MinOrder returns the order of PopMin.
func (p PriorityQueue) MinOrder() Order { return Order{span: p.Range(), check: p.check} }

// MaxOrder returns the order of PopMax, by Ties.
func (p PriorityQueue) MaxOrder() Order {
	o := Order{span: p.Range(), check: p.check, reverse: true}
	if p.ties == FirstPushed {
		o.group = p.samePriority
	}
	return o
}

// Items returns the items. No more than limit will be looked at, or any number if that is 0.
// Keys are checked only as far as the order depends on them: then the error is an [ErrKey].
func (o Order) Items(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error] {
	if o.group != nil {
		return o.groups(r, limit)
	}
	first := o.Read(limit)
	return r.Range(first.Range, first.Options)
}

// Read is what Items reads first.
func (o Order) Read(limit int) kv.Read {
	if o.group != nil {
		return kv.Read{Range: o.span, Options: lastOne}
	}
	return kv.Read{Range: o.span, Options: kv.RangeOptions{Limit: limit, Reverse: o.reverse}}
}

// lastOne reads the last pair of a range.
var lastOne = kv.RangeOptions{Limit: 1, Reverse: true}

// Known returns what Items does, if the engine has it in memory; see [kvext.Known].
func (o Order) Known(r kv.Reader, limit int) (items []kv.KeyValue, known bool, err error) {
	if o.group != nil {
		return nil, false, nil
	}
	first := o.Read(limit)
	return kvext.Known(r, first.Range, first.Options, nil)
}

// groups returns the items of the last priority, then of the one before, and so on.
func (o Order) groups(r kv.Reader, limit int) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for rest := o.span; ; {
			same, found, err := o.lastGroup(r, rest)
			if err != nil {
				yield(kv.KeyValue{}, err)
			}
			if err != nil || !found {
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

// lastGroup returns the range of the items of the last priority. It is no kvext.LastKey, as what that
// returns through a snapshot may be of an earlier version than what is read next.
func (o Order) lastGroup(r kv.Reader, in kv.Range) (same kv.Range, found bool, err error) {
	for last, err := range r.Range(in, lastOne) {
		if err == nil {
			same, err = o.group(last.Key)
		}
		return same, err == nil, err
	}
	return same, false, nil
}

// Covered returns the ranges on which having taken all items up to the key last depends; or
// with a nil last, that there is none.
//
// Which priority is the highest follows from nothing being above it, and an item being in it:
// so the place where its next push goes stays free of conflicts.
func (o Order) Covered(last []byte) []kv.Range {
	switch {
	case last == nil:
		return []kv.Range{o.span}
	case o.group != nil:
		same, err := o.group(last)
		if err != nil {
			return []kv.Range{o.span} // can't be: Items found it by its priority
		}
		return []kv.Range{{Begin: same.Begin, End: kv.After(last)}, {Begin: same.End, End: o.span.End}}
	case o.reverse:
		return []kv.Range{{Begin: last, End: o.span.End}}
	}
	return []kv.Range{{Begin: o.span.Begin, End: kv.After(last)}}
}

// first returns the first item.
func (o Order) first(r kv.Reader) (item kv.KeyValue, ok bool, err error) {
	for item, err := range o.Items(r, 1) {
		if err == nil {
			err = o.check(item.Key)
		}
		if err != nil {
			return kv.KeyValue{}, false, err
		}
		return item, true, nil
	}
	return item, false, nil
}

// take removes the first item.
func (o Order) take(tx kv.Tx) (item kv.KeyValue, ok bool, err error) {
	if item, ok, err = o.first(tx.Snapshot()); err != nil {
		return item, false, err
	}
	for _, r := range o.Covered(item.Key) {
		tx.AddReadConflict(r)
	}
	if ok {
		tx.Clear(item.Key)
	}
	return item, ok, nil
}
