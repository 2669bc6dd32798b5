package handle

import (
	"cmp"
	"io"
	"slices"

	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// What tells the kinds of queues apart.

// algorithm is how a kind of queue finds the places of its items: its recipe.
type algorithm interface {
	// nextKeys returns the keys of items that are added, in their order.
	nextKeys(tx kv.Tx, items []Item, inUse recipe.InUse) ([][]byte, error)

	// priority returns that of an item by its key.
	priority(key []byte) (int64, error)

	// group returns that of recipe.InUse for items of a priority.
	group(priority int64) []byte
}

// orders are those in which items are taken, by staging.Side. A handle serves requests of
// others, too, so it knows all of them.
type orders [staging.BackFIFO + 1]recipe.Order

func newAlgorithm(kind types.Kind, name string, random io.Reader) (algorithm, orders) {
	items := subspace.Named(name)
	if kind == types.KindQueue {
		q := recipe.NewQueue(items, random)
		return fifo{q}, orders{staging.Front: q.Order(), staging.Back: q.Order(), staging.BackFIFO: q.Order()}
	}
	p := recipe.NewPriorityQueue(items, random, recipe.LastPushed)
	first := recipe.NewPriorityQueue(items, random, recipe.FirstPushed)
	return prioritized{p}, orders{staging.Front: p.MinOrder(), staging.Back: p.MaxOrder(), staging.BackFIFO: first.MaxOrder()}
}

// fifo is the algorithm of a Queue.
type fifo struct{ recipe.Queue }

func (f fifo) nextKeys(tx kv.Tx, items []Item, inUse recipe.InUse) ([][]byte, error) {
	return f.NextKeys(tx, len(items), inUse)
}

func (f fifo) priority([]byte) (int64, error) { return 0, nil }

func (f fifo) group(int64) []byte { return nil }

// prioritized is the algorithm of a PriorityQueue.
type prioritized struct{ recipe.PriorityQueue }

func (p prioritized) nextKeys(tx kv.Tx, items []Item, inUse recipe.InUse) ([][]byte, error) {
	priorities := make([]int64, len(items))
	for i, item := range items {
		priorities[i] = item.Priority
	}
	return p.NextKeys(tx, priorities, inUse)
}

func (p prioritized) priority(key []byte) (int64, error) { return p.Priority(key) }

func (p prioritized) group(priority int64) []byte { return tuple.AppendInt(nil, priority) }

// asTaken returns the indices of items that are added together in the order in which a side would
// take them.
func asTaken(side staging.Side, items []Item) []int {
	switch side {
	case staging.Back: // of one priority, too, the last is first
		order := ascending(items)
		slices.Reverse(order)
		return order
	case staging.BackFIFO:
		return sorted(items, func(a, b Item) int { return cmp.Compare(b.Priority, a.Priority) })
	}
	return ascending(items)
}
