package handle

import (
	"errors"
	"math"

	"github.com/conq-go/conq/errs"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
)

// A batch takes no more than this out of a queue, whatever the engine allows, so
// that it fits in memory.
const (
	maxBatchItems = 10_000
	maxBatchBytes = 8 << 20
)

// otherOperations is the most that a transaction of a handle writes beside items: what
// makes it exactly once, its place in the line of waiters, and the entries of dead
// ones there.
const otherOperations = 16

// budget is what a batch may still take. In a transaction of the caller's it is at most
// half of what the engine allows to one: the other half is for what it does with the
// items. In one of the handle's own it is all operations but a few.
type budget struct {
	items, bytes, operations int
	spent                    bool // something did not fit any more
}

func (q *queue) budget(n int, how strictness) budget {
	b := budget{items: min(n, maxBatchItems), bytes: maxBatchBytes, operations: math.MaxInt}
	if q.limits.Transaction > 0 {
		b.bytes = min(b.bytes, q.limits.Transaction/2)
	}
	if q.limits.Operations > 0 {
		b.operations = max(1, (q.limits.Operations-otherOperations)/2, q.limits.Operations/4)
	}
	if q.limits.Operations > 0 && how != exact {
		b.operations = max(b.operations, q.limits.Operations-otherOperations, q.limits.Operations/2)
	}
	return b
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

// firstItems returns the first items of a side: while the budget lasts, but at least one.
func (q *queue) firstItems(r kv.Reader, side staging.Side, b *budget) ([]kv.KeyValue, error) {
	if items, known, err := q.orders[side].Known(r, b.items); known || err != nil {
		return q.afford(items, b), err
	}
	return q.readItems(r, side, b)
}

// readItems is firstItems where the engine has to read.
func (q *queue) readItems(r kv.Reader, side staging.Side, b *budget) (items []kv.KeyValue, _ error) {
	for item, err := range q.items(r, side, b.items) {
		if errors.Is(err, errs.ErrDecode) && len(items) > 0 {
			b.spent = true // there is more, and the next call will tell
			return items, nil
		}
		if err != nil {
			return nil, err
		}
		if !b.spend(item, q.space.Keys(item.Key)) && len(items) > 0 {
			break
		}
		if items = append(items, item); !b.left() {
			break
		}
	}
	return items, nil
}

// afford returns the first items, while the budget lasts, but at least one.
func (q *queue) afford(items []kv.KeyValue, b *budget) []kv.KeyValue {
	for n, item := range items {
		if !b.spend(item, q.space.Keys(item.Key)) && n > 0 {
			return items[:n]
		}
	}
	return items
}

// affordPayloads returns how many of the first items have payloads that the budget lasts for,
// but at least one.
func (b budget) affordPayloads(items []Item) (n int) {
	for n < len(items) && n < b.items {
		if b.bytes -= len(items[n].Payload); b.bytes < 0 && n > 0 {
			break
		}
		n++
	}
	return n
}
