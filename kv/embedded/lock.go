package embedded

import (
	"sync"
	"time"
)

// longestSpin is how long a goroutine looks for a lock before it sleeps.
const longestSpin = 20 * time.Microsecond

// lock locks a mutex that many hold in turn, for some microseconds each: that of the store, or
// of the journal's file. Who sleeps for it is woken on a processor where somebody else runs,
// and if the others are busy too waits there: for 0.13 ms, the median on two processors, and one
// time in ten for more than 1 ms. sync.Mutex looks for less than a write takes before it has
// him sleep. With Interval, one producer and one consumer move 1.2 times as many, and 16
// callers fill and drain 1.1 to 1.2 times as fast; 16 and 64 goroutines with transactions of
// their own take 1.0 to 1.1 times as long.
//
// It counts as well as it looks at the clock, which stands still in some tests.
func lock(mu *sync.Mutex) {
	if mu.TryLock() {
		return
	}
	const tries = 1000
	began := time.Now()
	for range tries {
		if mu.TryLock() {
			return
		}
		if time.Since(began) > longestSpin {
			break
		}
	}
	mu.Lock()
}
