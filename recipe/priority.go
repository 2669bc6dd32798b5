package recipe

import (
	"io"
	"iter"
	"slices"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
)

// Ties says which of several items of the highest priority comes first from
// Max and PopMax. Of the lowest priority, the first pushed always does. A value
// that is not listed is LastPushed.
type Ties int

const (
	// LastPushed takes the last key of the queue, as FoundationDB's recipe does.
	LastPushed Ties = iota

	// FirstPushed takes the first pushed, at the cost of a second read.
	FirstPushed
)

// PriorityQueue is FoundationDB's recipe "Priority Queues": the lowest or the
// highest priority first, any int64.
//
// What conflicts:
//   - Push and NextKey: nothing. They only read a snapshot.
//   - PopMin and Min: the range from the start of the queue to the item,
//     inclusive. So with another pop of that item, with pushes of a lower
//     priority, and with a push of the same priority that is ordered before it;
//     not with other pushes of the same priority, nor with anything above.
//   - PopMax and Max with LastPushed: the range from the item, inclusive, to the
//     end of the queue. So with another pop of that item and with pushes of the
//     same or a higher priority; not with anything below.
//   - PopMax with FirstPushed: the keys of that priority up to the item,
//     inclusive, and all keys of higher priorities. So with another pop of that
//     item, with pushes of a higher priority, and with a push of the same
//     priority that is ordered before it; not with other pushes of the same
//     priority, nor with pops at the low end as long as that is another item.
//   - Max with FirstPushed: that, and the last key. So also with all pushes of
//     the same priority.
//   - Any of these when the queue is empty: all of it, so any push.
//   - Items: what the loop has covered, as kv.Reader.Range says.
//   - Clear: nothing. It removes also what others have committed meanwhile.
//
// What order holds:
//   - By priority.
//   - Within a priority, that of a [Queue]: as pushed in one transaction, and as
//     committed if one push's transaction committed before the other's began.
//
// What is not guaranteed:
//   - The order of concurrent pushes of one priority.
//   - That counts are unique, or without gaps, or ever larger: a priority that
//     has no items begins at 0 again. Keys are unique.
//
// The zero value is no queue: its methods panic.
type PriorityQueue struct {
	items  subspace.Subspace
	span   kv.Range // of items
	random io.Reader
	ties   Ties
}

// NewPriorityQueue returns the priority queue whose items are in a subspace,
// which should hold nothing else. random is as in [NewQueue]. ties does not
// change how items are stored.
func NewPriorityQueue(items subspace.Subspace, random io.Reader, ties Ties) PriorityQueue {
	return PriorityQueue{items, items.Range(), random, ties}
}

// Push adds an item of a priority. It has no conflict. The error is of a read,
// of the random source, [ErrNoIndex], or [ErrKey]; a value that is too large makes
// the commit fail.
func (p PriorityQueue) Push(tx kv.Tx, value []byte, priority int64) error {
	key, err := p.NextKey(tx, priority)
	if err != nil {
		return err
	}
	tx.Set(key, value)
	return nil
}

// NextKey returns the key of the next item of a priority, for callers who set
// it themselves. It differs each time. Conflicts and errors are those of Push.
func (p PriorityQueue) NextKey(tx kv.Tx, priority int64) ([]byte, error) {
	keys, err := p.NextKeys(tx, []int64{priority}, nil)
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

// NextKeys returns the keys of the next items, one for each of some priorities, in order: the
// last count of each priority is read once, and each item takes the next one. inUse may be
// nil. Conflicts and errors are those of Push, and the errors of inUse.
func (p PriorityQueue) NextKeys(tx kv.Tx, priorities []int64, inUse InUse) ([][]byte, error) {
	different := slices.Clone(priorities)
	slices.Sort(different)
	different = slices.Compact(different)
	groups := make([]kv.Range, len(different))
	for i, priority := range different {
		groups[i] = p.of(priority)
	}
	counts, err := p.lastCounts(tx, groups, inUse)
	if err != nil {
		return nil, err
	}
	random, err := draw(p.random, len(priorities))
	if err != nil {
		return nil, err
	}
	keys := make([][]byte, len(priorities))
	for i, priority := range priorities {
		at, _ := slices.BinarySearch(different, priority)
		if counts[at], err = next(counts[at]); err != nil {
			return nil, err
		}
		keys[i] = newKey(prefix(groups[at]), counts[at], random[i*RandomSize:][:RandomSize])
	}
	return keys, nil
}

// lastCounts returns the last count of each of several priorities, or -1 where there is none.
func (p PriorityQueue) lastCounts(tx kv.Tx, groups []kv.Range, inUse InUse) ([]int64, error) {
	last, err := kvext.LastKeys(tx.Snapshot(), groups, p.Range(), nil)
	if err != nil {
		return nil, err
	}
	counts := make([]int64, len(groups))
	for i, same := range groups {
		if counts[i] = -1; last[i] != nil {
			ints, err := parse(prefix(same), last[i], 1)
			if err != nil {
				return nil, err
			}
			counts[i] = ints[0]
		}
		if counts[i], err = inUse.last(tx, prefix(same)[len(prefix(p.span)):], counts[i]); err != nil {
			return nil, err
		}
	}
	return counts, nil
}

// of returns the range of the items of one priority: from its prefix and a zero byte on.
func (p PriorityQueue) of(priority int64) kv.Range { return p.items.RangeOfInt(priority) }

// PopMin removes the first pushed item of the lowest priority and returns it.
// ok is false if the queue is empty, or after an error: of a read, or [ErrKey].
func (p PriorityQueue) PopMin(tx kv.Tx) (item kv.KeyValue, ok bool, err error) {
	return p.MinOrder().take(tx)
}

// PopMax removes an item of the highest priority, which one is said by Ties,
// and returns it. ok and err are as in PopMin.
func (p PriorityQueue) PopMax(tx kv.Tx) (item kv.KeyValue, ok bool, err error) {
	return p.MaxOrder().take(tx)
}

// Min returns what PopMin would, and removes nothing. Read through a snapshot,
// it has no conflict.
func (p PriorityQueue) Min(r kv.Reader) (item kv.KeyValue, ok bool, err error) {
	return p.MinOrder().first(r)
}

// Max returns what PopMax would, and removes nothing. Read through a snapshot,
// it has no conflict.
func (p PriorityQueue) Max(r kv.Reader) (item kv.KeyValue, ok bool, err error) {
	return p.MaxOrder().first(r)
}

// samePriority returns the range of all items of the priority of one.
func (p PriorityQueue) samePriority(key []byte) (kv.Range, error) {
	priority, err := p.Priority(key)
	return p.of(priority), err
}

// Priority returns the priority of an item by its key. The error is an
// [ErrKey].
func (p PriorityQueue) Priority(key []byte) (int64, error) {
	ints, err := parse(prefix(p.span), key, 2)
	return ints[0], err
}

// Items returns the items, the lowest priority first and in a priority the first
// pushed first; or all of that in reverse. It ends after the first error, which
// may be [ErrKey].
func (p PriorityQueue) Items(r kv.Reader, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return checked(r, p.Range(), opts, p.check)
}

func (p PriorityQueue) check(key []byte) error {
	_, err := p.Priority(key)
	return err
}

// Clear removes all items that are there when the transaction commits, those it
// has not seen too. It has no conflict.
func (p PriorityQueue) Clear(tx kv.Tx) { tx.ClearRange(p.Range()) }

// Range returns the range of all items' keys.
func (p PriorityQueue) Range() kv.Range { return made(p.span) }
