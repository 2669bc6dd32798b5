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
// Who leads a group first waits for as many to come as came last time, but not for
// long: those that one sync has let go come back a moment later, and a sync that
// begins without them serves half. With 16 producers and 16 consumers, two writers
// who each combine 16 calls, that made transfers 1.7 times as many.
type horizon struct {
	version atomic.Uint64
	waiting atomic.Int32 // how many wait
	applied atomic.Int32 // writers who wait, as what they wrote is in the log
	mu      sync.Mutex
	moved   *sync.Cond
	led     bool          // somebody syncs, or is about to
	last    int           // writers that the next group should have
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
	return h
}

// advance tells that the log is on disk up to version.
func (h *horizon) advance(version uint64) {
	for {
		now := h.version.Load()
		if now >= version {
			return
		}
		if h.version.CompareAndSwap(now, version) {
			break
		}
	}
	if h.waiting.Load() > 0 {
		h.wake()
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
	h.applied.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.applied.Add(-1)
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
		took := h.time(expected, func() { h.advance(sync()) })
		h.mu.Lock()
		h.led, h.took = false, took
		h.last = int(h.applied.Load()) // those who are let go, and those who have come meanwhile
		h.moved.Broadcast()            // one of these leads the next group
	}
	return failed()
}

// time returns what f took if there may be others, who gather for a part of that.
func (h *horizon) time(expected int, f func()) (took time.Duration) {
	if expected < 2 && h.applied.Load() < 2 {
		f()
		return 0
	}
	began := time.Now()
	f()
	return time.Since(began)
}

// gather lets others come, up to as many as are expected. It counts as well as it
// looks at the clock, which stands still in some tests.
func (h *horizon) gather(expected int, limit time.Duration) {
	const tries = 2000
	began := time.Now()
	for range tries {
		if int(h.applied.Load()) >= expected || time.Since(began) > limit {
			return
		}
		runtime.Gosched()
	}
}
