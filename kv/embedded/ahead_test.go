package embedded

import (
	"fmt"
	"testing"

	"github.com/conq-go/conq/kv"
)

// Who takes one pair after the other asks for the next ones before they are needed, and
// once that has begun, finds all of them near: also where some between them have been, as
// the ends of priorities are.
func TestFetchAhead(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		for _, ends := range []bool{false, true} {
			t.Run(fmt.Sprintf("reverse=%v ends=%v", reverse, ends), func(t *testing.T) { testFetchAhead(t, reverse, ends) })
		}
	}
}

func testFetchAhead(t *testing.T, reverse, ends bool) {
	db := mustOpen(t, "store", Options{FS: memFS()})
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	wanted := make(chan stretchAhead, 1)
	db.ahead = wanted
	n := 8 * usualSizes.ahead
	key := func(i int) []byte { return fmt.Appendf(nil, "q%08d", i) }
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range n {
			tx.Set(key(i), nil)
		}
	})
	for i := usualSizes.ahead / 3; ends && i < n; i += usualSizes.ahead / 3 {
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
		if _, known := db.near.get(want, db.version); fetched > 0 && !known {
			t.Fatalf("pair %d is not near, after %d times ahead", i, fetched)
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
	if fetched < 3 || fetched > n/usualSizes.ahead*4 || !ends && fetched > n/usualSizes.ahead {
		t.Errorf("fetched %d times ahead", fetched)
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

// What is fetched goes past what is near already, whether that is where it begins or on
// its way.
func TestFetchPastNear(t *testing.T) {
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
			s := db.near.holding(key(at+8), false)
			from, ahead, behind := s.begin, at+50, at-50
			if reverse {
				from, ahead, behind = s.end, behind, ahead
			}
			if before {
				from = key(behind)
			}
			db.fetch(t.Context(), stretchAhead{from, kv.PrefixRange([]byte("q")), reverse})
			for i, want := range map[int]bool{ahead: true, (at + behind) / 2: before} {
				if _, known := db.near.get(key(i), db.version); known != want {
					t.Errorf("reverse %v, from before what is near %v: %d is near: %v", reverse, before, i, known)
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFetchOnce checks that what lies beyond a stretch is asked for once, though the stretch
// is cut meanwhile, as that of a priority queue is where its pushes look.
func TestFetchOnce(t *testing.T) {
	n := newNear()
	key := func(i int) []byte { return fmt.Appendf(nil, "q%04d", i) }
	s := newStretch(kv.Range{Begin: key(0), End: key(200)})
	s.ahead, s.steady = n.most.ahead, true
	for i := range 200 {
		p := newPair(key(i), nil)
		s.pairs, s.size = append(s.pairs, p), s.size+p.size()
	}
	n.add(s)
	asked := 0
	for i := range 10 {
		r := reading{pos: key(10 * i), end: key(1000)}
		n.read(&r, nil, 1, 1)
		if r.low != nil {
			asked++
		}
		before := n.stretches.Len()
		if last, known := n.last(kv.Range{Begin: key(0), End: key(10*i + 100)}, 1); string(last) != string(key(10*i+99)) || !known {
			t.Fatalf("the last key before %q is %q", key(10*i+100), last)
		}
		if now := n.stretches.Len(); i == 0 && now == before {
			t.Fatal("the stretch was not cut: the test tests nothing")
		}
	}
	if asked != 1 {
		t.Errorf("what lies beyond was asked for %d times, want once", asked)
	}
}
