package cli

import (
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
)

// A tick that nobody has made yet is said to wait.
func TestNextText(t *testing.T) {
	now := time.Now()
	for next, want := range map[time.Time]string{now.Add(-time.Hour): ", waits for a worker", now.Add(time.Hour): ""} {
		testkit.Equal(t, "next", nextText(next, now), when(next)+want)
	}
}
