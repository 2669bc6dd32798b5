package handle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/tuple"
)

// Consumers who wait on the handles of different processes are served in turn, too,
// also if most of them are on one handle, or their stores are slow, each by chance.
func TestWaitFairnessOfHandles(t *testing.T) {
	const consumers, items = 64, 600
	for name, of := range map[string]func(consumer int) int{
		"8 on each of 8":         func(c int) int { return c % 8 },
		"57 on one, 1 on others": func(c int) int { return max(0, c-56) },
	} {
		for mode, staging := range stagings {
			for _, end := range allEnds {
				t.Run(fmt.Sprint(name, " ", mode, " ", end.name), func(t *testing.T) {
					if end.name != allEnds[staging].name && !testkit.Thorough() { // one for each mode
						return
					}
					if name != "8 on each of 8" {
						testkit.Long(t)
					}
					testkit.Bubble(t, func(t *testing.T) {
						c := testkit.NewCluster(t, 1, faulty.Options{Delay: 0.3, MaxDelay: 300 * time.Microsecond})
						defer c.Close()
						var handles [8]endVerbs
						for h := range handles {
							handles[h] = end.open(t, c.Process(), conq.Options{Staging: staging})
						}
						producer := end.open(t, c.Process(), conq.Options{})
						worst := overtaken(t, consumers, items, func(c int) endVerbs { return handles[of(c)] }, producer)
						if worst > 2 {
							t.Errorf("while a consumer waited another was served %d times", worst)
						}
						testkit.Equal(t, "keys left", len(left(t, c.Inner)), 0)
					})
				})
			}
		}
	}
}

// waiters on handles of their own, each in its own process.
type waiters struct {
	c   *testkit.Cluster
	all []*taken
}

func newWaiters(t *testing.T, c *testkit.Cluster, n int, attempt func(waiter int)) *waiters {
	w := &waiters{c: c}
	for i := range n {
		db := &testkit.Hooked{DB: c.Process(), Attempt: func(tx kv.Tx) kv.Tx {
			attempt(i)
			return tx
		}}
		w.all = append(w.all, startWaiter(t.Context(), openFront(t, db, conq.Options{}), 1))
		pass(time.Millisecond)
	}
	return w
}

// Those who wait on different handles get items in the order in which they came, one
// enqueued item wakes two of them, and idle they cost one transaction a second each.
func TestWaitOrderOfHandles(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		const n = 20
		c := testkit.NewCluster(t, 1, faulty.Options{})
		defer c.Close()
		var attempts atomic.Int64
		w := newWaiters(t, c, n, func(int) { attempts.Add(1) })
		attempts.Store(0)
		pass(time.Minute)
		synctest.Wait()
		if got := attempts.Load(); got > 75*n { // the entry in front is renewed, too
			t.Errorf("%d idle waiters ran %d transactions in a minute", n, got)
		}
		producer := openFront(t, c.Process(), conq.Options{})
		for i := range n {
			attempts.Store(0)
			testkit.NoError(t, producer.add(t.Context(), fmt.Sprint(i)))
			synctest.Wait()
			testkit.NoError(t, w.all[i].err)
			testkit.EqualSlices(t, "got", w.all[i].values, []string{fmt.Sprint(i)})
			if got := attempts.Load(); got > 3 {
				t.Errorf("item %d took %d transactions", i, got)
			}
			pass(time.Millisecond)
		}
		testkit.Equal(t, "keys left", len(left(t, c.Inner)), 0)
	})
}

// Who waits and dies keeps items from the others for 3 seconds at most, wherever it
// is in the line, and nobody else loses his place.
func TestWaitDead(t *testing.T) {
	for _, dead := range []int{0, 1, 3} {
		testkit.Bubble(t, func(t *testing.T) {
			c := testkit.NewCluster(t, 1, faulty.Options{})
			defer c.Close()
			var dies atomic.Bool
			hang := make(chan struct{})
			w := newWaiters(t, c, 4, func(i int) {
				if i == dead && dies.Load() {
					<-hang
				}
			})
			dies.Store(true)
			pass(5 * time.Second) // it has been idle for a while
			producer := openFront(t, c.Process(), conq.Options{})
			began, next := time.Now(), 0
			for i := range 4 {
				if i == dead {
					continue
				}
				testkit.NoError(t, producer.add(t.Context(), fmt.Sprint(next)))
				for !w.all[i].done.Load() {
					pass(10 * time.Millisecond)
					synctest.Wait()
				}
				testkit.NoError(t, w.all[i].err)
				testkit.EqualSlices(t, "got", w.all[i].values, []string{fmt.Sprint(next)})
				next++
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("number %d is dead: the others got their items after %v", dead, took)
			}
			close(hang)
			synctest.Wait()
			testkit.NoError(t, producer.add(t.Context(), "late"))
			pass(3 * time.Second)
			synctest.Wait()
			testkit.EqualSlices(t, "who was thought dead got", w.all[dead].values, []string{"late"})
			testkit.Equal(t, "keys left", len(left(t, c.Inner)), 0)
		})
	}
}

// However many have died who waited, those behind them wait no longer where there is plenty.
func TestWaitDeadAndPlenty(t *testing.T) {
	for mode, how := range stagings {
		t.Run(mode, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				const dead = 3
				c := testkit.NewCluster(t, 1, faulty.Options{})
				defer c.Close()
				var dies atomic.Bool
				hang := make(chan struct{})
				revive := sync.OnceFunc(func() { close(hang) })
				defer revive()
				w := newWaiters(t, c, dead+1, func(i int) {
					if i < dead && dies.Load() {
						<-hang
					}
				})
				dies.Store(true)
				producer := openFront(t, c.Process(), conq.Options{})
				testkit.NoError(t, producer.all(t.Context(), make([]conq.Prioritized[string], staging.Plenty+2)...))
				synctest.Wait()
				began := time.Now()
				testkit.NoError(t, drop(openFront(t, c.Process(), conq.Options{Staging: how}).wait(t.Context(), 1)))
				synctest.Wait()                      // who stood behind the dead is woken
				const pauses = 20 * time.Millisecond // after conflicts with whoever serves the staged; a wait is 250 ms at least
				if waited := time.Since(began); waited > pauses {
					t.Errorf("those behind have waited %v", waited)
				}
				pass(pauses) // until it is served, if it stages
				testkit.Equal(t, "who stood there got his", w.all[dead].done.Load(), true)
				testkit.NoError(t, w.all[dead].err)
				revive()
				pass(10 * time.Millisecond)
				synctest.Wait()
				for _, got := range w.all {
					testkit.NoError(t, got.err)
				}
				testkit.Equal(t, "keys left", len(left(t, c.Inner)), staging.Plenty+2-dead-2)
			})
		})
	}
}

// fewOperations are limits like those of etcd.
var fewOperations = kv.Limits{Operations: 128, Shared: true, UnknownCommits: true}

// Many who wait have died: who takes as many items as a transaction can still gets them.
func TestWaitManyDead(t *testing.T) {
	for mode, staging := range stagings {
		for _, dead := range []int{4, 5, 15, 16, 40} {
			t.Run(fmt.Sprint(mode, " ", dead), func(t *testing.T) {
				db := testkit.NewMemory(t, fewOperations)
				v := openFront(t, db, conq.Options{Staging: staging})
				for range 112 {
					testkit.NoError(t, v.add(t.Context(), "x"))
				}
				for i := range dead {
					key := tuple.AppendInt(tuple.AppendInt(layout.Stage("q").Bytes(), 4), int64(i))
					testkit.Write(t, db, kv.KeyValue{
						Key:   tuple.AppendBytes(key, fmt.Appendf(nil, "%016d", i)),
						Value: tuple.AppendInt(tuple.AppendInt(nil, 0), 1),
					})
				}
				testkit.NoError(t, drop(v.wait(t.Context(), 112)))
			})
		}
	}
}

// fullStore has transactions fail while it is on.
type fullStore struct {
	kv.DB
	on bool
}

var errNoSpace = errors.New("no space")

func (r *fullStore) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return r.DB.Transact(ctx, func(tx kv.Tx) error {
		if err := f(tx); err != nil || !r.on {
			return err
		}
		return errNoSpace
	})
}

// Who has tried to wait again and again while nothing could be committed can wait when it can.
func TestWaitAfterRefusals(t *testing.T) {
	db := &fullStore{DB: testkit.NewMemory(t, fewOperations)}
	v, producer := openFront(t, db, conq.Options{}), openFront(t, db, conq.Options{})
	db.on = true
	for range 130 {
		testkit.WantError(t, drop(v.one(t.Context())), errNoSpace)
	}
	db.on = false
	for range 112 {
		testkit.NoError(t, producer.add(t.Context(), "x"))
	}
	testkit.NoError(t, drop(v.wait(t.Context(), 112)))
	testkit.NoError(t, v.close())
	testkit.NoError(t, producer.close())
	testkit.Equal(t, "keys left", len(left(t, db)), 0)
}

// Who gives up leaves the line, so that others need not wait for him.
func TestWaitLeavesLine(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := testkit.NewCluster(t, 1, faulty.Options{})
		defer c.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := startWaiter(ctx, openFront(t, c.Process(), conq.Options{}), 1)
		pass(time.Millisecond)
		next := startWaiter(t.Context(), openFront(t, c.Process(), conq.Options{}), 1)
		cancel(errEnough)
		synctest.Wait()
		testkit.WantError(t, gone.err, errEnough)
		testkit.NoError(t, openFront(t, c.Process(), conq.Options{}).add(t.Context(), "1"))
		synctest.Wait() // no time passes
		testkit.EqualSlices(t, "the next one got", next.values, []string{"1"})
		testkit.Equal(t, "keys left", len(left(t, c.Inner)), 0)
	})
}

// When one of a handle's callers gives up, and another one waits on, that one's turn comes as soon
// as those in front have gone.
func TestWaitBehindOwn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := testkit.NewCluster(t, 1, faulty.Options{})
		defer c.Close()
		producer := openFront(t, c.Process(), conq.Options{})
		first := startWaiter(t.Context(), openFront(t, c.Process(), conq.Options{}), 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		v := openFront(t, c.Process(), conq.Options{})
		var all []*taken
		for _, ctx := range []context.Context{ctx, t.Context()} {
			pass(time.Millisecond)
			all = append(all, startWaiter(ctx, v, 1))
		}
		cancel(errEnough)
		synctest.Wait()
		testkit.WantError(t, all[0].err, errEnough)
		testkit.NoError(t, producer.add(t.Context(), "1"))
		testkit.NoError(t, producer.add(t.Context(), "2"))
		synctest.Wait() // no time passes
		testkit.EqualSlices(t, "the first one got", first.values, []string{"1"})
		testkit.EqualSlices(t, "the one behind got", all[1].values, []string{"2"})
		testkit.Equal(t, "keys left", len(left(t, c.Inner)), 0)
	})
}

// Where there is plenty nobody stands in line: all who wait take at once.
func TestWaitPlenty(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		const n = 30
		c := testkit.NewCluster(t, 1, faulty.Options{Latency: 10 * time.Millisecond})
		defer c.Close()
		w := newWaiters(t, c, n, func(int) {})
		pass(100 * time.Millisecond)
		q := newQueue(t, c.Inner, conq.String())
		began := time.Now()
		testkit.NoError(t, c.Process().Transact(t.Context(), func(tx kv.Tx) error {
			for i := range 2 * n {
				testkit.NoError(t, q.In(tx).Enqueue(fmt.Sprint(i)))
			}
			var news [8]byte
			tx.Set(layout.SignalKey("q"), append(news[:7], 1)) // the store below has its signals in memory
			return nil
		}))
		for _, got := range w.all {
			for !got.done.Load() {
				pass(time.Millisecond)
			}
			testkit.NoError(t, got.err)
		}
		if took := time.Since(began); took > n*10*time.Millisecond {
			t.Errorf("it took %v, as if one came after the other", took)
		}
	})
}

// Those who wait and those who don't, who give up and who are cleared away, through
// faults: every item comes out once, and the line is empty in the end.
func TestWaitLineStorm(t *testing.T) {
	for seed := range uint64(testkit.Cases(30)) {
		testkit.Bubble(t, func(t *testing.T) {
			c := testkit.NewCluster(t, 1000*seed, faulty.Options{Conflict: 0.1, Dropped: 0.1, Applied: 0.1, Late: 0.1, Delay: 0.3})
			defer c.Close()
			const handles, callers, items = 4, 3, 60
			a := account{t: t}
			var maybe atomic.Int64 // items of calls that don't know whether they took any
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			testkit.Together(handles*callers+1, func(i int) {
				v := opened(t, func() (endVerbs, error) {
					q, err := conq.OpenQueue(ctx, c.Process(), "q", conq.String(), conq.Options{Staging: conq.Staging(i % 3)})
					return endVerbs{add: q.Enqueue, take: q.DequeueN, wait: q.DequeueWaitN}, err
				})
				for n := 0; i == 0 && n < items; n++ {
					testkit.NoError(t, v.add(t.Context(), fmt.Sprint(n)))
					pass(time.Duration(n%4) * time.Millisecond)
				}
				for n := 0; i > 0 && ctx.Err() == nil; n++ {
					take := v.wait
					if n%5 == 4 {
						take = v.take
					}
					wait, stop := context.WithTimeout(ctx, time.Duration(10+n%7*i)*time.Millisecond)
					values, err := take(wait, 1+n%2)
					stop()
					if a.out(values...); errors.Is(err, kv.ErrCommitUnknown) {
						maybe.Add(int64(1 + n%2))
					}
					if a.n.Load()+maybe.Load() >= items {
						cancel()
					}
					if err != nil {
						pass(time.Millisecond)
					}
				}
			})
			for _, db := range c.Nodes() {
				db.Flush()
			}
			pass(time.Minute)
			rest := newQueue(t, c.Inner, conq.String())
			testkit.NoError(t, rest.Reclaim(t.Context()))
			values, err := rest.DequeueN(t.Context(), items)
			testkit.NoError(t, drop(values, err))
			a.out(values...)
			if got := a.n.Load(); got > items || got < items-maybe.Load() {
				t.Errorf("seed %d: %d of %d items came out, and perhaps %d", seed, got, items, maybe.Load())
			}
		})
	}
}
