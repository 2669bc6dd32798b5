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

// TestNearTails checks that the tails of many queues stay near while they are filled, though
// what was near at first is all of them together, and they are larger than what is kept.
func TestNearTails(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	db.near.most.bytes = 1 << 20
	const queues = 100
	tail := func(i int) kv.Range {
		return kv.Range{Begin: fmt.Appendf(nil, "%02d/", i%queues), End: fmt.Appendf(nil, "%02d0", i%queues)}
	}
	contents(t, db)
	missed := 0
	for i := range 20_000 {
		mustTransact(t, db, func(tx kv.Tx) {
			kv.Lazily(tx)
			if _, known := db.near.last(tail(i), db.version); !known {
				missed++
			}
			if last, err := kv.LastKey(tx.Snapshot(), tail(i)); (last == nil) != (i < queues) || err != nil {
				t.Fatalf("item %d: the last before it is %q, %v", i, last, err)
			}
			tx.Set(fmt.Appendf(nil, "%02d/%08d", i%queues, i), make([]byte, 100))
		})
	}
	if missed > 0 || db.near.size > db.near.most.bytes {
		t.Errorf("%d of the last items were not near, and %d bytes are", missed, db.near.size)
	}
}
