package embedded

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// horizon is the version up to which the log is on disk. It moves by group commit:
// one of those who wait has the log synced for all.
//
// Who leads a group first waits for as many commits to come as came last time, but not
// for long: those whose writers one sync has let go come back a moment later, and a sync
// that begins without them serves half. With 16 producers and 16 consumers, two writers
// who each combine 16 calls, that made transfers 1.7 times as many.
type horizon struct {
	version atomic.Uint64
	applied atomic.Uint64 // the last version whose writer has come
	waiting atomic.Int32  // how many wait
	mu      sync.Mutex
	moved   *sync.Cond
	led     bool          // somebody syncs, or is about to
	last    uint64        // commits that the next group should have
	took    time.Duration // what the last sync took
}

// The leader of a group waits for the others for this long at most, and for this
// part of what the last sync took: with Interval that is a write only.
const (
	longestGather = 500 * time.Microsecond
	gatherPart    = 2
)

func newHorizon(version uint64) *horizon {
	h := new(horizon)
	h.moved = sync.NewCond(&h.mu)
	h.version.Store(version)
	h.applied.Store(version)
	return h
}

// advance tells that the log is on disk up to version.
func (h *horizon) advance(version uint64) {
	if raise(&h.version, version) && h.waiting.Load() > 0 {
		h.wake()
	}
}

// raise tells whether v was lower, and is raised now.
func raise(v *atomic.Uint64, to uint64) bool {
	for {
		now := v.Load()
		if now >= to {
			return false
		}
		if v.CompareAndSwap(now, to) {
			return true
		}
	}
}

// wait returns once the log is on disk up to version, or failed returns an
// error. Somebody else sees to it.
func (h *horizon) wait(version uint64, failed func() error) error {
	if h.version.Load() < version {
		h.waiting.Add(1)
		defer h.waiting.Add(-1)
		h.mu.Lock()
		defer h.mu.Unlock()
		for h.version.Load() < version {
			if err := failed(); err != nil {
				return err
			}
			h.moved.Wait()
		}
	}
	return failed()
}

// wake has all who wait look again.
func (h *horizon) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moved.Broadcast()
}

// settle is wait for a writer whose write nobody has had synced yet. sync has the
// journal synced, and returns the version up to which it then is.
func (h *horizon) settle(version uint64, sync func() uint64, failed func() error) error {
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	raise(&h.applied, version)
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.version.Load() < version {
		if err := failed(); err != nil {
			return err
		}
		if h.led {
			h.moved.Wait()
			continue
		}
		h.led = true
		expected, limit := h.last, min(h.took/gatherPart, longestGather)
		h.mu.Unlock()
		h.gather(expected, limit)
		before := h.version.Load()
		took := h.time(expected, func() { h.advance(sync()) })
		h.mu.Lock()
		h.led, h.took = false, took
		h.last = h.applied.Load() - before // whose writers are let go, and what has come meanwhile
		h.moved.Broadcast()                // one of these leads the next group
	}
	return failed()
}

// time returns what f took if there may be others, who gather for a part of that.
func (h *horizon) time(expected uint64, f func()) (took time.Duration) {
	if expected < 2 && h.pending() < 2 {
		f()
		return 0
	}
	began := time.Now()
	f()
	return time.Since(began)
}

// pending returns how many commits are not on disk, of those whose writers have come. It does
// not count writers whom a sync has let go, who may be slow to leave: with them a sync began
// without one of two every third time, and one producer and one consumer moved 0.8 as many.
func (h *horizon) pending() uint64 { return h.applied.Load() - h.version.Load() }

// gather lets others come, up to as many as are expected. It counts as well as it
// looks at the clock, which stands still in some tests.
func (h *horizon) gather(expected uint64, limit time.Duration) {
	const tries = 2000
	began := time.Now()
	for range tries {
		if h.pending() >= expected || time.Since(began) > limit {
			return
		}
		runtime.Gosched()
	}
}
