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
	count := func() (n int) {
		if err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
			n = 0
			for _, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
				if err != nil {
					return err
				}
				n++
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	taken, all := usualSizes.dead, usualSizes.pairs
	mustTransact(t, db, func(tx kv.Tx) { put(tx, 0, 2*taken) })
	count() // so they are near
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range taken {
			tx.Clear(fmt.Appendf(nil, "q%08d", i))
		}
		put(tx, 2*taken, all+2*taken)
	})
	if n, want := count(), all+taken; n != want {
		t.Errorf("%d items are there, want %d", n, want)
	}
}
