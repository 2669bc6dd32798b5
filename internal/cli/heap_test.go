package cli

import (
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// A server is idle once it has allocated little for a while, and busy again when it has allocated much for longer than a burst.
func TestHeapWatch(t *testing.T) {
	h, allocated := heapWatch{busy: 100}, uint64(0)
	seconds := func(n int, bytes uint64) (changes []int) {
		for range n {
			allocated += bytes
			if percent := h.next(allocated); percent != 0 {
				changes = append(changes, percent)
			}
		}
		return changes
	}
	testkit.EqualSlices(t, "busy from the start", seconds(3, idleBurst), nil)
	testkit.EqualSlices(t, "idle for a moment", seconds(idleAfter-1, 0), nil)
	testkit.EqualSlices(t, "busy again", seconds(100, 2*idleBurst), nil)
	testkit.EqualSlices(t, "idle", seconds(idleAgain, idleBytes/10), []int{idleGC})
	testkit.EqualSlices(t, "idle for long", seconds(2*idleAgain, idleBytes/10), []int{idleGC, idleGC})
	testkit.EqualSlices(t, "a burst", seconds(1, idleBurst/2), nil)
	testkit.EqualSlices(t, "after it", seconds(idleAgain-1, idleBytes/10), []int{idleGC})
	testkit.EqualSlices(t, "another one", seconds(1, idleBurst/2), nil)
	testkit.EqualSlices(t, "a little more than little, for long", seconds(idleAgain, idleBytes+idleBurst/50), []int{idleGC, 100})
}
