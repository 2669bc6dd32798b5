package embedded

import (
	"sync"
	"testing"
	"time"
)

// TestLock: one at a time has the lock, whether the others find it free while they look or
// sleep until then.
func TestLock(t *testing.T) {
	var mu sync.Mutex
	var all sync.WaitGroup
	const rounds = 1000
	hold := func(long time.Duration) {
		for began := time.Now(); time.Since(began) < long; {
		}
	}
	n := 0
	for range 4 {
		all.Go(func() {
			for i := range rounds {
				lock(&mu)
				before := n
				if hold(longestSpin / 8); i%20 == 0 {
					hold(2 * longestSpin)
				}
				n = before + 1
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if n != 4*rounds {
		t.Errorf("%d increments under the lock left %d", 4*rounds, n)
	}
}
