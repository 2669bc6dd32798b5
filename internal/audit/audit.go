// Package audit checks what concurrent clients saw of a queue. It knows nothing
// of how the clients work or where the items are kept: it is given when each
// call began and returned and what it moved, and says what a correct queue could
// not have done.
//
// # What is checked
//
//   - Nothing lost: each item that was put is taken.
//   - Nothing twice: no item is taken more than once.
//   - Nothing invented: no item is taken that was not put, or before its put
//     began.
//   - Order kept. A call happens at some moment between its beginning and its
//     return; those moments are unknown, so of two calls that overlap either may
//     be first. A take of item B is out of order only if, whatever the moments
//     were, some other item A lay in front of B in the queue from before the take
//     began until after it returned.
//   - No false empty: no take found nothing while some item lay in the queue
//     from before it began until after it returned.
//
// A priority queue has a front (the lowest priority) and a back (the highest).
// Items of equal priority leave the front in the order in which they were put,
// and the back in the opposite one. A FIFO
// queue is a priority queue whose items all have one priority and leave from the
// front.
//
// # How
//
// Each of the order rules asks, for a take of B, whether there is an A that was
// put before a moment, is taken after another one, and has a key below B's. One
// sweep over the moments of putting, with a Fenwick tree over the keys that
// holds the latest taking, answers all such questions in O(n log n).
//
// Nothing here is safe for concurrent use: clients record apart, and their
// records are joined afterwards.
package audit

import (
	"fmt"
	"time"

	"github.com/conq-go/conq/queue"
)

// Span is when a call began and when it returned, both since one common moment
// on the monotonic clock.
type Span struct {
	Call, Return time.Duration
}

func (s Span) String() string { return fmt.Sprintf("%v..%v", s.Call, s.Return) }

// Put is a put that succeeded.
type Put struct {
	Span
	// ID tells items apart: no two puts of a history have the same one.
	ID uint64
	// Priority is the item's priority. Default: 0, as for all items of a FIFO
	// queue.
	Priority int64
}

// Take is a take that returned an item.
type Take struct {
	Span
	// ID is the put's.
	ID uint64
	// Unknown tells that what was taken is nobody's item: ID has no meaning.
	Unknown bool
	// From is the end from which the item was taken. A FIFO queue has queue.Min only.
	From queue.End
}

// History is what all clients of one queue did, in any order. The queue was
// empty at the beginning and was emptied at the end.
type History struct {
	Puts  []Put
	Takes []Take
	// Empties are the takes that found nothing.
	Empties []Span
}

// Finding is the outcome of one check.
type Finding struct {
	// Check is the rule, as "nothing lost".
	Check string `json:"check"`
	// Broken is how often it was broken.
	Broken int `json:"broken"`
	// Example describes one case. Empty if there is none.
	Example string `json:"example,omitempty"`
}

// Add notes one case.
func (f *Finding) Add(format string, args ...any) {
	f.Broken++
	if f.Broken == 1 {
		f.Example = fmt.Sprintf(format, args...)
	}
}

// Check returns a finding for each rule, always all of them and in the same
// order: lost, twice, invented, order, empty.
func (h *History) Check() []Finding {
	items, twice, invented := h.match()
	taken, lost := h.lost(items)
	return []Finding{lost, twice, invented, h.order(taken), h.empty(taken)}
}

// item is a put and its first take, if it has one.
type item struct {
	Put
	take    Take
	isTaken bool
}

// match joins puts and takes.
func (h *History) match() (items []item, twice, invented Finding) {
	twice.Check, invented.Check = "nothing twice", "nothing invented"
	items = make([]item, len(h.Puts))
	at := make(map[uint64]int, len(h.Puts))
	for i, p := range h.Puts {
		items[i].Put = p
		at[p.ID] = i
	}
	for _, t := range h.Takes {
		i, known := at[t.ID]
		switch {
		case t.Unknown || !known:
			invented.Add("the take at %v returned something that was never put", t.Span)
		case items[i].isTaken:
			twice.Add("item %d was taken at %v and again at %v", t.ID, items[i].take.Span, t.Span)
		case t.Return < items[i].Call:
			invented.Add("item %d was taken at %v, before it was put at %v", t.ID, t.Span, items[i].Span)
		default:
			items[i].take, items[i].isTaken = t, true
		}
	}
	return items, twice, invented
}

// lost reports the items that were not taken and returns the others.
func (h *History) lost(items []item) (taken []item, lost Finding) {
	lost.Check = "nothing lost"
	for _, it := range items {
		if it.isTaken {
			taken = append(taken, it)
			continue
		}
		lost.Add("item %d was put at %v and never taken", it.ID, it.Span)
	}
	return taken, lost
}
