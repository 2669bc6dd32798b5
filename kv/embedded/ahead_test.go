package embedded

import (
	"fmt"
	"testing"

	"github.com/conq-go/conq/kv"
)

// Who takes one pair after the other asks for the next ones before they are needed, and
// once that has begun, finds all of them near.
func TestFetchAhead(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		db := mustOpen(t, "store", Options{FS: memFS()})
		wanted := make(chan stretchAhead, 1)
		db.ahead = wanted
		n := 8 * usualSizes.ahead
		mustTransact(t, db, func(tx kv.Tx) {
			for i := range n {
				tx.Set(fmt.Appendf(nil, "q%08d", i), nil)
			}
		})
		span := kv.PrefixRange([]byte("q"))
		fetched := 0
		for i := range n {
			if reverse {
				i = n - 1 - i
			}
			want := fmt.Sprintf("q%08d", i)
			if _, known := db.near.get([]byte(want), db.version); fetched > 0 && !known {
				t.Fatalf("reverse %v: pair %d is not near, after %d times ahead", reverse, i, fetched)
			}
			mustTransact(t, db, func(tx kv.Tx) {
				pair, ok, err := first(tx, span, reverse)
				if !ok || err != nil || string(pair.Key) != want {
					t.Fatalf("reverse %v: got %q, %v, %v, want %q", reverse, pair.Key, ok, err, want)
				}
				tx.Clear(pair.Key)
			})
			select {
			case s := <-wanted:
				db.fetch(t.Context(), s)
				fetched++
			default:
			}
		}
		if fetched < 3 || fetched > n/usualSizes.ahead {
			t.Errorf("reverse %v: fetched %d times ahead", reverse, fetched)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A reader who finds a part of what he wants near, and not the rest, fetches as much ahead
// as one who finds nothing. Here each takes 60, so that some find 16.
func TestAheadOfTheRest(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	db.ahead = nil // readers fetch themselves
	const n, each = 3000, 60
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range n {
			tx.Set(fmt.Appendf(nil, "q%08d", i), nil)
		}
	})
	most := 0
	for i := range n / each {
		mustTransact(t, db, func(tx kv.Tx) {
			for pair, err := range tx.Snapshot().Range(kv.PrefixRange([]byte("q")), kv.RangeOptions{Limit: each}) {
				if err != nil {
					t.Fatal(err)
				}
				tx.Clear(pair.Key)
			}
		})
		if i > n/each/2 {
			most = max(most, len(db.near.holding([]byte("q"), false).pairs))
		}
	}
	if want := usualSizes.ahead - each; most < want {
		t.Errorf("at most %d are near after one took %d, want %d", most, each, want)
	}
}
