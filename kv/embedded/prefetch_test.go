package embedded

import (
	"fmt"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/cache"
)

// A caller that takes one pair after the other asks for the next ones before they are needed, and
// once that has begun, finds all of them in the cache: also where some between them have been, as
// the ends of priorities are.
func TestPrefetch(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		for _, ends := range []bool{false, true} {
			t.Run(fmt.Sprintf("reverse=%v ends=%v", reverse, ends), func(t *testing.T) { testPrefetch(t, reverse, ends) })
		}
	}
}

func testPrefetch(t *testing.T, reverse, ends bool) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	wanted := make(chan prefetch, 1)
	db.prefetches = wanted
	n := 8 * cache.Usual.Fetch
	key := func(i int) []byte { return fmt.Appendf(nil, "q%08d", i) }
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range n {
			tx.Set(key(i), nil)
		}
	})
	for i := cache.Usual.Fetch / 3; ends && i < n; i += cache.Usual.Fetch / 3 {
		mustTransact(t, db, func(tx kv.Tx) {
			part := kv.Range{Begin: key(i), End: key(i + 9)}
			if _, ok, err := first(tx.Snapshot(), part, !reverse); !ok || err != nil {
				t.Fatal(ok, err)
			}
		})
	}
	span := kv.PrefixRange([]byte("q"))
	fetched := 0
	for i := range n {
		if reverse {
			i = n - 1 - i
		}
		want := key(i)
		if _, known := db.cache.Get(want, db.version); fetched > 0 && !known {
			t.Fatalf("pair %d is not in the cache, after %d times ahead", i, fetched)
		}
		mustTransact(t, db, func(tx kv.Tx) {
			pair, ok, err := first(tx, span, reverse)
			if !ok || err != nil || string(pair.Key) != string(want) {
				t.Fatalf("got %q, %v, %v, want %q", pair.Key, ok, err, want)
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
	if fetched < 3 || fetched > n/cache.Usual.Fetch*4 || !ends && fetched > n/cache.Usual.Fetch {
		t.Errorf("fetched %d times ahead", fetched)
	}
}

// A reader that finds a part of what it wants in the cache, and not the rest, fetches as much ahead
// as one that finds nothing. Here each takes 60, so that some find 16.
func TestPrefetchTheRest(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	db.prefetches = nil // readers fetch themselves
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
			c := cache.NewCursor(kv.PrefixRange([]byte("q")), false)
			most = max(most, len(db.cache.Read(&c, nil, n, db.version)))
		}
	}
	if want := cache.Usual.Fetch - each; most < want {
		t.Errorf("at most %d are in the cache after one took %d, want %d", most, each, want)
	}
}

// What is fetched goes past what is in the cache already, whether that is where it begins or on
// its way.
func TestFetchPastHot(t *testing.T) {
	const at, n = 100, 300
	key := func(i int) []byte { return fmt.Appendf(nil, "q%08d", i) }
	for _, reverse := range []bool{false, true} {
		for _, before := range []bool{false, true} {
			db := mustOpen(t, "store", Options{FS: memFS()})
			mustTransact(t, db, func(tx kv.Tx) {
				for i := range n {
					tx.Set(key(i), nil)
				}
			})
			mustTransact(t, db, func(tx kv.Tx) {
				if _, ok, err := first(tx.Snapshot(), kv.Range{Begin: key(at), End: key(at + 9)}, true); !ok || err != nil {
					t.Fatal(ok, err)
				}
			})
			hot := cache.NewCursor(kv.Range{Begin: []byte("q"), End: key(at + 9)}, true)
			ahead, behind := at+50, at-50
			if reverse {
				hot = cache.NewCursor(kv.Range{Begin: key(at + 8), End: []byte("r")}, false)
				ahead, behind = behind, ahead
			}
			db.cache.Read(&hot, nil, n, db.version) // up to where nothing is known
			if before {
				hot.Pos = key(behind)
			}
			db.fetch(t.Context(), prefetch{hot.Pos, kv.PrefixRange([]byte("q")), reverse})
			for i, want := range map[int]bool{ahead: true, (at + behind) / 2: before} {
				if _, known := db.cache.Get(key(i), db.version); known != want {
					t.Errorf("reverse %v, from before what is hot %v: %d is in the cache: %v", reverse, before, i, known)
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
