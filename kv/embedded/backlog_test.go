package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// What Pebble gets from the backlog is what was committed, in that order, whatever the
// size of the commits: by ones that need memory of their own, too.
func TestBacklog(t *testing.T) {
	commits := 3000
	if testing.Short() {
		commits = 200
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, memTable := range []int{smallMemTable, 4 << 20} {
		db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory, MemTable: memTable})
		want := make(map[string]string)
		kinds := 10
		for i := range commits {
			mustTransact(t, db, func(tx kv.Tx) {
				kv.Lazily(tx)
				for range 1 + random.IntN(3) {
					key, size := fmt.Sprintf("k%02d", random.IntN(50)), random.IntN(200)
					if random.IntN(200) == 0 {
						size = mostBacklog + random.IntN(mostBacklog)
					}
					switch value := bytes.Repeat([]byte{byte(i)}, size); random.IntN(kinds) {
					case 9:
						tx.ClearRange(kv.PrefixRange([]byte(key[:2])))
						maps.DeleteFunc(want, func(k, _ string) bool { return k[:2] == key[:2] })
					case 1, 2, 3:
						tx.Clear([]byte(key))
						delete(want, key)
					default:
						tx.Set([]byte(key), value)
						want[key] = string(value)
					}
				}
			})
			if random.IntN(100) == 0 {
				inPebble(t, db, want)
				kinds = 9 + random.IntN(2) // without ranges Pebble gets them in another order
			}
		}
		inPebble(t, db, want)
	}
}

// Operations are sorted by their keys, those of one key stay as they are, and all do if a
// range is among them.
func TestSorted(t *testing.T) {
	some := func(kind operationKind) []operation {
		return []operation{
			{set, []byte("b"), []byte("1"), 1}, {kind, []byte("c"), nil, 2}, {set, []byte("a"), nil, 3}, {set, []byte("b"), []byte("2"), 4}, {},
		}
	}
	for kind, want := range map[operationKind]string{set: "a b1 b2 c", removeRange: "b1 c a b2", cancelled: "a b1 b2"} {
		var got []string
		for _, o := range sorted(some(kind)) {
			got = append(got, string(o.key)+string(o.value))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("with kind %d: got %q, want %q", kind, got, want)
		}
	}
}

// inPebble compares what Pebble has with what it should have.
func inPebble(t rapid.TB, db *DB, want map[string]string) {
	t.Helper()
	db.mu.Lock()
	db.catchUp()
	db.mu.Unlock()
	iter, err := db.pebble.NewIter(nil)
	testkit.NoError(t, err)
	defer iter.Close()
	got := make(map[string]string)
	for ok := iter.First(); ok; ok = iter.Next() {
		got[string(iter.Key())] = string(iter.Value())
	}
	if !maps.Equal(got, want) {
		t.Fatalf("Pebble has %d keys %.200v, want %d keys %.200v",
			len(got), slices.Sorted(maps.Keys(got)), len(want), slices.Sorted(maps.Keys(want)))
	}
}

// A commit alone is not worth a batch of Pebble's.
func TestBacklogWaits(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), []byte("v")) })
	if _, _, err := db.pebble.Get([]byte("k")); !errors.Is(err, pebble.ErrNotFound) {
		t.Errorf("Pebble has it at once: %v", err)
	}
	if got := contents(t, db); !slices.Equal(got, []string{"k=v"}) {
		t.Errorf("the store has %q", got)
	}
}

// TestFlushRanges checks that the memtable is flushed when many ranges were removed, unless that is
// under way.
func TestFlushRanges(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	before, running := db.pebble.Metrics().Flush.Count, make(chan struct{})
	remove := func(ranges int) (flushes int64) {
		for range ranges {
			mustTransact(t, db, func(tx kv.Tx) {
				tx.Set([]byte("a"), nil)
				tx.ClearRange(kv.PrefixRange([]byte("q")))
			})
			db.catchUp()
		}
		if db.backlog.flushed != running {
			<-db.backlog.flushed
		}
		return db.pebble.Metrics().Flush.Count - before
	}
	if n := remove(mostRanges - 1); n != 0 {
		t.Errorf("%d flushes of less", n)
	}
	if n := remove(1); n != 1 {
		t.Errorf("%d flushes, want one", n)
	}
	if n := remove(mostRanges - 1); n != 1 {
		t.Errorf("%d flushes, want one still", n)
	}
	ended := db.backlog.flushed
	db.backlog.flushed = running
	if n := remove(mostRanges); n != 1 {
		t.Errorf("%d flushes while one was running", n-1)
	}
	db.backlog.flushed = ended
	if n := remove(1); n != 2 {
		t.Errorf("%d flushes after one had ended, want one", n-1)
	}
}

// Pebble gets nothing of what was set and cleared while it was in the backlog; but if
// somebody has had it applied in between, or there was something before, it gets both.
func TestBacklogCancels(t *testing.T) {
	for name, c := range map[string]struct {
		before, between func(*DB)
		waits           bool // something is to be applied in the end
	}{
		"soon":              {func(*DB) {}, func(*DB) {}, false},
		"set twice":         {func(*DB) {}, func(db *DB) { mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("q5"), []byte("w")) }) }, false},
		"applied meanwhile": {func(*DB) {}, func(db *DB) { db.catchUp() }, true},
		"a snapshot":        {func(*DB) {}, func(db *DB) { contents(t, db) }, true},
		"something before": {func(db *DB) {
			mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("q5"), []byte("u")) })
			db.catchUp()
		}, func(*DB) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			fs := memFS()
			db := mustOpen(t, "store", Options{FS: fs, Durability: Memory})
			c.before(db)
			testkit.NoError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
				_, _, err := first(r, kv.PrefixRange([]byte("q")), false) // so that it is in the cache
				return err
			}))
			mustTransact(t, db, func(tx kv.Tx) {
				kv.Lazily(tx)
				tx.Set([]byte("q5"), []byte("v"))
			})
			c.between(db)
			mustTransact(t, db, func(tx kv.Tx) {
				kv.Lazily(tx)
				tx.Clear([]byte("q5"))
			})
			if waits := db.backlog.bytes > 0; waits != c.waits {
				t.Errorf("%d bytes are to be applied", db.backlog.bytes)
			}
			inPebble(t, db, nil)
			testkit.NoError(t, db.Close())
			if got := contents(t, mustOpen(t, "store", Options{FS: fs})); len(got) > 0 {
				t.Errorf("the store opens with %q", got)
			}
		})
	}
}

// A transaction that began to begin before Close, and goes on after it, does not bring
// anything to a Pebble that is closed.
func TestBacklogClosed(t *testing.T) {
	fs := memFS()
	db := mustOpen(t, "store", Options{FS: fs})
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), []byte("v")) })
	testkit.NoError(t, db.Close())
	tx := newTx(t.Context(), db)
	db.catchUp()
	if err := tx.begin(); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("it begins with %v", err)
	}
	if err := db.failure(); err != nil {
		t.Errorf("the store has failed: %v", err)
	}
	if got := contents(t, mustOpen(t, "store", Options{FS: fs})); !slices.Equal(got, []string{"k=v"}) {
		t.Errorf("the store has %q", got)
	}
}
