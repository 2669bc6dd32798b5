package handle

import (
	"errors"

	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// result is what one of several callers gets: an error, or at least one item.
type result struct {
	items []Item
	err   error
}

// gotten returns what the first callers got, and the error of the next one unless it is that there is nothing.
func gotten(results []result) (got [][]Item, err error) {
	got = make([][]Item, 0, len(results))
	for _, r := range results {
		switch {
		case isEmpty(r.err):
			return got, nil
		case r.err != nil:
			return got, r.err
		}
		got = append(got, r.items)
	}
	return got, nil
}

func count(results []result) (n int) {
	for _, r := range results {
		n += len(r.items)
	}
	return n
}

// splitter gives items to callers in order.
type splitter struct {
	q      *queue
	reader kv.Reader // of what the store has of items; nil if they are whole
	copies bool      // payloads, as they are not the caller's own
	items  []Item

	taken  int   // items that were given away: the first ones
	empty  bool  // a caller was told that there is nothing
	failed error // of the first item that is left: it does not decode
}

// split returns the results of the first callers. With all, the items are all that there are, and callers for whom none is
// left get ErrEmpty. A caller whose first item does not decode gets that error, and so do those behind it. One that has got
// items before it keeps these.
func (s *splitter) split(wants []int, all bool) ([]result, error) {
	results := make([]result, 0, len(wants))
	for _, want := range wants {
		r := result{items: s.next(want)}
		switch {
		case s.failed != nil && !errors.Is(s.failed, types.ErrDecode):
			return nil, s.failed
		case len(r.items) > 0:
		case s.failed != nil:
			r.err = s.failed
		case all:
			r.err, s.empty = types.ErrEmpty, true
		default:
			return results, nil // the others need another transaction
		}
		results = append(results, r)
	}
	return results, nil
}

// next gives away up to want items.
func (s *splitter) next(want int) []Item {
	from := s.taken
	for s.failed == nil && s.taken < len(s.items) && s.taken-from < want {
		if s.failed = s.decode(&s.items[s.taken]); s.failed == nil {
			s.taken++
		}
	}
	return s.items[from:s.taken:s.taken]
}

// decode fills in an item, or returns why it has to stay.
func (s *splitter) decode(item *Item) error {
	if s.copies {
		item.Payload = copied(item.Payload)
	}
	if s.reader != nil {
		if err := s.q.read(s.reader, item); err != nil {
			return err
		}
	}
	return s.q.decoded(item)
}

// conflicts is what a transaction depends on that returns fewer items than were wanted, besides those that it takes.
type conflicts int

const (
	ofEmpty conflicts = iota // that the queue was empty, if a caller is told so
	ofAll                    // also that there were no more than those
	ofTaken                  // on neither: callers that get nothing have no result, and wait on
)

// removesOnly tells whether a transaction conflicts on the items that it removes, and on nothing else. Then it counts as done
// at the version that it has read, and it is no matter what is added before it commits: docs/internals/concurrency.md has the
// argument. Where one process has the store, what lies between is over in microseconds, and takes agree with peeks, too.
func (q *queue) removesOnly(on conflicts) bool { return q.limits.Shared && on != ofAll }

// takeIn is the recipe's Dequeue or pop for several callers: it finds items, and clears those that they get. It takes most
// items at most. found is how many there were.
func (t *taker) takeIn(tx kv.Tx, wants []int, most int, on conflicts) (results []result, found int, err error) {
	results, taken, found, err := t.find(tx, wants, most, on)
	if err != nil {
		return nil, found, err
	}
	for _, item := range taken {
		if t.q.removesOnly(on) {
			tx.AddReadConflict(kv.KeyRange(item.Key))
		}
		t.q.space.Clear(tx, item.Key, item.keys)
	}
	return results, found, nil
}

// find reads the first items through a snapshot, and adds the conflicts by hand, since what it returns may depend on less than
// it has read. It serves the first of the callers, each of which wants so many items: as many as fit into a transaction,
// and at least one.
func (t *taker) find(tx kv.Tx, wants []int, most int, on conflicts) (results []result, taken []Item, found int, err error) {
	b := t.q.limit(most, on)
	items, err := t.q.firstItems(tx.Snapshot(), t.side, &b)
	if err != nil {
		return nil, nil, 0, err
	}
	s := &splitter{q: t.q, reader: tx, items: items}
	results, err = s.split(wants, b.left() && on != ofTaken)
	if err != nil {
		return nil, nil, len(items), err
	}
	if !t.q.removesOnly(on) {
		t.dependOn(tx, s, b.left(), on)
	}
	return results, s.items[:s.taken], len(items), nil
}

// dependOn conflicts on what was found; all tells that there is no more. A caller that is told that there is nothing must be
// right at the commit, and with ofAll also one that gets fewer than it wanted. Otherwise it is as if the transaction had
// run just before the item that came meanwhile. So consumers of a queue that is nearly empty do not conflict with its
// producers.
func (t *taker) dependOn(tx kv.Tx, s *splitter, all bool, on conflicts) {
	covered := []kv.Range{t.q.space.Items}
	switch {
	case len(s.items) == 0 && on == ofTaken:
		return
	case len(s.items) > 0 && !s.empty && (on != ofAll || !all || s.failed != nil):
		covered = t.q.orders[t.side].Covered(s.items[max(s.taken, 1)-1].Key)
	}
	for _, r := range covered {
		tx.AddReadConflict(r)
	}
}

// sum is how many items are wanted, or as many as a batch can be.
func sum(wants []int) (n int) {
	for _, want := range wants {
		if n += want; n < 0 || n > maxBatchItems {
			return maxBatchItems
		}
	}
	return n
}
