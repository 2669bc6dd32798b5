package embedded

import (
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// Counters that nothing is added to are forgotten, and read again when that is.
func TestCountersRest(t *testing.T) {
	db, err := Open(t.Context(), t.TempDir(), Options{Durability: Memory})
	testkit.NoError(t, err)
	defer func() { testkit.NoError(t, db.Close()) }()
	add := func() {
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			tx.Add([]byte("n"), 1)
			return nil
		}))
	}
	known := func() int {
		db.mu.Lock()
		defer db.mu.Unlock()
		return len(db.counters)
	}
	add()
	db.restCounters()
	testkit.Equal(t, "counters that were added to", known(), 1)
	db.restCounters()
	testkit.Equal(t, "counters at rest", known(), 0)
	add()
	testkit.NoError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
		value, err := r.Get([]byte("n"))
		testkit.Equal(t, "count", string(value), string([]byte{2, 0, 0, 0, 0, 0, 0, 0}))
		return err
	}))
}
