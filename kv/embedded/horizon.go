package embedded

import (
	"sync"
	"sync/atomic"
)

// horizon is the version up to which the log is on disk.
type horizon struct {
	version atomic.Uint64
	waiting atomic.Int32
	mu      sync.Mutex
	moved   *sync.Cond
}

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
// error.
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
