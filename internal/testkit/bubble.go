package testkit

import (
	"testing"
	"testing/synctest"
	"time"
)

// Bubble is a synctest.Test that ends when nothing lingers any more, as a handle does that has served
// the staged requests of others.
func Bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer func() { <-time.After(time.Second) }() // also if f fails, and ends its goroutine
		f(t)
	})
}
