package cli

import (
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// A server is idle once it has allocated little for a while, and busy with the first second in which it has not.
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
	testkit.EqualSlices(t, "busy", seconds(100, 2*idleBytes), nil)
	testkit.EqualSlices(t, "idle for a moment", seconds(idleAfter-1, 0), nil)
	testkit.EqualSlices(t, "busy again", seconds(1, 2*idleBytes), nil)
	testkit.EqualSlices(t, "idle", seconds(100, idleBytes/10), []int{idleGC})
	testkit.EqualSlices(t, "busy at last", seconds(3, 2*idleBytes), []int{100})
}
