package work

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// idleKeep runs f beside a Keep of a store that one process has, with how often the store is read or written.
func idleKeep(t *testing.T, f func(ctx context.Context, db kv.DB, calls *atomic.Int64)) {
	synctest.Test(t, func(t *testing.T) {
		calls := new(atomic.Int64)
		db := &testkit.Hooked{
			DB:      memory.New(memory.Options{}),
			Attempt: func(tx kv.Tx) kv.Tx { calls.Add(1); return tx },
			Reader:  func(r kv.Reader) kv.Reader { calls.Add(1); return r },
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Keep(ctx, db) }()
		f(ctx, db, calls)
		stop()
		noError(t, <-done)
	})
}

// Queues that were emptied cost a keeper nothing: it reads none of them, and remembers none but those with periodic jobs.
func TestKeepForgetsEmptied(t *testing.T) {
	idleKeep(t, func(ctx context.Context, db kv.DB, calls *atomic.Int64) {
		for i := range 100 {
			q, err := Open(ctx, db, fmt.Sprint(i), queue.String(), Options{Settings: &Settings{Rate: Rate{N: 1, Per: time.Second}}})
			noError(t, err)
			for range 3 {
				_, err = q.Put(ctx, "x")
				noError(t, err)
			}
			for range 2 {
				l, err := q.ReserveWait(ctx)
				noError(t, err)
				noError(t, l.Ack(ctx))
			}
			_, err = ready(q)(ctx, 1) // the third one waits for the rate
			noError(t, err)
			noError(t, q.Clear(ctx))
			if i == 0 {
				noError(t, q.Every(ctx, "p", "@every 1h", "x"))
			}
			noError(t, q.Close())
		}
		time.Sleep(5 * time.Second) // of the test's clock
		synctest.Wait()
		before := calls.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		testkit.Equal(t, "transactions in a minute", calls.Load()-before, int64(0))
		k := shareKeeper(db)
		defer k.release()
		k.mu.Lock()
		defer k.mu.Unlock()
		testkit.Equal(t, "queues that the keeper remembers", len(k.alarms), 1)
	})
}

// A queue that the keeper has forgotten is kept again, also if its handle was closed before the transaction committed.
func TestKeepRemembers(t *testing.T) {
	idleKeep(t, func(ctx context.Context, db kv.DB, _ *atomic.Int64) {
		q := open(t, db, Options{})
		look := func() (s Stats) {
			t.Helper()
			time.Sleep(5 * time.Second) // of the test's clock
			synctest.Wait()
			noError(t, db.ReadTransact(ctx, func(r kv.Reader) error { // which has nothing done that is due
				counts, err := jobs.NewQueue("jobs", db.Limits(), jobs.Config{}).Counts(r)
				s.Ready, s.Scheduled = counts[jobs.Ready], counts[jobs.Scheduled]
				return err
			}))
			return s
		}
		look()
		_, err := q.Put(ctx, "x", Job{Delay: 2 * time.Second})
		noError(t, err)
		noError(t, q.Close())
		testkit.Equal(t, "jobs", look(), Stats{Ready: 1})

		q = open(t, db, Options{})
		noError(t, q.Clear(ctx))
		look()
		noError(t, db.Transact(ctx, func(tx kv.Tx) error {
			if _, err := q.In(tx).Put("y", Job{Delay: 12 * time.Second}); err != nil {
				return err
			}
			noError(t, q.Close())
			time.Sleep(5 * time.Second) // the keeper forgets the queue
			return nil
		}))
		testkit.Equal(t, "jobs", look(), Stats{Scheduled: 1})
		testkit.Equal(t, "jobs", look(), Stats{Ready: 1})
	})
}
