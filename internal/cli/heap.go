package cli

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A server that allocates little is idle, and its heap is collected when it has grown by a tenth: that costs little then, and by Go's
// default it would stay twice as large as what is in use. One that is busy has the default.
const (
	idleBytes = 4 << 20 // a second
	idleAfter = 10      // seconds
	idleGC    = 10      // percent, as GOGC
)

// keepHeapSmall has the heap be small while this process is idle, until ctx ends, unless the environment has a GOGC.
func keepHeapSmall(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	busy := debug.SetGCPercent(100)
	debug.SetGCPercent(busy)
	defer debug.SetGCPercent(busy)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	h := heapWatch{busy: busy}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		switch percent := h.next(sample[0].Value.Uint64()); {
		case percent == 0:
		case percent == busy:
			debug.SetGCPercent(busy)
		default:
			debug.SetGCPercent(percent)
			debug.FreeOSMemory()
		}
	}
}

// heapWatch tells when a process becomes idle, or busy again.
type heapWatch struct {
	busy      int // percent, while it is busy
	allocated uint64
	idle      int // seconds
}

// next takes what has been allocated in all, a second after the last call, and returns what the percentage is to be, or 0 if it stays.
func (h *heapWatch) next(allocated uint64) (percent int) {
	before := h.idle
	if h.idle++; allocated-h.allocated > idleBytes {
		h.idle = 0
	}
	h.allocated = allocated
	switch {
	case h.idle == idleAfter:
		return idleGC
	case h.idle == 0 && before >= idleAfter:
		return h.busy
	}
	return 0
}
