package batch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/batch"
)

// It asks until enough have come, and no longer than the limit, also where the clock stands still.
func TestGather(t *testing.T) {
	asked := 0
	batch.Gather(time.Hour, func() bool { asked++; return asked == 3 })
	if asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
	asked = 0
	batch.Gather(-1, func() bool { asked++; return false })
	if asked != 1 {
		t.Errorf("asked %d times after the limit, want 1", asked)
	}
	synctest.Test(t, func(*testing.T) { batch.Gather(batch.ForHandOver, func() bool { return false }) })
}
