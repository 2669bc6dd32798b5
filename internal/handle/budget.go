package handle

import (
	"errors"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// A batch takes no more than this out of a queue, whatever the engine allows, so
// that it fits in memory.
const (
	maxBatchItems = 10_000
	maxBatchBytes = 8 << 20
)

// limit is what a batch may still take. In a transaction of the caller's it is at most half of what the engine allows to
// one: the other half is for what it does with the items.
type limit struct {
	budget.Budget
	items int
	spent bool // something did not fit any more
}

func (q *queue) limit(n int, on conflicts) limit {
	b := budget.Of(q.limits)
	if on == ofAll {
		b.Operations = b.Part(2).Operations
	}
	b.Bytes = min(b.Bytes, maxBatchBytes)
	return limit{Budget: b, items: min(n, maxBatchItems)}
}

// left tells whether more would have been taken, had there been more.
func (b *limit) left() bool { return b.items > 0 && !b.spent }

// spend takes off what an item that was found costs, and tells whether it was there.
func (b *limit) spend(item Item) bool {
	b.items--
	n := max(1, item.keys)
	b.spent = !b.Spend(n, n*(len(item.Key)+len(item.Payload))) // to clear them; all pieces but the last are as long as the first
	return !b.spent
}

// firstItems returns the first items of a side: while the budget lasts, but at least one.
func (q *queue) firstItems(r kv.Reader, side staging.Side, b *limit) ([]Item, error) {
	if pairs, known, err := q.orders[side].Known(r, b.items); known || err != nil {
		return q.afford(pairs, b), err
	}
	return q.readItems(r, side, b)
}

// readItems is firstItems where the engine has to read.
func (q *queue) readItems(r kv.Reader, side staging.Side, b *limit) (items []Item, _ error) {
	for pair, err := range q.items(r, side, b.items) {
		if errors.Is(err, types.ErrDecode) && len(items) > 0 {
			b.spent = true // there is more, and the next call will tell
			return items, nil
		}
		if err != nil {
			return nil, err
		}
		item := q.found(pair)
		if !b.spend(item) && len(items) > 0 {
			break
		}
		if items = append(items, item); !b.left() {
			break
		}
	}
	return items, nil
}

// afford returns the first items, while the budget lasts, but at least one.
func (q *queue) afford(pairs []kv.KeyValue, b *limit) []Item {
	items := make([]Item, 0, len(pairs))
	for _, pair := range pairs {
		item := q.found(pair)
		if !b.spend(item) && len(items) > 0 {
			break
		}
		items = append(items, item)
	}
	return items
}

// affordPayloads returns how many of the first items have payloads that the budget lasts for,
// but at least one.
func (b limit) affordPayloads(items []Item) (n int) {
	for n < len(items) && n < b.items {
		if b.Bytes -= len(items[n].Payload); b.Bytes < 0 && n > 0 {
			break
		}
		n++
	}
	return n
}
