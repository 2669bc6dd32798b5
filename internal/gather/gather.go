// Package gather delays a batch for a moment, so that the callers that the last batch has let go
// are in it: mostly they come back with their next call at once. A leader that starts without them
// makes batches alternate between half of the callers and the other half.
package gather

import (
	"runtime"
	"time"
)

const (
	longest = 80 * time.Microsecond
	tries   = 2000 // as many looks, where the clock stands still, as in some tests
)

// For returns when full does, or after half of the time that the last batch took, or after
// 80 µs, whichever is first.
func For(took time.Duration, full func() bool) { Until(min(took/2, longest), full) }

// Until returns when full does, or after limit. It does not sleep: a timer would take longer than most
// of these waits.
func Until(limit time.Duration, full func() bool) {
	began := time.Now()
	for range tries {
		if full() || time.Since(began) > limit {
			return
		}
		runtime.Gosched()
	}
}
