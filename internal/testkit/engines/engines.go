// Package engines opens stores of the engines that tests of queues run on. Tests of the engines
// themselves import package testkit, which is why that can't.
package engines

import (
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
)

// All returns the engines, each as a function that opens a new store for t. The limits are those of
// the memory engine; others have their own.
func All(t testing.TB) map[string]func(kv.Limits) kv.DB {
	return map[string]func(kv.Limits) kv.DB{
		"memory":   func(l kv.Limits) kv.DB { return testkit.NewMemory(t, l) },
		"embedded": func(kv.Limits) kv.DB { return Embedded(t) },
	}
}

// Embedded opens a store in a directory, and closes it when the test ends.
func Embedded(t testing.TB) kv.DB {
	t.Helper()
	// The detector of races takes more than 5 s to move the largest item on a slow machine.
	db, err := embedded.Open(t.Context(), t.TempDir(), embedded.Options{Durability: embedded.Memory, Age: time.Hour})
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.NoError(t, db.Close()) })
	return db
}
