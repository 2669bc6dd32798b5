package conq

import (
	"bytes"
	"context"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/tuple"
)

// Items that a consumer was given by staging, and never collects, go back under
// the keys that they had. For them to come before what was added meanwhile, that
// must not have got their indexes: so callers who add look up not only the last item in
// the queue but the last one that is staged, too, where anything may be.

// behindStaged returns key, that of an item to be added, or a later one if items
// are staged that were added before and would come behind it.
func (s *store) behindStaged(tx kv.Tx, key []byte) ([]byte, error) {
	// What key was made from has been read already. So if that was without an item
	// that is staged, it was staged before, and then staging was noted before.
	if !s.mayBeStaged() {
		return key, nil
	}
	group, _ := s.place(key)
	staged, found, err := s.stage.Last(tx, group)
	if err != nil || !found {
		return key, err
	}
	n, err := s.integer(key, s.integers()-1)
	switch {
	case err != nil || n > staged:
		return key, err
	case staged == math.MaxInt64:
		return nil, s.foreign(recipe.ErrFull)
	}
	return s.keyAt(tuple.AppendInt(group[:len(group):len(group)], staged+1))
}

// place returns the integers in the key of an item, packed, and all but the last
// of them. place is nil if key is not an item's.
func (s *store) place(key []byte) (group, place []byte) {
	if !bytes.HasPrefix(key, s.prefix()) {
		return nil, nil // what staging has kept is damaged
	}
	fields := s.fields(key)
	rest := fields
	for range s.integers() {
		group = fields[:len(fields)-len(rest)]
		var ok bool
		if _, rest, ok = tuple.NextInt(rest); !ok {
			return nil, nil
		}
	}
	return group, fields[:len(fields)-len(rest)]
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
func (s *store) noteStaging(ctx context.Context, o Options) error {
	if s.signals == nil {
		return nil
	}
	s.staged = stagedFlag(s.signals)
	if s.staged.Load() {
		return nil
	}
	active := o.Staging == StagingAlways
	if !active {
		if err := view(ctx, s.db, func(r kv.Reader) (err error) {
			active, err = s.stage.Active(r)
			return err
		}); err != nil {
			return err
		}
	}
	if active {
		s.staged.Store(true)
	}
	return nil
}

// mayBeStaged tells whether items of the queue may be staged. It costs nothing
// where one process has the store for itself.
func (s *store) mayBeStaged() bool { return s.staged == nil || s.staged.Load() }

// reclaim puts staged items back that nobody has collected in time.
func (s *store) reclaim(ctx context.Context) error {
	if err := s.readyFor(ctx); err != nil || !s.mayBeStaged() {
		return err
	}
	return s.stage.Expire(ctx)
}
