package handle_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// outcomeKeys counts the outcome keys in a store.
func outcomeKeys(t testkit.TB, db kv.DB) (n int) {
	t.Helper()
	for _, pair := range testkit.Stored(t, db) {
		if strings.HasPrefix(string(pair.Key), string(layout.System("outcome"))) {
			n++
		}
	}
	return n
}

// closable are the kinds of stores on which closing a handle differs.
var closable = map[string]kv.Limits{
	"memory": {}, "shared": {Shared: true}, "unknown": {UnknownCommits: true}, "both": {Shared: true, UnknownCommits: true},
}

// Close has all return who wait, with ErrClosed and the queue's name; later calls
// fail, the store and other handles go on, and no keys stay.
func TestHandleClose(t *testing.T) {
	for kind, limits := range closable {
		for mode, staging := range stagings {
			for _, end := range allEnds {
				t.Run(fmt.Sprint(kind, " ", mode, " ", end.name), func(t *testing.T) {
					testkit.Bubble(t, func(t *testing.T) {
						store := memory.New(memory.Options{})
						db := faulty.New(store, 1, faulty.Options{Limits: limits})
						handleClose(t, db, func(o conq.Options) endVerbs { return end.open(t, db, o) }, staging)
						testkit.NoError(t, db.Close())
					})
				})
			}
		}
	}
}

func handleClose(t *testing.T, db kv.DB, open func(conq.Options) endVerbs, staging conq.Staging) {
	v, other := open(conq.Options{Staging: staging}), open(conq.Options{})
	testkit.NoError(t, v.add(t.Context(), "1"))
	wantItems(t, "got", v.take, 2, "1")
	var waiters []*taken
	for n := range 20 {
		waiters = append(waiters, startWaiter(t.Context(), v, 1+n))
	}
	began := time.Now()
	testkit.Together(3, func(int) { testkit.Check(t, v.close()) })
	testkit.NoError(t, v.close())
	testkit.Equal(t, "time that it took", time.Since(began), 0)
	synctest.Wait()
	for _, w := range waiters {
		testkit.Equal(t, "has returned", w.done.Load(), true)
		testkit.WantError(t, w.err, conq.ErrClosed, v.laid.Name)
		testkit.WantError(t, w.err, kv.ErrClosed)
	}
	testkit.WantError(t, v.add(t.Context(), "2"), conq.ErrClosed, v.laid.Name)
	for _, call := range []func() error{
		func() error { return drop(v.take(t.Context(), 1)) },
		func() error { return drop(v.wait(t.Context(), 1)) },
		func() error { return drop(v.len(t.Context())) },
		func() error { return db.Transact(t.Context(), func(tx kv.Tx) error { return v.in(tx, "3") }) },
	} {
		testkit.WantError(t, call(), conq.ErrClosed, v.laid.Name)
	}
	testkit.NoError(t, other.add(t.Context(), "4"))
	wantItems(t, "another handle gets", other.wait, 2, "4")
	testkit.NoError(t, other.close())
	testkit.Equal(t, "outcome keys", outcomeKeys(t, db), 0)
	testkit.Equal(t, "other keys left", len(left(t, db)), 0)
}

// Close while callers of all kinds are at it, through faults, loses and doubles
// nothing, and leaves no key.
func TestHandleCloseStorm(t *testing.T) {
	for mode, staging := range stagings {
		for seed := range uint64(testkit.Cases(20)) {
			t.Run(fmt.Sprint(mode, " ", seed), func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) { handleCloseStorm(t, staging, seed) })
			})
		}
	}
}

func handleCloseStorm(t *testing.T, staging conq.Staging, seed uint64) {
	c := testkit.NewCluster(t, 1000*seed, faulty.Options{Conflict: 0.1, Dropped: 0.1, Applied: 0.1, Late: 0.1, Delay: 0.5})
	defer c.Close()
	const handles, callers = 3, 6
	a := account{t: t}
	var group sync.WaitGroup
	var all []endVerbs
	for h := range handles {
		db := c.Process()
		v := opened(t, func() (endVerbs, error) {
			q, err := conq.OpenQueue(t.Context(), db, "q", conq.String(), conq.Options{Staging: staging, NoCombining: h == 0})
			return endVerbs{add: q.Enqueue, take: q.DequeueN, wait: q.DequeueWaitN, close: q.Close}, err
		})
		all = append(all, v)
		for w := range callers {
			group.Go(func() {
				var err error
				for i := 0; err == nil || errors.Is(err, conq.ErrEmpty); i++ {
					var values []string
					switch name := fmt.Sprint(h, " ", w, " ", i); w % 3 {
					case 0:
						err = a.in(name, v.add(t.Context(), name))
					case 1:
						values, err = v.take(t.Context(), 2)
					case 2:
						values, err = v.wait(t.Context(), 1)
					}
					a.out(values...)
				}
				if !errors.Is(err, conq.ErrClosed) {
					t.Errorf("a call returned %v", err)
				}
			})
		}
	}
	pass(time.Duration(5+seed) * time.Millisecond)
	testkit.Together(handles, func(h int) { testkit.Check(t, all[h].close()) })
	group.Wait()
	for _, db := range c.Nodes() {
		db.Flush()
	}
	testkit.Equal(t, "outcome keys", outcomeKeys(t, c.Inner), 0)
	calm := newQueue(t, c.Inner, conq.String())
	rest, err := calm.DequeueN(t.Context(), 10_000)
	testkit.NoError(t, drop(rest, err))
	a.out(rest...)
	a.settle()
	testkit.Equal(t, "keys left", len(left(t, c.Inner)), 0)
}

// Close gives up in the end if the store does not answer, and goes on when it is
// called again.
func TestHandleCloseTimeout(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Limits: kv.Limits{UnknownCommits: true}})
		hold := make(chan struct{})
		hanging := &testkit.Hooked{DB: db}
		q := newQueue(t, hanging, conq.String())
		hanging.Attempt = func(tx kv.Tx) kv.Tx { <-hold; return tx }
		call := async(func() error { return q.Enqueue(t.Context(), "1") })
		began := time.Now()
		err := q.Close()
		testkit.WantError(t, err, context.DeadlineExceeded, "30s", `"q"`)
		testkit.Equal(t, "time that it took", time.Since(began), 30*time.Second)
		close(hold)
		testkit.NoError(t, <-call)
		testkit.NoError(t, q.Close())
		testkit.Equal(t, "outcome keys", outcomeKeys(t, db), 0)
		testkit.NoError(t, db.Close())
	})
}

// Opening a queue removes the outcome keys of handles that have been idle for long,
// most of which are dead. Those that are not go on, and each of their calls still
// happens once.
func TestOpenForgetsOutcomes(t *testing.T) {
	for seed := range uint64(20) {
		testkit.Bubble(t, func(t *testing.T) {
			var stormy atomic.Bool
			var n atomic.Uint64
			c := testkit.NewCluster(t, seed, faulty.Options{Choose: func() faulty.Fate {
				i := n.Add(1)
				if !stormy.Load() || i > 40 {
					return faulty.Fate{}
				}
				return faulty.Fate{Outcome: faulty.Outcome((i*(seed+3) + seed) % 5), After: int(seed % 6)}
			}})
			defer c.Close()
			var all []*conq.Queue[string]
			for range 5 {
				q := newQueue(t, c.Process(), conq.String())
				all = append(all, q)
				testkit.NoError(t, q.Enqueue(t.Context(), "1"))
			}
			pass(kv.OutcomeAge - time.Hour)
			testkit.NoError(t, all[0].Enqueue(t.Context(), "2"))
			testkit.Equal(t, "outcome keys", outcomeKeys(t, c.Inner), 5)
			pass(2 * time.Hour)
			q := newQueue(t, c.Process(), conq.String())
			testkit.Equal(t, "outcome keys of those that were used lately", outcomeKeys(t, c.Inner), 1)
			testkit.NoError(t, q.Clear(t.Context()))
			n.Store(0)
			stormy.Store(true)
			testkit.Together(len(all), func(i int) { testkit.Check(t, all[i].Enqueue(t.Context(), fmt.Sprint(i))) })
			stormy.Store(false)
			for _, db := range c.Nodes() {
				db.Flush()
			}
			values, err := q.DequeueN(t.Context(), 100)
			testkit.NoError(t, err)
			testkit.Equal(t, "items", len(values), len(all))
		})
	}
}

// Without combining, callers of one handle run at the same time also where commits
// may be unknown.
func TestNoCombiningParallel(t *testing.T) {
	for _, end := range allEnds {
		testkit.Bubble(t, func(t *testing.T) {
			c := testkit.NewCluster(t, 1, faulty.Options{Limits: kv.Limits{UnknownCommits: true}, CommitLatency: 10 * time.Millisecond})
			defer c.Close()
			v := end.open(t, c.Process(), conq.Options{NoCombining: true})
			began := time.Now()
			testkit.Together(40, func(i int) { testkit.Check(t, v.add(t.Context(), fmt.Sprint(i))) })
			testkit.Equal(t, "time of 40 calls", time.Since(began), 10*time.Millisecond)
			if n := outcomeKeys(t, c.Inner); n != 40 {
				t.Errorf("%d outcome keys", n)
			}
			testkit.NoError(t, v.close())
			testkit.Equal(t, "outcome keys after Close", outcomeKeys(t, c.Inner), 0)
		})
	}
}

// hanging is a codec that waits before it decodes.
type hanging struct {
	conq.Codec[string]
	goOn <-chan struct{}
}

func (h hanging) Decode(b []byte) (string, error) {
	<-h.goOn
	return h.Codec.Decode(b)
}

// Close gives up on a call that hangs, says so, and can be called again. Who waits, and that nobody
// does any more, is told.
func TestCloseGivesUp(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{})
		goOn := make(chan struct{})
		var waiting []int
		p := newPriorityQueue(t, db, hanging{conq.String(), goOn}, conq.Options{Observe: func(e conq.Event) {
			if e.Kind == conq.Waiting {
				waiting = append(waiting, e.Items)
			}
		}})
		got := startWaiter(t.Context(), endVerbs{wait: valuesOf(p.PopWaitN, conq.Min)}, 1)
		other := newPriorityQueue(t, db, conq.String())
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return other.In(tx).Push("a", 1) }))
		synctest.Wait()
		if err := p.Close(); err == nil || !strings.Contains(err.Error(), `queue "p": closing: closing took longer than 30s`) {
			t.Errorf("error %v", err)
		}
		close(goOn)
		synctest.Wait()
		testkit.NoError(t, got.err)
		testkit.EqualSlices(t, "items", got.values, []string{"a"})
		testkit.NoError(t, p.Close())
		testkit.EqualSlices(t, "told who waits", slices.Compact(waiting), []int{1, 0})
	})
}

// A queue that was never opened can't be closed.
func TestCloseUnopened(t *testing.T) {
	const unopened = "conq: queue was not opened: use OpenQueue or OpenPriorityQueue: invalid argument"
	testkit.Equal(t, "error", new(conq.Queue[string]).Close().Error(), unopened)
	testkit.Equal(t, "error", new(conq.PriorityQueue[string]).Close().Error(), unopened)
}

// A loop over the items ends with an error, also if it was asked for before.
func TestCloseThenLoop(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), nil)
	testkit.NoError(t, f.q.Enqueue(f.ctx, "v"))
	testkit.NoError(t, f.db.Transact(f.ctx, func(tx kv.Tx) error {
		before, in := f.q.All(f.ctx), f.q.In(tx).All()
		testkit.NoError(t, f.q.Close())
		for what, all := range map[string]iter.Seq2[string, error]{
			"before": before, "after": f.q.All(f.ctx), "in, before": in, "in, after": f.q.In(tx).All(),
		} {
			var err error
			for _, err = range all {
			}
			if !errors.Is(err, conq.ErrClosed) {
				t.Errorf("%s: error %v, want ErrClosed", what, err)
			}
		}
		return nil
	}))
}

// A call that has nothing to add fails like others.
func TestAddNothing(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), nil)
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, nil))
	testkit.NoError(t, f.p.PushAll(f.ctx, nil))
	testkit.NoError(t, f.q.Close())
	testkit.NoError(t, f.p.Close())
	testkit.WantError(t, f.q.EnqueueAll(f.ctx, nil), conq.ErrClosed)
	testkit.WantError(t, f.p.PushAll(f.ctx, nil), conq.ErrClosed)
}

// Who waits for an item ends with the error of a store that fails.
func TestWaitOfFailedStore(t *testing.T) {
	var broken atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSyncData && broken.Load() {
			return syscall.EIO
		}
		return nil
	}))
	db, err := embedded.Open(t.Context(), "store", embedded.Options{FS: fs})
	testkit.NoError(t, err)
	defer db.Close()
	q, err := conq.OpenQueue(t.Context(), db, "waited for", conq.String())
	testkit.NoError(t, err)
	other, err := conq.OpenQueue(t.Context(), db, "other", conq.String())
	testkit.NoError(t, err)
	done := make(chan error, 1)
	waiting := make(chan struct{})
	go func() {
		close(waiting)
		_, err := q.DequeueWait(t.Context())
		done <- err
	}()
	<-waiting
	broken.Store(true)
	testkit.WantError(t, other.Enqueue(t.Context(), "x"), embedded.ErrFailed)
	testkit.WantError(t, <-done, embedded.ErrFailed)
}

// Nothing holds a handle that is closed, also if nothing has come for those who waited.
func TestClosedIsFreed(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := memory.New(memory.Options{})
		defer db.Close()
		handle := func() weak.Pointer[conq.PriorityQueue[string]] {
			p := newPriorityQueue(t, db, conq.String())
			ctx, cancel := context.WithCancelCause(t.Context())
			low := startWaiter(ctx, endVerbs{wait: valuesOf(p.PopWaitN, conq.Min)}, 1)
			high := startWaiter(ctx, endVerbs{wait: valuesOf(p.PopWaitN, conq.Max)}, 1)
			cancel(errEnough)
			synctest.Wait()
			testkit.WantError(t, low.err, errEnough)
			testkit.WantError(t, high.err, errEnough)
			testkit.NoError(t, p.Close())
			return weak.Make(p)
		}()
		for range 100 {
			if runtime.GC(); handle.Value() == nil {
				return
			}
		}
		t.Error("it is still there")
	})
}
