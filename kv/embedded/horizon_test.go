package embedded

import (
	"sync"
	"testing"
	"testing/synctest"
)

// Commits that a sync has covered are not waited for as if they were still to be synced,
// even if their writers have not left yet; those that came during the sync are. The next
// group should have as many as both together.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHorizon(10)
		start, checked := make(chan struct{}), false
		never := func() error { return nil }
		var writers sync.WaitGroup
		first := func() uint64 {
			<-start
			writers.Go(func() { _ = h.settle(13, func() uint64 { return 13 }, never) })
			synctest.Wait() // the others wait, or for the lock
			return 12
		}
		writers.Go(func() {
			_ = h.settle(11, first, func() error {
				if h.version.Load() == 12 && !checked { // with the lock held: nobody has left
					checked = true
					if h.pending() != 1 || h.last != 3 {
						t.Errorf("%d commits are pending, %d expected; want 1 and 3", h.pending(), h.last)
					}
				}
				return nil
			})
		})
		synctest.Wait()
		writers.Go(func() { _ = h.settle(12, first, never) })
		synctest.Wait()
		close(start)
		writers.Wait()
		if !checked || h.version.Load() != 13 || h.pending() != 0 {
			t.Errorf("checked: %v; on disk up to %d, %d pending", checked, h.version.Load(), h.pending())
		}
	})
}
