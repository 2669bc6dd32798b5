package wal

import (
	"sync"
	"testing"
	"testing/synctest"
)

// Commits that a sync has covered are not waited for as if they were still to be synced,
// even if their callers have not left yet; those that came during the sync are. The next
// group should have as many as both together.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, checked, syncs := make(chan struct{}), false, 0
		var callers sync.WaitGroup
		var g *group
		syncLog := func() uint64 {
			if syncs++; syncs > 1 {
				return 13
			}
			<-start
			callers.Go(func() { g.commit(13) })
			synctest.Wait() // the others wait, or for the lock
			return 12
		}
		g = newGroup(10, syncLog, func() error {
			if g.durable.Load() == 12 && !checked { // with the lock held: no caller has left
				checked = true
				if g.pending() != 1 || g.last != 3 {
					t.Errorf("%d commits are pending, %d expected; want 1 and 3", g.pending(), g.last)
				}
			}
			return nil
		})
		callers.Go(func() { g.commit(11) })
		synctest.Wait()
		callers.Go(func() { g.commit(12) })
		synctest.Wait()
		close(start)
		callers.Wait()
		if !checked || g.durable.Load() != 13 || g.pending() != 0 {
			t.Errorf("checked: %v; on disk up to %d, %d pending", checked, g.durable.Load(), g.pending())
		}
	})
}
