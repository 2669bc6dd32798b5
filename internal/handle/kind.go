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

// nextKeys returns the keys of items that are added, in their order, by the recipe of the kind.
type nextKeys func(tx kv.Tx, items []Item, inUse recipe.InUse) ([][]byte, error)

// orders are those in which items are taken, by staging.Side. A handle serves requests of
// others, too, so it knows all of them.
type orders [staging.BackFIFO + 1]recipe.Order

func recipeOf(kind types.Kind, name string, random io.Reader) (nextKeys, orders) {
	items := subspace.Named(name)
	if kind == types.KindQueue {
		q := recipe.NewQueue(items, random)
		next := func(tx kv.Tx, items []Item, inUse recipe.InUse) ([][]byte, error) {
			return q.NextKeys(tx, len(items), inUse)
		}
		return next, orders{staging.Front: q.Order(), staging.Back: q.Order(), staging.BackFIFO: q.Order()}
	}
	p := recipe.NewPriorityQueue(items, random, recipe.LastPushed)
	first := recipe.NewPriorityQueue(items, random, recipe.FirstPushed)
	next := func(tx kv.Tx, items []Item, inUse recipe.InUse) ([][]byte, error) {
		priorities := make([]int64, len(items))
		for i, item := range items {
			priorities[i] = item.Priority
		}
		return p.NextKeys(tx, priorities, inUse)
	}
	return next, orders{staging.Front: p.MinOrder(), staging.Back: p.MaxOrder(), staging.BackFIFO: first.MaxOrder()}
}

func (q *queue) hasPriorities() bool { return q.space.Integers == 2 }

// group returns that of recipe.InUse for items of a priority.
func (q *queue) group(priority int64) []byte {
	if !q.hasPriorities() {
		return nil
	}
	return tuple.AppendInt(nil, priority)
}

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
