package handle

import (
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

// Items that a consumer was given by staging, and never collects, go back under
// the keys that they had. For them to come before what was added meanwhile, that
// must not have got their indexes: so callers who add look up not only the last item in
// the queue but the last one that is staged, too, where processes share the store: nobody stages elsewhere.

// inUse returns what tells the recipe of staged items when some are added. Where that would be
// asked for several priorities, one look for all comes first.
func (q *queue) inUse(items []Item) recipe.InUse {
	if !q.limits.Shared {
		return nil
	}
	looked, any := samePriority(items), true
	return func(tx kv.Tx, group []byte) (last int64, found bool, err error) {
		if !looked {
			looked = true
			any, err = q.stage.AnyPlace(tx)
		}
		if !any || err != nil {
			return 0, false, err
		}
		return q.stage.Last(tx, group)
	}
}

func samePriority(items []Item) bool {
	return !slices.ContainsFunc(items, func(item Item) bool { return item.Priority != items[0].Priority })
}

// prefetchInUse has what inUse reads first asked for with what is read before it.
func (q *queue) prefetchInUse(tx kv.Tx, items []Item) {
	switch {
	case !q.limits.Shared:
	case samePriority(items):
		kv.Prefetch(tx.Snapshot(), q.stage.LastRead(q.group(items[0].Priority)))
	default:
		kv.Prefetch(tx.Snapshot(), q.stage.AnyPlaceRead())
	}
}
