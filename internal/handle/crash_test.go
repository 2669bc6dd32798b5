package handle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// Close while callers wait ends all their calls with kv.ErrClosed.
func TestCloseWhileWaiting(t *testing.T) {
	var stormy atomic.Bool
	open := map[string]func(t *testing.T) kv.DB{
		"memory": func(*testing.T) kv.DB { return memory.New(memory.Options{}) },
		"shared": func(t *testing.T) kv.DB { return testkit.NewCluster(t, 1, faulty.Options{}).Process() },
		"unknown": func(t *testing.T) kv.DB {
			var n atomic.Int64
			return testkit.NewCluster(t, 1, faulty.Options{Choose: func() faulty.Fate {
				if !stormy.Load() {
					return faulty.Fate{}
				}
				return faulty.Fate{Outcome: []faulty.Outcome{faulty.Committed, faulty.Dropped, faulty.Applied}[n.Add(1)%3]}
			}}).Process()
		},
		"embedded": func(t *testing.T) kv.DB { return openCrashable(t, vfs.NewMem()) },
	}
	for name, open := range open {
		for mode, staging := range stagings {
			t.Run(name+" "+mode, func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) {
					db := open(t)
					var waiters []*taken
					for _, end := range allEnds {
						stormy.Store(false)
						v := end.open(t, db, conq.Options{Staging: staging})
						stormy.Store(true)
						for n := range 20 {
							waiters = append(waiters, startWaiter(t.Context(), v, 1+n))
						}
					}
					for i, w := range waiters {
						testkit.Equal(t, fmt.Sprintf("waiter %d has returned", i), w.done.Load(), false)
					}
					testkit.NoError(t, db.Close())
					pass(time.Second) // some may pause after an unknown outcome
					for i, w := range waiters {
						testkit.Equal(t, fmt.Sprintf("waiter %d has returned", i), w.done.Load(), true)
						testkit.WantError(t, w.err, kv.ErrClosed)
					}
				})
			})
		}
	}
}

func openCrashable(t testing.TB, fs vfs.FS) kv.DB {
	t.Helper()
	db, err := embedded.Open(t.Context(), "db", embedded.Options{FS: fs, MemTable: 1 << 20, Cache: 1 << 20})
	testkit.NoError(t, err)
	return db
}

// Close while callers dequeue, wait and enqueue loses nothing that was
// acknowledged, and doubles nothing: what they got and what is there when the
// store is opened again is what was put in.
func TestCloseLosesNothing(t *testing.T) {
	for mode, staging := range stagings {
		for round := range 5 {
			t.Run(fmt.Sprint(mode, " ", round), func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) { closeLosesNothing(t, staging, round) })
			})
		}
	}
}

func closeLosesNothing(t *testing.T, staging conq.Staging, round int) {
	fs := vfs.NewMem()
	open := func() kv.DB { // nobody stages where others don't share it
		shared := kv.Limits{Shared: staging == conq.StagingAlways}
		return faulty.New(openCrashable(t, fs), 1, faulty.Options{Limits: shared})
	}
	db := open()
	const workers, before = 12, 50
	var n atomic.Int64
	a := account{t: t}
	enough := make(chan struct{})
	q := newQueue(t, db, conq.String(), conq.Options{Staging: staging})
	add := func(q *conq.Queue[string]) error {
		i := n.Add(1)
		if i == int64(before+40*(round+1)) {
			close(enough)
		}
		v := fmt.Sprint(i)
		return a.in(v, q.Enqueue(t.Context(), v))
	}
	for range before - 1 {
		testkit.NoError(t, add(q))
	}
	var group sync.WaitGroup
	for w := range workers {
		q := newQueue(t, db, conq.String(), conq.Options{Staging: staging, NoCombining: w%4 == 0})
		group.Go(func() {
			var err error
			for i := 0; err == nil || errors.Is(err, conq.ErrEmpty); i++ {
				var values []string
				switch {
				case w < 3: // never waits, so that all can't
					err = add(q)
				case (w+i)%2 == 0:
					values, err = q.DequeueN(t.Context(), 2)
				default:
					values, err = q.DequeueWaitN(t.Context(), 1)
				}
				a.out(values...)
			}
			if !errors.Is(err, kv.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
	<-enough
	testkit.NoError(t, db.Close())
	group.Wait()
	db = open()
	pass(time.Minute) // any lease
	q = newQueue(t, db, conq.String(), conq.Options{Staging: conq.StagingAlways})
	var err error
	for err == nil {
		var values []string
		values, err = q.DequeueN(context.Background(), 100)
		a.out(values...)
	}
	testkit.WantError(t, err, conq.ErrEmpty)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = q.DequeueWait(ctx) // who waits clears the line of those that are gone
	testkit.WantError(t, err, context.DeadlineExceeded)
	a.settle()
	testkit.NoError(t, q.Close())
	testkit.Equal(t, "keys left", len(left(t, db)), 0)
	testkit.NoError(t, db.Close())
}
