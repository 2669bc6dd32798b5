package handle

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

// Items that a consumer was given by staging, and never collects, go back under
// the keys that they had. For them to come before what was added meanwhile, that
// must not have got their indexes: so callers who add look up not only the last item in
// the queue but the last one that is staged, too, where anything may be.

// inUse returns what tells the recipe of staged items when some are added. Where that would be
// asked for several priorities, one look for all comes first.
func (q *queue) inUse(items []Item) recipe.InUse {
	if samePriority(items) {
		return q.lastStaged
	}
	looked, any := false, false
	return func(tx kv.Tx, group []byte) (last int64, found bool, err error) {
		if !looked && q.mayBeStaged() {
			looked = true
			if any, err = q.stage.AnyPlace(tx); err != nil {
				return 0, false, err
			}
		}
		if !any {
			return 0, false, nil
		}
		return q.lastStaged(tx, group)
	}
}

func samePriority(items []Item) bool {
	return !slices.ContainsFunc(items, func(item Item) bool { return item.Priority != items[0].Priority })
}

// prefetchInUse has what inUse reads first asked for with what is read before it.
func (q *queue) prefetchInUse(tx kv.Tx, items []Item) {
	switch {
	case !q.mayBeStaged():
	case samePriority(items):
		kv.Prefetch(tx.Snapshot(), q.stage.LastRead(q.algorithm.group(items[0].Priority)))
	default:
		kv.Prefetch(tx.Snapshot(), q.stage.AnyPlaceRead())
	}
}

// newLastStaged returns what inUse asks for one priority.
func (q *queue) newLastStaged() recipe.InUse {
	return func(tx kv.Tx, group []byte) (last int64, found bool, err error) {
		// The last key of the group has been read already. So if that was without an item that
		// is staged, it was staged before, and then staging was noted before.
		if !q.mayBeStaged() {
			return 0, false, nil
		}
		return q.stage.Last(tx, group)
	}
}

// stagedIn has, by the signals of stores which one process has for itself, whether
// anything was ever staged there. Others can't be known.
var stagedIn sync.Map // of weak.Pointer[kv.Signals] to *atomic.Bool

func stagedFlag(signals *kv.Signals) *atomic.Bool {
	key := weak.Make(signals)
	flag, known := stagedIn.LoadOrStore(key, new(atomic.Bool))
	if !known {
		runtime.AddCleanup(signals, func(key weak.Pointer[kv.Signals]) { stagedIn.Delete(key) }, key)
	}
	return flag.(*atomic.Bool)
}

// noteStaging prepares mayBeStaged: it notes that the handle stages, or that there
// is something left which a process staged that had the store before.
func (q *queue) noteStaging(ctx context.Context, o Options) error {
	if q.signals == nil {
		return nil
	}
	q.staged = stagedFlag(q.signals)
	if q.staged.Load() {
		return nil
	}
	active := o.Staging == StagingAlways
	if !active {
		if err := reads.View(ctx, q.db, func(r kv.Reader) (err error) {
			active, err = q.stage.Active(r)
			return err
		}); err != nil {
			return err
		}
	}
	if active {
		q.staged.Store(true)
	}
	return nil
}

// mayBeStaged tells whether items of the queue may be staged. It costs nothing
// where one process has the store for itself.
func (q *queue) mayBeStaged() bool { return q.staged == nil || q.staged.Load() }

// reclaim puts staged items back that were not collected in time.
func (q *queue) reclaim(ctx context.Context) error {
	if !q.mayBeStaged() {
		return nil
	}
	return q.stage.Expire(ctx)
}
