package staging

import (
	"math"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// TestOwnEntries has a client come back to entries of its own of which it does not know.
func TestOwnEntries(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	s := stage(db, Options{})
	l, err := s.NewLine()
	testkit.Check(t, err)
	testkit.Check(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		for stamp := range int64(2 * lookAt) {
			tx.Set(s.keys.waiter(stamp, l.id), state(0, s.deadline()))
		}
		return nil
	}))
	first := false
	for looks := 0; !first; looks++ {
		if looks > 3 {
			t.Fatal("it does not get past its own entries")
		}
		testkit.Check(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			v, err := l.Look(tx, math.MaxInt64, func() (int, error) { return 1, nil })
			first = v.First
			return err
		}))
	}
	nothingLeft(t, db)
}
