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
			if last, err := kv.LastKey(tx.Snapshot(), tail(i), tail(i)); (last == nil) != (i < queues) || err != nil {
				t.Fatalf("item %d: the last before it is %q, %v", i, last, err)
			}
			tx.Set(fmt.Appendf(nil, "%02d/%08d", i%queues, i), make([]byte, 100))
		})
	}
	if missed > 0 || db.near.size > db.near.most.bytes {
		t.Errorf("%d of the last items were not near, and %d bytes are", missed, db.near.size)
	}
}

// TestDistinct checks that who asks for the last keys of ranges that have none, or one, as a
// push among many priorities does, needs Pebble a few times only, whatever the order; that
// this is still known once it is not near any more; and that an item comes to the middle of
// a short stretch.
func TestDistinct(t *testing.T) {
	const n = 10_000
	for _, order := range []struct {
		name string
		next func(i int) int
	}{
		{"ascending", func(i int) int { return i }},
		{"descending", func(i int) int { return n - 1 - i }},
		{"mixed", func(i int) int { return i * 7919 % n }},
	} {
		t.Run(order.name, func(t *testing.T) {
			db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
			db.near.most.bytes = 256 << 10
			all := kv.PrefixRange([]byte("p"))
			of := func(i int) kv.Range {
				return kv.Range{Begin: fmt.Appendf(nil, "p%08d\x00", i), End: fmt.Appendf(nil, "p%08d\xff", i)}
			}
			missed, longest := 0, 0
			push := func(i, turn int) {
				mustTransact(t, db, func(tx kv.Tx) {
					kv.Lazily(tx)
					if _, known := db.near.last(of(i), db.version); !known {
						missed++
					}
					last, err := kv.LastKey(tx.Snapshot(), of(i), all)
					if want := fmt.Sprintf("p%08d\x00%d", i, turn-1); (string(last) != want) != (turn == 0) || (last == nil) != (turn == 0) || err != nil {
						t.Fatalf("%d: the last key is %q, %v", i, last, err)
					}
					tx.Set(fmt.Appendf(nil, "p%08d\x00%d", i, turn), make([]byte, 100))
				})
				db.near.stretches.Scan(func(s *stretch) bool {
					longest = max(longest, len(s.pairs))
					return turn == 0 && i%100 == 0
				})
			}
			turn := func(which, turn, most int) {
				missed = 0
				for i := range n / 2 {
					push(order.next(i)*2%n+which, turn)
				}
				if missed > most || db.near.stretches.Len() > n/4 {
					t.Errorf("turn %d: %d of %d were not known, want %d at most; %d stretches are near", turn, missed, n/2, most, db.near.stretches.Len())
				}
			}
			turn(0, 0, 1)
			turn(0, 1, n/100)
			turn(0, 2, n/100)
			db.near = newNear()
			db.near.most.bytes = 256 << 10
			turn(1, 0, n/2)
			turn(1, 1, n/100)
			if most := db.near.most.between + 2; longest > most {
				t.Errorf("a stretch had %d pairs, want %d at most", longest, most)
			}
		})
	}
}
