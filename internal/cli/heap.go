package cli

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A server that allocates little, but for bursts, is idle, and its heap is collected when it has grown by a tenth: that costs little then, and by Go's
// default it would stay twice as large as what is in use. One that is busy has the default. What was there while it was busy goes bit by
// bit, and leaves pages with little in them, which go back to the system some time later: so memory is given back again and again.
const (
	idleBytes = 4 << 20  // a second
	idleBurst = 40 << 20 // beyond that: the catalogue of many queues is read now and then
	idleAfter = 10       // seconds
	idleAgain = 60       // seconds between collections by themselves
	idleGC    = 10       // percent, as GOGC
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
	burst     int64 // what has been allocated beyond idleBytes a second
	idle      int   // seconds
}

// next takes what has been allocated in all, a second after the last call, and returns what the percentage is to be, or 0 if there is nothing to do.
func (h *heapWatch) next(allocated uint64) (percent int) {
	before := h.idle
	h.burst = min(max(0, h.burst+int64(allocated-h.allocated)-idleBytes), idleBurst)
	h.allocated = allocated
	if h.idle++; h.burst == idleBurst {
		h.idle = 0
	}
	switch {
	case h.idle%idleAgain == idleAfter:
		return idleGC
	case h.idle == 0 && before >= idleAfter:
		return h.busy
	}
	return 0
}
