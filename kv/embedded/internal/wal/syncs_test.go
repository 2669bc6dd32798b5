package wal

import (
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
)

// Each sync is counted by the first bound that it does not exceed; one longer than all of them is among all.
func TestSyncs(t *testing.T) {
	var l Log
	for _, d := range []time.Duration{-1, 0, time.Microsecond, shortestSync, shortestSync + 1, 2 * shortestSync, 2*shortestSync + 1, time.Hour} {
		l.syncs.add(d)
	}
	n, took, within := l.Syncs()
	testkit.Equal(t, "count", n, 8)
	for bound, want := range map[time.Duration]int64{shortestSync: 4, 2 * shortestSync: 6, 4 * shortestSync: 7, shortestSync << (syncClasses - 1): 7} {
		testkit.Equal(t, bound.String(), within[bound], want)
	}
	testkit.Equal(t, "bounds", len(within), syncClasses)
	if took < time.Hour {
		t.Errorf("all took %v", took)
	}
}
