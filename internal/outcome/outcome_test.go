package outcome_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/subspace"
)

var space = subspace.Named("outcomes")

// keys counts the outcome keys of a store.
func keys(t *testing.T, db kv.DB) int {
	t.Helper()
	return len(testkit.In(t, db, kv.PrefixRange(space.Bytes())))
}

// write runs a transaction that writes, and takes a millisecond.
func write(ctx context.Context, l *outcome.Lanes) error {
	_, err := outcome.Do(ctx, l, func(tx kv.Tx) (int, error) {
		<-time.After(time.Millisecond)
		tx.Add([]byte("n"), 1)
		return 0, nil
	})
	return err
}

// written counts the transactions of write that have committed.
func written(t *testing.T, db kv.DB) uint64 {
	t.Helper()
	return binary.LittleEndian.Uint64(testkit.Value(t, db, []byte("n")))
}

// Transactions run at the same time, up to MaxLanes, and leave no more keys than ran
// at once.
func TestParallel(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New(memory.Options{})
			db := faulty.New(store, 1, faulty.Options{Limits: kv.Limits{UnknownCommits: unknown}})
			l := outcome.New(db, space, nil)
			for range 10 {
				testkit.Check(t, write(t.Context(), l))
			}
			if n := keys(t, store); n != map[bool]int{false: 0, true: 1}[unknown] {
				t.Errorf("unknown outcomes %v: a lone caller leaves %d keys", unknown, n)
			}
			const calls = 3 * outcome.MaxLanes
			began := time.Now()
			var group sync.WaitGroup
			for range calls {
				group.Go(func() { testkit.Check(t, write(t.Context(), l)) })
			}
			group.Wait()
			want := time.Millisecond
			if unknown {
				want = 3 * time.Millisecond
			}
			if took := time.Since(began); took != want {
				t.Errorf("unknown outcomes %v: %d calls took %v, want %v", unknown, calls, took, want)
			}
			if n := keys(t, store); n > outcome.MaxLanes {
				t.Errorf("%d keys", n)
			}
			testkit.Check(t, l.Forget(t.Context()))
			if n := keys(t, store); n != 0 {
				t.Errorf("%d keys after Forget", n)
			}
			testkit.Check(t, db.Close())
		})
	}
}

// Who waits for a lane leaves when its context ends.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Limits: kv.Limits{UnknownCommits: true}})
		l := outcome.New(db, space, nil)
		var group sync.WaitGroup
		for range outcome.MaxLanes {
			group.Go(func() { testkit.Check(t, write(t.Context(), l)) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		if err := write(ctx, l); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		group.Wait()
		testkit.Check(t, db.Close())
	})
}

// Close waits for transactions under way, refuses those that come later, and leaves
// no key; if it can't, it goes on when it is called again.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		db := faulty.New(store, 1, faulty.Options{Limits: kv.Limits{UnknownCommits: true}})
		l := outcome.New(db, space, nil)
		var group sync.WaitGroup
		for range 10 {
			group.Go(func() { testkit.Check(t, write(t.Context(), l)) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		closed := errors.New("closed")
		if err := l.Close(ctx, closed); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without the time to wait: %v", err)
		}
		if err := write(t.Context(), l); !errors.Is(err, closed) {
			t.Errorf("after Close: %v", err)
		}
		for range 2 {
			testkit.Check(t, l.Close(t.Context(), errors.New("another")))
			if n, done := keys(t, store), written(t, store); n != 0 || done != 10 {
				t.Errorf("%d keys are left, and %d transactions done", n, done)
			}
		}
		if err := write(t.Context(), l); !errors.Is(err, closed) {
			t.Errorf("after Close: %v", err)
		}
		group.Wait()
		testkit.Check(t, db.Close())
	})
}
