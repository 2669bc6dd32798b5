package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"go.uber.org/goleak"
)

// afterCommit leaves alone what comes before the next commit, and that.
func afterCommit(inject func(op string) int) func(op string) int {
	committed := false
	return func(op string) int {
		if !committed {
			committed = op == "commit"
			return 0
		}
		return inject(op)
	}
}

// A watch goes on after errors that pass, misses nothing meanwhile, and tells of
// those that don't.
func TestWatchGoesOn(t *testing.T) {
	inStore(t, Options{Retries: 1}, func(t *testing.T, db *DB, c *fake) {
		for _, op := range []string{"version", "get", "watch", "commit"} {
			get(t, db, "a")
			var told <-chan error
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				told = tx.Watch([]byte("a"))
				c.failWith(afterCommit(fails(op, 5, 1009, 1039)))
				return nil
			}))
			silent(t, told, op)
			c.failWith(nil)
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { tx.Add([]byte("a"), 1); return nil }))
			if err := <-told; err != nil {
				t.Errorf("the watch told %v of a change", err)
			}
		}
		var told <-chan error
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			told = tx.Watch([]byte("a"))
			c.failWith(fails("watch", 1, 1036))
			return nil
		}))
		var e *Error
		if err := <-told; !errors.As(err, &e) || e.Code != 1036 {
			t.Errorf("the watch told %v, want the library's error", err)
		}
	})
}

// Who waits while the library has no watch left looks from time to time, and finds what comes.
func TestTooManyWatches(t *testing.T) {
	inStore(t, Options{Retries: 1}, func(t *testing.T, db *DB, c *fake) {
		q := openQueue(t, db, conq.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		asked := 0
		c.failWith(func(op string) int {
			if op != "watch" {
				return 0
			}
			if asked++; asked > 1000 {
				cancel(errors.New("watches were asked for 1,000 times"))
			}
			return 1032
		})
		const wait = 100 * time.Second
		began := time.Now()
		time.AfterFunc(wait, func() {
			testkit.Check(t, q.Enqueue(t.Context(), "late"))
		})
		if got, err := q.DequeueWait(ctx); got != "late" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if took := time.Since(began); took > wait+2*unwatched {
			t.Errorf("it took %v to find what came after %v", took, wait)
		}
	})
}

// Nor is it an error of a watch that the library has none left: it tells of the change when that comes.
func TestWatchWhenNoneIsLeft(t *testing.T) {
	inStore(t, Options{Retries: 1}, func(t *testing.T, db *DB, c *fake) {
		c.failWith(func(op string) int {
			if op == "watch" {
				return 1032
			}
			return 0
		})
		var told <-chan error
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { told = tx.Watch([]byte("k")); return nil }))
		changed := false
		time.AfterFunc(5*unwatched, func() {
			changed = true
			testkit.Check(t, db.Transact(t.Context(), func(tx kv.Tx) error { set(tx, "k", "new"); return nil }))
		})
		if err := <-told; err != nil || !changed {
			t.Errorf("it was told %v; the key had changed: %v", err, changed)
		}
	})
}

// What the transaction itself leaves at a key does not set its watch off.
func TestWatchOfOwnWrites(t *testing.T) {
	for name, write := range map[string]func(kv.Tx){
		"nothing":       func(kv.Tx) {},
		"Set":           func(tx kv.Tx) { set(tx, "k01", "own") },
		"Set empty":     func(tx kv.Tx) { set(tx, "k01", "") },
		"Clear":         func(tx kv.Tx) { tx.Clear([]byte("k01")) },
		"ClearRange":    func(tx kv.Tx) { tx.ClearRange(kv.Range{}) },
		"Add":           func(tx kv.Tx) { tx.Add([]byte("k01"), 7) },
		"Clear, Add":    func(tx kv.Tx) { tx.Clear([]byte("k01")); tx.Add([]byte("k01"), 7) },
		"Add, Add":      func(tx kv.Tx) { tx.Add([]byte("k01"), 7); tx.Add([]byte("k01"), 7) },
		"Set elsewhere": func(tx kv.Tx) { set(tx, "k02", "own") },
	} {
		for _, last := range []bool{false, true} {
			inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
				fill(t, db, 3)
				var told <-chan error
				testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
					if last {
						write(tx)
					}
					told = tx.Watch([]byte("k01"))
					if !last {
						write(tx)
					}
					return nil
				}))
				silent(t, told, fmt.Sprintf("%s, before Watch %v", name, last))
				testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { set(tx, "k01", "other"); return nil }))
				if err := <-told; err != nil {
					t.Errorf("%s: the watch told %v of a change", name, err)
				}
			})
		}
	}
}

// A watch leaves nothing behind: no goroutine, no watch of the library's.
func TestWatchesEnd(t *testing.T) {
	before := goleak.IgnoreCurrent()
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		ctx, cancel := context.WithCancelCause(t.Context())
		var all []<-chan error
		for i := range 30 {
			testkit.NoError(t, db.Transact(ctx, func(tx kv.Tx) error {
				all = append(all, tx.Watch(fmt.Appendf(nil, "k%02d", i)))
				return nil
			}))
		}
		fill(t, db, 10)
		cause := errors.New("cause")
		cancel(cause)
		told := map[string]int{}
		for _, watch := range all {
			told[fmt.Sprint(<-watch)]++
		}
		if want := map[string]int{"<nil>": 10, "cause": 20}; !maps.Equal(told, want) {
			t.Errorf("the watches told %v, want %v", told, want)
		}
		synctest.Wait()
		if n := c.waiting.Load(); n != 0 {
			t.Errorf("%d futures are still waited for", n)
		}
	})
	testkit.Check(t, goleak.Find(before))
}

// A watch whose transaction does not get to its commit is not left to the library.
func TestWatchWithoutCommit(t *testing.T) {
	inStore(t, Options{}, func(t *testing.T, db *DB, c *fake) {
		get(t, db, "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		var told <-chan error
		testkit.NoError(t, db.Transact(ctx, func(tx kv.Tx) error {
			told = tx.Watch([]byte("a"))
			c.failWith(func(op string) int {
				if op == "watch" {
					c.stuck.Store(true) // before the commit that begins it
				}
				return 0
			})
			return nil
		}))
		silent(t, told, "stuck")
		cause := errors.New("cause")
		cancel(cause)
		if err := <-told; !errors.Is(err, cause) {
			t.Errorf("the watch told %v, want the cause", err)
		}
		c.stuck.Store(false)
	})
}

// silent fails the test if a watch has told something.
func silent(t *testing.T, told <-chan error, when string) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-told:
		t.Fatalf("%s: the watch told %v of nothing", when, err)
	default:
	}
}
