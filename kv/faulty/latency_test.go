package faulty_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := open(t, faulty.Options{Latency: 2 * time.Millisecond, ReadLatency: 500 * time.Microsecond, CommitLatency: 3 * time.Millisecond})
		took := func(what string, want time.Duration, f func()) {
			began := time.Now()
			f()
			if got := time.Since(began); got != want {
				t.Errorf("%s took %v, want %v", what, got, want)
			}
		}
		took("a write", 5*time.Millisecond, func() { testkit.NoError(t, set(t, db, "k", "x")) })
		took("a read and write", 5500*time.Microsecond, func() { testkit.NoError(t, swap(t, db, "k", "x")) })
		took("a ReadTransact", 2500*time.Microsecond, func() { get(t, db, "k") })
		took("a transaction that only reads", 2500*time.Microsecond, func() {
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { _, err := tx.Get([]byte("k")); return err }))
		})
		took("a transaction that does nothing", 0, func() {
			testkit.NoError(t, db.Transact(t.Context(), func(kv.Tx) error { return nil }))
		})
		for _, timeout := range []time.Duration{time.Millisecond, 3 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			took("a write that is given up", timeout, func() {
				err := db.Transact(ctx, func(tx kv.Tx) error { tx.Set([]byte("k"), []byte("given up")); return nil })
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want DeadlineExceeded", err)
				}
			})
		}
		if got := get(t, db, "k"); got != "x" {
			t.Errorf("a write that was given up left %q", got)
		}
	})
}

// The version is fixed half way through Latency: what is committed before is
// seen, and what is committed later conflicts.
func TestLatencyFixesTheVersion(t *testing.T) {
	for _, c := range []struct {
		after    time.Duration
		attempts int
	}{{time.Millisecond - 1, 1}, {time.Millisecond + 1, 2}} {
		synctest.Test(t, func(t *testing.T) {
			db, inner := open(t, faulty.Options{Latency: 2 * time.Millisecond})
			time.AfterFunc(c.after, func() { testkit.NoError(t, set(t, inner, "k", "x")) })
			attempts := 0
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				attempts++
				_, err := tx.Get([]byte("k"))
				tx.Set([]byte("other"), nil)
				return err
			}))
			if attempts != c.attempts {
				t.Errorf("a commit %v after the first read's beginning: %d attempts, want %d", c.after, attempts, c.attempts)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, _ := open(t, faulty.Options{Delay: 1, MaxDelay: time.Second})
		began := time.Now()
		testkit.NoError(t, swap(t, db, "k", "x"))
		if took := time.Since(began); took < time.Millisecond || took > 3*time.Second {
			t.Errorf("three pauses of up to a second took %v", took)
		}
		wantStats(t, db, faulty.Stats{Delays: 3})
	})
}
