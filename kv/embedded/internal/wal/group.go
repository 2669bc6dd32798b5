package wal

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/batch"
)

// group is group commit: of the callers that wait, one has the log synced for all.
//
// This leader first waits for as many commits as came last time, but not for long: callers that one
// sync has let go come back a moment later, and a sync that begins without them serves half.
type group struct {
	sync   func() (version uint64) // has the log on disk up to that version
	failed func() error            // then nobody waits any more

	durable atomic.Uint64 // the version up to which commits are
	arrived atomic.Uint64 // the last version for which a caller has come: that has made it, or seen it
	mu      sync.Mutex    // without it both can be read, but not be raised
	moved   *sync.Cond
	led     bool          // a leader syncs, or is about to
	last    uint64        // commits that the next group should have
	took    time.Duration // what the last sync took
}

func newGroup(version uint64, syncLog func() uint64, failed func() error) *group {
	g := &group{sync: syncLog, failed: failed}
	g.moved = sync.NewCond(&g.mu)
	g.durable.Store(version)
	g.arrived.Store(version)
	return g
}

// advance tells that commits are durable up to version.
func (g *group) advance(version uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	raise(&g.durable, version)
	g.moved.Broadcast()
}

// raise has v be no lower than to. The lock is held.
func raise(v *atomic.Uint64, to uint64) { v.Store(max(v.Load(), to)) }

// commit returns once commits are durable up to version, or the log has failed. Some caller leads,
// perhaps this one.
func (g *group) commit(version uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	raise(&g.arrived, version)
	for g.durable.Load() < version && g.failed() == nil {
		if g.led {
			g.moved.Wait()
		} else {
			g.lead()
		}
	}
}

// lead has the log synced for a group. The lock is held, but not meanwhile.
func (g *group) lead() {
	g.led = true
	expected, took := g.last, g.took
	g.mu.Unlock()
	batch.GatherPart(took, batch.ForSync, func() bool { return g.pending() >= expected })
	before, began := g.durable.Load(), time.Now()
	version := g.sync()
	g.mu.Lock()
	raise(&g.durable, version)
	g.led, g.took = false, time.Since(began)
	g.last = g.arrived.Load() - before // whose callers are let go, and what has come meanwhile
	g.moved.Broadcast()                // one of these leads the next group
}

// pending returns how many commits are not durable, of those whose callers have come. It does not count
// callers that a sync has let go, which may be slow to leave.
func (g *group) pending() uint64 { return g.arrived.Load() - g.durable.Load() }
