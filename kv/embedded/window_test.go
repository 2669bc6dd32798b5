package embedded

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// When the transaction expires that was open for too long, what others wrote since is not
// missed by those that begin later, while its function still runs.
func TestExpiredWindow(t *testing.T) {
	for writes := range 4 { // while the old one is open
		var now atomic.Int64
		db := mustOpen(t, fmt.Sprint(writes), Options{
			FS: memFS(), Durability: Memory, Age: time.Second, Now: func() time.Time { return time.Unix(0, now.Load()) },
		})
		write := func(key string) {
			t.Helper()
			err := db.Transact(t.Context(), func(tx kv.Tx) error {
				tx.Set([]byte(key), nil)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
			if _, err := r.Get([]byte("a")); err != nil {
				return err
			}
			for range writes {
				write("b")
			}
			now.Add(int64(2 * time.Second))
			write("c") // and now it has expired
			attempts := 0
			return db.Transact(context.Background(), func(tx kv.Tx) error {
				if _, err := tx.Get([]byte("d")); err != nil {
					return err
				}
				if attempts++; attempts == 1 {
					write("d")
				}
				tx.Set([]byte("e"), nil)
				if attempts == 3 {
					t.Error("a transaction conflicts with nothing")
				}
				tx.OnCommit(func() {
					if attempts != 2 {
						t.Errorf("%d writes: %d attempts, want 2: a conflict is missed", writes, attempts)
					}
				})
				return nil
			})
		})
		if err != nil && !errors.Is(err, kv.ErrTooOld) {
			t.Error(err)
		}
	}
}

// A transaction conflicts with any commit since it began, and with no other, also where these are so
// many that most are compared while others go on.
func TestManyCommitsSince(t *testing.T) {
	const commits = 3*manyCommits + 2
	for _, where := range []int{-1, 0, 1, manyCommits - 1, manyCommits, manyCommits + 1, commits - 2, commits - 1} {
		db := mustOpen(t, fmt.Sprint(where), Options{FS: memFS(), Durability: Memory})
		attempts := 0
		mustTransact(t, db, func(tx kv.Tx) {
			if _, err := tx.Get([]byte("read")); err != nil {
				t.Error(err)
			}
			attempts++
			for i := 0; i < commits && attempts == 1; i++ {
				key := "other"
				if i == where {
					key = "read"
				}
				mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte(key), nil) })
			}
			tx.Set([]byte("written"), nil)
		})
		want := 2
		if where < 0 {
			want = 1
		}
		if attempts != want {
			t.Errorf("with a conflict in commit %d of %d: %d attempts, want %d", where, commits, attempts, want)
		}
	}
}

// TestOverlaps compares what conflicts with a plain comparison of all ranges with all that was
// written, with more of the one and of the other.
func TestOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawRanges := func(label string) (ranges []kv.Range) {
			for range rapid.IntRange(0, 5).Draw(t, label) {
				a, b := rapid.ByteRange('a', 'p').Draw(t, "begin"), rapid.ByteRange('a', 'p').Draw(t, "end")
				ranges = append(ranges, kv.Range{Begin: []byte{min(a, b)}, End: []byte{max(a, b)}}) // or none
			}
			return ranges
		}
		reads, ranges := drawRanges("reads"), drawRanges("ranges")
		want := slices.ContainsFunc(reads, func(r kv.Range) bool {
			return slices.ContainsFunc(ranges, func(w kv.Range) bool {
				return max(string(r.Begin), string(w.Begin)) < min(string(r.End), string(w.End))
			})
		})
		var keys [][]byte
		for key := byte('a'); key <= 'p'; key++ {
			if rapid.IntRange(0, 7).Draw(t, "written") == 0 {
				keys = append(keys, []byte{key})
				want = want || slices.ContainsFunc(reads, func(r kv.Range) bool { return r.Contains([]byte{key}) })
			}
		}
		w := written{keys, normalize(ranges)}
		if got := w.overlaps(normalize(slices.Clone(reads))); got != want {
			t.Fatalf("reads of %q, and %q and %q written: overlap: %v, want %v", reads, keys, ranges, got, want)
		}
	})
}

// TestLearnLate checks that what a reader finds in Pebble is near afterwards, unless so many have
// committed since he began that to look at all of them takes too long.
func TestLearnLate(t *testing.T) {
	for _, commits := range []int{1, tooMany - 1, tooMany} {
		db := mustOpen(t, fmt.Sprint(commits), Options{FS: memFS(), Durability: Memory})
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("q1"), nil) })
		db.near = newNear()
		err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
			if _, err := r.Get([]byte("a")); err != nil {
				return err
			}
			for range commits {
				mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("b"), nil) })
			}
			_, ok, err := first(r, kv.PrefixRange([]byte("q")), false)
			if _, known := db.near.get([]byte("q1"), db.version); !ok || known != (commits < tooMany) {
				t.Errorf("after %d commits: found: %v; near afterwards: %v", commits, ok, known)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// BenchmarkOverlaps compares the reads of a transaction that had many with what others wrote
// meanwhile.
func BenchmarkOverlaps(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var reads []kv.Range
			for i := range n {
				reads = append(reads, keyRange(fmt.Appendf(nil, "q%08d", i)))
			}
			w := written{keys: [][]byte{[]byte("r1"), []byte("r2")}}
			for b.Loop() {
				if w.overlaps(reads) {
					b.Fatal("they overlap")
				}
			}
		})
	}
}

// A reader that is open for long does not make the window grow for as long: it reads on at its version.
// A transaction that may write does, and its conflict is found.
func TestWindowBesideReader(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	set := func(i int) {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "k%d", i%10), fmt.Append(nil, i)) })
	}
	read := func(r kv.Reader, want int) {
		t.Helper()
		n := 0
		for p, err := range r.Range(kv.PrefixRange([]byte("k")), kv.RangeOptions{}) {
			if got := string(p.Value); err != nil || got != fmt.Sprint(want+n) {
				t.Fatalf("%s is %q, want %d, or %v", p.Key, got, want+n, err)
			}
			n++
		}
		if n != 10 {
			t.Errorf("read %d keys, want 10", n)
		}
	}
	for i := range 10 {
		set(i)
	}
	const commits = 4 * tooMany
	err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
		read(r, 0)
		for i := range commits {
			set(10 + i)
		}
		if n := len(db.window.commits); n > tooMany {
			t.Errorf("the window keeps %d commits for a reader, want %d at most", n, tooMany)
		}
		read(r, 0)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if n := len(db.expired); n > 0 {
		t.Errorf("%d transactions are taken for open", n)
	}
	attempts := 0
	mustTransact(t, db, func(tx kv.Tx) {
		if _, err := tx.Get([]byte("k0")); err != nil {
			t.Error(err)
		}
		if attempts++; attempts == 1 {
			for i := range commits {
				set(i)
			}
		}
		tx.Set([]byte("other"), nil)
	})
	if attempts != 2 {
		t.Errorf("%d attempts of a transaction, want 2: its conflict is missed", attempts)
	}
}
