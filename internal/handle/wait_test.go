package handle_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
)

// taken is what a waiter got.
type taken struct {
	values []string
	err    error
	done   atomic.Bool
}

// startWaiter has a goroutine wait for up to n items.
func startWaiter(ctx context.Context, v endVerbs, n int) *taken {
	got := new(taken)
	go func() {
		got.values, got.err = v.wait(ctx, n)
		got.done.Store(true)
	}()
	synctest.Wait()
	return got
}

// Waiters of a handle get items in the order in which they came.
func TestWaitOrderOfArrival(t *testing.T) {
	onEach(t, func(t *testing.T, process func() kv.DB, open func(testkit.TB, kv.DB, conq.Options) endVerbs) {
		v := open(t, process(), conq.Options{})
		producer := open(t, process(), conq.Options{})
		var waiters []*taken
		for range 40 {
			waiters = append(waiters, startWaiter(t.Context(), v, 1))
		}
		for i := range waiters {
			testkit.Equal(t, "returned before there is anything", waiters[i].done.Load(), false)
			testkit.NoError(t, producer.add(t.Context(), fmt.Sprint(i)))
			if i%3 == 0 { // else several at a time
				synctest.Wait()
			}
		}
		synctest.Wait()
		for i, got := range waiters {
			testkit.NoError(t, got.err)
			testkit.EqualSlices(t, "got", got.values, []string{fmt.Sprint(i)})
		}
	})
}

// Waiters get what they asked for at most, and what there is at least.
func TestWaitForSeveral(t *testing.T) {
	onEach(t, func(t *testing.T, process func() kv.DB, open func(testkit.TB, kv.DB, conq.Options) endVerbs) {
		v := open(t, process(), conq.Options{})
		a, b, c := startWaiter(t.Context(), v, 2), startWaiter(t.Context(), v, 2), startWaiter(t.Context(), v, 2)
		testkit.NoError(t, process().Transact(t.Context(), func(tx kv.Tx) error {
			return errors.Join(v.in(tx, "1"), v.in(tx, "2"), v.in(tx, "3"))
		}))
		synctest.Wait()
		testkit.EqualSlices(t, "first", a.values, []string{"1", "2"})
		testkit.EqualSlices(t, "second", b.values, []string{"3"})
		testkit.Equal(t, "third has returned", c.done.Load(), false)
		testkit.NoError(t, v.add(t.Context(), "4"))
		synctest.Wait()
		testkit.EqualSlices(t, "third", c.values, []string{"4"})
		_, err := v.wait(t.Context(), 0)
		if err == nil || errors.Is(err, conq.ErrEmpty) {
			t.Errorf("waiting for 0 items: %v", err)
		}
	})
}

var errEnough = errors.New("waited for long enough")

// The end of a context ends that caller's wait, with the cause, and nobody else's;
// and takes nothing.
func TestWaitCancelled(t *testing.T) {
	onEach(t, func(t *testing.T, process func() kv.DB, open func(testkit.TB, kv.DB, conq.Options) endVerbs) {
		v := open(t, process(), conq.Options{})
		var waiters []*taken
		var cancels []context.CancelCauseFunc
		for range 6 {
			ctx, cancel := context.WithCancelCause(t.Context())
			waiters, cancels = append(waiters, startWaiter(ctx, v, 1)), append(cancels, cancel)
		}
		for _, i := range []int{0, 1, 3} { // who leads, who leads next, one in the middle
			cancels[i](errEnough)
			synctest.Wait()
			testkit.WantError(t, waiters[i].err, errEnough)
		}
		for _, i := range []int{2, 4, 5} {
			testkit.Equal(t, "returned", waiters[i].done.Load(), false)
			testkit.NoError(t, v.add(t.Context(), fmt.Sprint(i)))
			synctest.Wait()
			testkit.EqualSlices(t, "got", waiters[i].values, []string{fmt.Sprint(i)})
		}
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errEnough)
		testkit.NoError(t, v.add(t.Context(), "left"))
		_, err := v.wait(ended, 1)
		testkit.WantError(t, err, errEnough)
		wantLen(t, "items left", v.len, 1)
		for _, cancel := range cancels {
			cancel(nil)
		}
	})
}

// What is enqueued in a transaction of the caller wakes nobody before that has
// committed, or if it does not.
func TestWaitForTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, process func() kv.DB, open func(testkit.TB, kv.DB, conq.Options) endVerbs) {
		waiting, attempts := testkit.Counted(process())
		got := startWaiter(t.Context(), open(t, waiting, conq.Options{}), 1)
		db := process()
		v := open(t, db, conq.Options{})
		before := attempts.Load()
		testkit.WantError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			testkit.NoError(t, v.in(tx, "never"))
			return errEnough
		}), errEnough)
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			testkit.NoError(t, v.in(tx, "now"))
			synctest.Wait()
			testkit.Equal(t, "attempts of the waiter before the commit", attempts.Load(), before)
			return nil
		}))
		synctest.Wait()
		testkit.EqualSlices(t, "got", got.values, []string{"now"})
	})
}

// Other programs announce nothing: what they enqueue is found by looking now and
// then, which only those do who share the store with others.
func TestWaitForRecipe(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := testkit.NewCluster(t, 1, faulty.Options{})
		defer c.Close()
		v := openFront(t, c.Process(), conq.Options{})
		got := startWaiter(t.Context(), v, 1)
		testkit.NoError(t, c.Inner.Transact(t.Context(), func(tx kv.Tx) error {
			return recipe.NewQueue(subspace.Named("q"), nil).Enqueue(tx, []byte("raw"))
		}))
		synctest.Wait()
		testkit.Equal(t, "noticed at once", got.done.Load(), false)
		pass(time.Second)
		synctest.Wait()
		testkit.EqualSlices(t, "got", got.values, []string{"raw"})
	})
}

// 10,000 waiters need no goroutines but their own, and nothing while nothing is
// enqueued; then one of them wakes up.
func TestWaitThousands(t *testing.T) {
	for store, newStore := range stores {
		t.Run(store, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) { waitThousands(t, newStore) })
		})
	}
}

func waitThousands(t *testing.T, newStore func(testing.TB) (func() kv.DB, func())) {
	process, end := newStore(t)
	defer end()
	const waiters, minutes = 10_000, 5
	db, attempts := testkit.Counted(process())
	v, producer := openFront(t, db, conq.Options{}), openFront(t, process(), conq.Options{})
	shared := kvext.SignalsOf(db) == nil
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, waiters)
	goroutines := runtime.NumGoroutine()
	for range waiters {
		go func() {
			_, err := v.one(ctx)
			results <- err
		}()
	}
	synctest.Wait()
	if n := runtime.NumGoroutine() - goroutines; n > waiters+10 { // some may be of other tests
		t.Errorf("%d goroutines for %d waiters", n, waiters)
	}
	attempts.Store(0)
	pass(minutes * time.Minute)
	synctest.Wait()
	limit := int64(0)
	if shared {
		limit = 2 * minutes * 60 // the look, and the watch
	}
	if n := attempts.Load(); n > limit {
		t.Errorf("%d transactions in %d idle minutes, want at most %d", n, minutes, limit)
	}
	attempts.Store(0)
	testkit.NoError(t, producer.add(t.Context(), "one"))
	synctest.Wait()
	testkit.Equal(t, "waiters woken", len(results), 1)
	testkit.NoError(t, <-results)
	if n := attempts.Load(); n > 4 { // take, and the next one's look and watch
		t.Errorf("%d transactions for one item", n)
	}
	cancel()
	for range waiters - 1 {
		testkit.WantError(t, <-results, context.Canceled)
	}
}

// The leader's watch ends when it looks again: waiting for hours leaves no more
// watches behind than a moment does.
func TestWaitLeavesNoWatches(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := testkit.NewCluster(t, 1, faulty.Options{})
		defer c.Close()
		var open []<-chan error
		db := &testkit.Hooked{DB: c.Process(), Attempt: func(tx kv.Tx) kv.Tx { return watching{tx, &open} }}
		startWaiter(t.Context(), openFront(t, db, conq.Options{}), 1)
		pass(time.Minute)
		synctest.Wait()
		n := 0
		for _, news := range open {
			select {
			case <-news:
			default:
				n++
			}
		}
		if len(open) < 60 || n > 1 {
			t.Errorf("%d of %d watches are still there", n, len(open))
		}
		testkit.NoError(t, openFront(t, c.Process(), conq.Options{}).add(t.Context(), "end"))
	})
}

// watching collects the channels of watches.
type watching struct {
	kv.Tx
	open *[]<-chan error
}

func (w watching) Watch(key []byte) <-chan error {
	news := w.Tx.Watch(key)
	*w.open = append(*w.open, news)
	return news
}

// However enqueues and waits fall together, nobody waits while there are items. In
// a bubble no time passes but that of injected delays: to be saved by the poll
// would take a second.
func TestWaitNoLostWakeUp(t *testing.T) {
	for seed := range uint64(testkit.Cases(60)) {
		for _, shared := range []bool{false, true} {
			testkit.Bubble(t, func(t *testing.T) { noLostWakeUp(t, seed, shared) })
		}
	}
}

func noLostWakeUp(t *testing.T, seed uint64, shared bool) {
	const handles, producers, waiters, each = 3, 4, 6, 10
	c := testkit.NewCluster(t, seed*100, faulty.Options{Delay: 0.3, MaxDelay: 200 * time.Microsecond})
	defer c.Close()
	local := memory.New(memory.Options{})
	slow := &testkit.Hooked{DB: local, Attempt: func(tx kv.Tx) kv.Tx {
		for range seed % 4 { // let others in between
			pass(time.Microsecond)
		}
		return tx
	}}
	defer func() { testkit.NoError(t, local.Close()) }()
	process := func() kv.DB {
		if shared {
			return c.Process()
		}
		return slow
	}
	var consuming, group sync.WaitGroup
	began := time.Now()
	var mu sync.Mutex
	var all []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range handles {
		v := openFront(t, process(), conq.Options{})
		for range waiters {
			consuming.Go(func() {
				for {
					values, err := v.wait(ctx, 2)
					if err != nil {
						testkit.WantError(t, err, context.Canceled)
						return
					}
					mu.Lock()
					all = append(all, values...)
					enough := len(all) == producers*each
					mu.Unlock()
					if enough {
						cancel()
					}
				}
			})
		}
	}
	for p := range producers {
		v := openFront(t, process(), conq.Options{})
		group.Go(func() {
			for i := range each {
				testkit.Check(t, v.add(t.Context(), fmt.Sprint(p, i)))
				if i%3 == 2 {
					pass(time.Duration(p) * 100 * time.Microsecond)
				}
			}
		})
	}
	group.Wait()
	consuming.Wait()
	if took := time.Since(began); took >= time.Second {
		t.Errorf("seed %d, shared %v: it took %v: somebody has missed an item", seed, shared, took)
	}
	slices.Sort(all)
	testkit.Equal(t, "items", len(slices.Compact(all)), producers*each)
}

// turn is a wait of a consumer, in the order of all that happens.
type turn struct{ consumer, began, ended int }

// overtaken has consumers wait for a trickle of items, and returns how often a
// consumer was served, at most, by calls that began and ended while another's was
// waiting.
func overtaken(t *testing.T, consumers, items int, handle func(consumer int) endVerbs, producer endVerbs) (worst int) {
	var mu sync.Mutex
	var turns []turn
	clock := 0
	tick := func() int {
		mu.Lock()
		defer mu.Unlock()
		clock++
		return clock
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for c := range consumers {
		v := handle(c)
		group.Go(func() {
			for {
				began := tick()
				_, err := v.one(ctx)
				if ended := tick(); err == nil || ctx.Err() != nil {
					mu.Lock()
					turns = append(turns, turn{c, began, ended})
					mu.Unlock()
				}
				if err != nil {
					return
				}
				pass(time.Duration(c%5) * time.Millisecond) // its work
			}
		})
	}
	synctest.Wait()
	for range items {
		testkit.NoError(t, producer.add(t.Context(), "x"))
		pass(3 * time.Millisecond)
	}
	pass(time.Minute)
	cancel()
	group.Wait()
	testkit.Equal(t, "turns", len(turns), items+consumers)
	for _, w := range turns {
		served := make(map[int]int)
		for _, other := range turns {
			if other.began > w.began && other.ended < w.ended {
				served[other.consumer]++
				worst = max(worst, served[other.consumer])
			}
		}
	}
	return worst
}

// What a leader takes for those behind it is not lost when the leader gives up
// while the outcome is unknown.
func TestWaitLeaderGivesUp(t *testing.T) {
	for landing := range 8 {
		testkit.Bubble(t, func(t *testing.T) { leaderGivesUp(t, landing) })
	}
}

// leaderGivesUp has the commit that serves two waiters applied with its outcome
// unknown, and cancels the leader before it can find out.
func leaderGivesUp(t *testing.T, landing int) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	armed, commits := false, 0
	c := testkit.NewCluster(t, 0, faulty.Options{Choose: func() faulty.Fate {
		if commits++; !armed || commits > 3 {
			return faulty.Fate{}
		}
		cancel(errEnough)
		if landing%2 == 0 {
			return faulty.Fate{Outcome: faulty.Applied}
		}
		return faulty.Fate{Outcome: faulty.Late, After: 1 + landing/2}
	}})
	defer c.Close()
	v := openFront(t, c.Process(), conq.Options{})
	first, second := startWaiter(ctx, v, 1), startWaiter(t.Context(), v, 1)
	calm := openFront(t, c.Inner, conq.Options{})
	armed, commits = true, 0
	testkit.NoError(t, c.Inner.Transact(t.Context(), func(tx kv.Tx) error {
		return errors.Join(calm.in(tx, "1"), calm.in(tx, "2"))
	}))
	pass(2 * time.Second)
	synctest.Wait()
	if first.err == nil {
		testkit.EqualSlices(t, "the leader got", first.values, []string{"1"})
		testkit.NoError(t, second.err)
		testkit.EqualSlices(t, "the other got", second.values, []string{"2"})
		return
	}
	testkit.WantError(t, first.err, errEnough)
	left, err := calm.take(t.Context(), 9)
	testkit.NoError(t, drop(left, err))
	testkit.EqualSlices(t, "got or left", append(second.values, left...), []string{"1", "2"})
}
