package embedded

import (
	"fmt"
	"testing"

	"github.com/conq-go/conq/kv"
)

// TestNearReplaced checks that a transaction can take items from the head of a short
// queue and add many, all of them near.
func TestNearReplaced(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	put := func(tx kv.Tx, from, to int) {
		for i := from; i < to; i++ {
			tx.Set(fmt.Appendf(nil, "q%08d", i), nil)
		}
	}
	taken, all := usualSizes.dead, usualSizes.pairs
	mustTransact(t, db, func(tx kv.Tx) { put(tx, 0, 2*taken) })
	contents(t, db) // so they are near
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range taken {
			tx.Clear(fmt.Appendf(nil, "q%08d", i))
		}
		put(tx, 2*taken, all+2*taken)
	})
	for _, what := range []string{"near", "near no more"} {
		if n, want := len(contents(t, db)), all+taken; n != want {
			t.Errorf("%s: %d items are there, want %d", what, n, want)
		}
		db.near = newNear()
	}
}
