package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
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
			testkit.Check(t, err)
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

// TestLearnLate checks that what a reader finds in Pebble is in the cache afterwards, unless so many have
// committed since it began that to look at all of them takes too long.
func TestLearnLate(t *testing.T) {
	for _, commits := range []int{1, maxRecent - 1, maxRecent} {
		db := mustOpen(t, fmt.Sprint(commits), Options{FS: memFS(), Durability: Memory})
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("q1"), nil) })
		forget(db)
		err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
			if _, err := r.Get([]byte("a")); err != nil {
				return err
			}
			for range commits {
				mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("b"), nil) })
			}
			_, ok, err := first(r, kv.PrefixRange([]byte("q")), false)
			if _, known := db.cache.Get([]byte("q1"), db.version); !ok || known != (commits < maxRecent) {
				t.Errorf("after %d commits: found: %v; in the cache afterwards: %v", commits, ok, known)
			}
			return err
		})
		testkit.Check(t, err)
	}
}

// A reader that is open for long does not make the conflict log grow for as long: it reads on at its version.
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
	const commits = 4 * maxRecent
	err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
		read(r, 0)
		for i := range commits {
			set(10 + i)
		}
		if n := db.recent.Len(); n > maxRecent {
			t.Errorf("the conflict log keeps %d commits for a reader, want %d at most", n, maxRecent)
		}
		read(r, 0)
		return nil
	})
	testkit.Check(t, err)
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
