package conq

import (
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
)

// engines returns the engines that tests run on, each as a function that opens a
// new store for t. The limits are those of the memory engine; others have their
// own.
func engines(t *testing.T) map[string]func(kv.Limits) kv.DB {
	return map[string]func(kv.Limits) kv.DB{
		"memory":   func(l kv.Limits) kv.DB { return testkit.NewMemory(t, l) },
		"embedded": func(kv.Limits) kv.DB { return newEmbedded(t) },
	}
}

func newEmbedded(t testing.TB) kv.DB {
	t.Helper()
	// The detector of races takes more than 5 s to move the largest item on a slow machine.
	db, err := embedded.Open(t.TempDir(), embedded.Options{Durability: embedded.Memory, Age: time.Hour})
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.NoError(t, db.Close()) })
	return db
}
