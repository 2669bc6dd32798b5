package conq

import (
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/conq-go/conq/kv"
)

// A batch takes no more than this out of a queue, whatever the engine allows, so
// that it fits in memory.
const (
	maxBatchItems = 10_000
	maxBatchBytes = 8 << 20
)

// otherOperations is the most that a transaction of a handle writes beside items: what
// makes it exactly once, its place in the line of those who wait, and the entries of dead
// ones there.
const otherOperations = 16

// budget is what a batch may still take. In a transaction of the caller's it is at most
// half of what the engine allows to one: the other half is for what it does with the
// items. In one of the handle's own it is all operations but a few.
type budget struct {
	items, bytes, operations int
	spent                    bool // something did not fit any more
}

func (s *store) budget(n int, how strictness) (b budget, err error) {
	if n <= 0 {
		return b, fmt.Errorf("conq: queue %q: a batch of %d items: at least 1 is needed", s.name, n)
	}
	b = budget{items: min(n, maxBatchItems), bytes: maxBatchBytes, operations: math.MaxInt}
	if s.limits.Transaction > 0 {
		b.bytes = min(b.bytes, s.limits.Transaction/2)
	}
	if s.limits.Operations > 0 {
		b.operations = max(1, (s.limits.Operations-otherOperations)/2, s.limits.Operations/4)
	}
	if s.limits.Operations > 0 && how != exact {
		b.operations = max(b.operations, s.limits.Operations-otherOperations, s.limits.Operations/2)
	}
	return b, nil
}

// left tells whether more would have been taken, had there been more.
func (b *budget) left() bool { return b.items > 0 && !b.spent }

// spend takes off what an item over n keys costs, and tells whether it was there.
func (b *budget) spend(item kv.KeyValue, n int) bool {
	b.items--
	b.bytes -= n * (len(item.Key) + len(item.Value)) // all pieces but the last are as long as the first
	b.operations -= n                                // to clear them
	b.spent = b.bytes < 0 || b.operations < 0
	return !b.spent
}

// gather returns the first items, in memory: while the budget lasts, but at least one.
func gather[V any](s *store, r kv.Reader, d direction[V], b *budget, memory []kv.KeyValue) ([]kv.KeyValue, error) {
	items, known, err := d.known(r, b.items, memory)
	switch {
	case err != nil:
		return nil, err
	case known:
		return s.afford(items, b), nil
	}
	rest := *b // so that *b need not be on the heap where items are known
	items, err = s.gather(d.items(r, b.items), &rest, memory)
	*b = rest
	return items, err
}

// afford returns the first items, while the budget lasts, but at least one.
func (s *store) afford(items []kv.KeyValue, b *budget) []kv.KeyValue {
	for i, item := range items {
		if !s.spend(item, b) && i > 0 {
			return items[:i]
		}
	}
	return items
}

// spend takes off b what an item costs, and tells whether it was there.
func (s *store) spend(item kv.KeyValue, b *budget) bool {
	return b.spend(item, s.keys(item.Key))
}

func (s *store) gather(items iter.Seq2[kv.KeyValue, error], b *budget, taken []kv.KeyValue) ([]kv.KeyValue, error) {
	for item, err := range items {
		if errors.Is(err, ErrDecode) && len(taken) > 0 {
			b.spent = true // there is more, and the next call will tell
			return taken, nil
		}
		if err != nil {
			return nil, err
		}
		if !s.spend(item, b) && len(taken) > 0 {
			break
		}
		if taken = append(taken, item); !b.left() {
			break
		}
	}
	return taken, nil
}

// share is what one of several callers gets: an error, or at least one value. A caller that wants
// no more than one needs no memory for it.
type share[V any] struct {
	first  V
	values []V // with the first; nil if that is all
	err    error
}

func shareOf[V any](values []V, err error) share[V] {
	if err != nil {
		return share[V]{err: err}
	}
	return share[V]{first: values[0], values: values}
}

func (s share[V]) one() (V, error) { return s.first, s.err }

func (s share[V]) all() ([]V, error) {
	if s.err == nil && s.values == nil {
		return []V{s.first}, nil
	}
	return s.values, s.err
}

func (s share[V]) count() int {
	switch {
	case s.err != nil:
		return 0
	case s.values == nil:
		return 1
	default:
		return len(s.values)
	}
}

// buffers are for what takeShares finds, and what its next attempt uses again.
type buffers struct {
	items   []kv.KeyValue
	covered []kv.Range
	most    int // items to look for, after more were too large for a transaction; 0 for as many as there may be
}

// halve has fewer items taken after an error which says that those found are too large for a
// transaction, if fewer can be: an engine may count more than a budget knows of, as FoundationDB
// counts keys.
func (m *buffers) halve(err error) bool {
	if len(m.items) < 2 || !errors.Is(err, kv.ErrTooLarge) {
		return false
	}
	m.most = len(m.items) / 2
	return true
}

// takeN takes up to n items within a transaction of the caller, who may go on to
// Clear what is left: so that there are no more than it got must be exact.
func takeN[V any](s *store, tx kv.Tx, n int, d direction[V]) ([]V, error) {
	shares, err := takeShares(s, tx, []int{n}, d, exact, new(buffers))
	if err != nil {
		return nil, err
	}
	return shares[0].all()
}

// strictness is what has to be true at the commit when takeShares returns fewer items than
// were wanted.
type strictness int

const (
	loose strictness = iota // that the queue was empty, if somebody is told so
	exact                   // also that there were no more than those
	waits                   // neither: callers who get nothing have no share, and wait on
)

// takeShares is the recipe's Dequeue or pop for several items: read the first ones, clear
// them, and conflict on what was read. It reads a snapshot and adds the conflicts by hand,
// since what it returns may depend on less than it has read. It serves the first of the
// callers, each of whom wants so many items: as many as fit into a transaction, and at
// least one.
//
// A caller who is told that there is nothing must be right at the commit, and with exact
// also one that gets fewer than it wanted. Otherwise it is as if the transaction had run
// just before the item that came meanwhile. So consumers of a queue that is nearly empty
// do not conflict with its producers.
func takeShares[V any](s *store, tx kv.Tx, wants []int, d direction[V], how strictness, m *buffers) ([]share[V], error) {
	n := sum(wants)
	if m.most > 0 {
		n = min(n, m.most)
	}
	b, err := s.budget(n, how)
	if err != nil {
		return nil, err
	}
	items, err := gather(s, tx.Snapshot(), d, &b, m.items[:0])
	if err != nil {
		return nil, err
	}
	m.items = items
	t := deal[V]{reader: d.reader, items: items}
	shares, err := t.deal(tx, wants, b.left() && how != waits)
	if err != nil || len(items) == 0 && how == waits {
		return nil, err
	}
	if len(items) > 0 && !t.empty && (how != exact || !b.left() || t.broken) {
		m.covered = d.covered(m.covered[:0], items[max(t.taken, 1)-1].Key)
		for _, r := range m.covered {
			tx.AddReadConflict(r)
		}
	} else {
		tx.AddReadConflict(s.span)
	}
	for _, item := range items[:t.taken] {
		s.clear(tx, item.Key)
	}
	return shares, nil
}

// sum is how many items are wanted, or as many as a batch can be.
func sum(wants []int) (n int) {
	for _, want := range wants {
		if want <= 0 {
			return want
		}
		if n += want; n < 0 || n > maxBatchItems {
			return maxBatchItems
		}
	}
	return n
}

// deal gives items to callers in order.
type deal[V any] struct {
	reader reader[V]
	items  []kv.KeyValue

	taken  int  // items that were given away: the first ones
	empty  bool // somebody was told that there is nothing
	broken bool // an item does not decode
}

// deal returns the shares of the first callers. With all, the
// items are all that there are, and callers for whom none is left get ErrEmpty. A caller
// whose first item does not decode gets that error, and so do those behind him; one who
// has got items before it keeps these.
func (d *deal[V]) deal(r kv.Reader, wants []int, all bool) ([]share[V], error) {
	var failed error
	shares := make([]share[V], 0, len(wants))
	for _, want := range wants {
		var s share[V]
		from := d.taken
		for d.taken-from < want && d.taken < len(d.items) && failed == nil {
			var v V
			if v, failed = d.reader.readItem(r, d.items[d.taken]); failed != nil {
				break
			}
			if d.taken == from {
				s.first = v
			}
			if want > 1 {
				if s.values == nil {
					s.values = make([]V, 0, min(want, len(d.items)-from))
				}
				s.values = append(s.values, v)
			}
			d.taken++
		}
		switch d.broken = failed != nil; {
		case failed != nil && !errors.Is(failed, ErrDecode):
			return nil, failed
		case d.taken > from:
		case failed != nil:
			s.err = failed
		case all:
			s.err, d.empty = ErrEmpty, true
		default:
			return shares, nil // the others need another transaction
		}
		shares = append(shares, s)
	}
	return shares, nil
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
