package handle_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/recipe"
)

// gated is a store whose next transactions can be held up as they begin.
type gated struct {
	testkit.Hooked
	held []chan struct{} // each holds up one attempt, until it is closed
}

func newGated(limits kv.Limits) *gated {
	g := &gated{Hooked: testkit.Hooked{DB: memory.New(memory.Options{Limits: limits})}}
	g.Attempt = func(tx kv.Tx) kv.Tx {
		if len(g.held) > 0 {
			held := g.held[0]
			g.held = g.held[1:]
			<-held
		}
		return tx
	}
	return g
}

// hold holds up the next transaction that is not held up yet, until the function
// that it returns is called.
func (g *gated) hold() (release func()) {
	held := make(chan struct{})
	g.held = append(g.held, held)
	return func() {
		close(held)
		synctest.Wait()
	}
}

// events collects what a handle has done.
type events struct {
	mu  sync.Mutex
	all []conq.Event
}

func (e *events) observe(event conq.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// take returns the events of a kind so far, and forgets all.
func (e *events) take(kind conq.EventKind) (of []conq.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.all {
		if event.Kind == kind {
			of = append(of, event)
		}
	}
	e.all = nil
	return of
}

// sum returns the sums of the fields of events of a kind.
func (e *events) sum(kind conq.EventKind) (sum conq.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.all {
		if event.Kind == kind {
			sum.Calls += event.Calls
			sum.Items += event.Items
			sum.Attempts += event.Attempts
		}
	}
	return sum
}

// async starts a call, waits until it is under way, and returns where its error
// will be.
func async(f func() error) chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	synctest.Wait()
	return done
}

// picky is a codec that refuses a value.
type picky struct{ conq.Codec[string] }

func (p picky) Encode(v string) ([]byte, error) {
	if v == "refused" {
		return nil, errors.New("refused")
	}
	return p.Codec.Encode(v)
}

func (p picky) Decode(b []byte) (string, error) {
	if string(b) == "unreadable" {
		return "", errors.New("unreadable")
	}
	return p.Codec.Decode(b)
}

// A lone caller's transaction starts at once, and there is just one, whatever the
// options.
func TestLoneCaller(t *testing.T) {
	for _, o := range []conq.Options{{}, {NoCombining: true}, {Staging: conq.StagingNever}} {
		for _, shared := range []bool{false, true} {
			testkit.Bubble(t, func(t *testing.T) {
				c := testkit.NewCluster(t, 1, faulty.Options{})
				defer c.Close()
				var inner kv.DB = c.Inner
				if shared {
					inner = c.Process()
				}
				db, attempts := testkit.Counted(inner)
				began := time.Now()
				for _, end := range allEnds {
					v := end.open(t, db, o)
					attempts.Store(0)
					testkit.NoError(t, v.add(t.Context(), "1"))
					testkit.NoError(t, v.add(t.Context(), "2"))
					testkit.Equal(t, "transactions of 2 enqueues", attempts.Load(), 2)
					wantItems(t, "got", v.take, 1, "1")
					testkit.Equal(t, "transactions with a dequeue", attempts.Load(), 3)
					_, err := v.one(t.Context())
					testkit.NoError(t, err)
					testkit.Equal(t, "transactions with one that need not wait", attempts.Load(), 4)
					_, err = v.take(t.Context(), 1)
					testkit.WantError(t, err, conq.ErrEmpty)
					testkit.Equal(t, "transactions with one that finds nothing", attempts.Load(), 5)
				}
				testkit.Equal(t, "time that has passed", time.Since(began), 0)
				testkit.NoError(t, c.Inner.Close())
			})
		}
	}
}

// Calls that come while a transaction is under way share the next one, in order.
// What is wrong with one of them is its own affair.
func TestCombinedEnqueues(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGated(small)
		var seen events
		q := newQueue(t, g, conq.Codec[string](picky{conq.String()}), conq.Options{Observe: seen.observe})
		ctx, cancel := context.WithCancelCause(t.Context())
		enqueue := func(ctx context.Context, values ...string) chan error {
			return async(func() error { return q.EnqueueAll(ctx, values) })
		}
		release := g.hold()
		first := enqueue(t.Context(), "first")
		second := enqueue(t.Context(), "second")
		cancelled := enqueue(ctx, "cancelled")
		refused := enqueue(t.Context(), "a", "refused")
		oversized := enqueue(t.Context(), strings.Repeat("x", small.Transaction/2+1))
		third := enqueue(t.Context(), "third", "fourth")
		cancel(errEnough)
		testkit.WantError(t, <-cancelled, errEnough)
		testkit.WantError(t, <-oversized, kv.ErrTooLarge)
		if err := <-refused; err == nil || !strings.Contains(err.Error(), "value 2 of 2") {
			t.Errorf("a value that does not encode: %v", err)
		}
		testkit.Equal(t, "returned", len(first)+len(second)+len(third), 0)
		release()
		for _, done := range []chan error{first, second, third} {
			testkit.NoError(t, <-done)
		}
		testkit.EqualSlices(t, "added", seen.take(conq.Added), []conq.Event{
			{Queue: "q", Kind: conq.Added, Calls: 1, Items: 1, Attempts: 1},
			{Queue: "q", Kind: conq.Added, Calls: 2, Items: 3, Attempts: 1},
		})
		testkit.EqualSlices(t, "items", testkit.List(t, q.All(t.Context())), []string{"first", "second", "third", "fourth"})
		testkit.NoError(t, g.Close())
	})
}

// Whoever shares a batch with a call in which Options.Observe panics does not know what came of his.
func TestCombinedPanic(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGated(kv.Limits{})
		q, err := conq.OpenQueue(t.Context(), g, "q", conq.String(), conq.Options{Observe: func(e conq.Event) {
			if e.Calls > 1 {
				panic(errEnough)
			}
		}})
		testkit.NoError(t, err)
		release := g.hold()
		calls := make([]chan error, 3)
		for i := range calls {
			calls[i] = async(panics(func() error { return q.Enqueue(t.Context(), "value") }))
		}
		release()
		testkit.NoError(t, <-calls[0])
		testkit.WantError(t, <-calls[1], errEnough)
		testkit.WantError(t, <-calls[2], kv.ErrCommitUnknown)
		testkit.NoError(t, g.Close())
	})
}

// So it is if the codec panics as it decodes what is handed over, whose value that is, and then
// nothing was added.
func TestCombinedPanicOfCodec(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGated(kv.Limits{})
		q := newQueue(t, g, fragile{conq.String()})
		v := endVerbs{wait: q.DequeueWaitN}
		var waiters []*taken
		for range 3 {
			waiters = append(waiters, startWaiter(t.Context(), v, 1))
		}
		release := g.hold()
		calls := make([]chan error, 3)
		for i, value := range []string{"first", "good", "panic"} {
			calls[i] = async(panics(func() error { return q.Enqueue(t.Context(), value) }))
		}
		release()
		testkit.NoError(t, <-calls[0])
		testkit.WantError(t, <-calls[1], errEnough)
		testkit.WantError(t, <-calls[2], kv.ErrCommitUnknown)
		testkit.EqualSlices(t, "got", waiters[0].values, []string{"first"})
		testkit.Equal(t, "others got something", waiters[1].done.Load() || waiters[2].done.Load(), false)
		wantLen(t, "left", q.Len, 0)
		testkit.NoError(t, q.Close())
		testkit.NoError(t, g.Close())
	})
}

// Calls that are too large together have a transaction each, and only one that is
// too large by itself fails.
func TestCombinedTooLarge(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGated(kv.Limits{Operations: 100})
		q := newQueue(t, g, conq.String())
		values := func(n int) []string { return make([]string, n) }
		release := g.hold()
		calls := make([]chan error, 4)
		for i, n := range []int{1, 60, 200, 70} {
			calls[i] = async(func() error { return q.EnqueueAll(t.Context(), values(n)) })
		}
		release()
		testkit.NoError(t, <-calls[0])
		testkit.NoError(t, <-calls[1])
		testkit.WantError(t, <-calls[2], kv.ErrTooLarge)
		testkit.NoError(t, <-calls[3])
		wantLen(t, "items", q.Len, 131)
		testkit.NoError(t, g.Close())
	})
}

// A batch is bounded by the keys of its items too: empty ones also take room.
func TestCombinedEmptyItems(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGated(kv.Limits{})
		var seen events
		q := newQueue(t, g, conq.Bytes(), conq.Options{Observe: seen.observe})
		release := g.hold()
		const calls, each = 20, 5000
		var group sync.WaitGroup
		for range calls {
			group.Go(func() { testkit.Check(t, q.EnqueueAll(t.Context(), make([][]byte, each))) })
		}
		synctest.Wait()
		release()
		group.Wait()
		for _, e := range seen.take(conq.Added) {
			if e.Items*20 > 1<<20 {
				t.Errorf("a batch of %d items", e.Items)
			}
		}
		testkit.NoError(t, g.Close())
	})
}

// A priority that is full, or ends in a key that is not an item's, fails those who
// push to it, and nobody else.
func TestCombinedBadPriority(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGated(kv.Limits{})
		p := newPriorityQueue(t, g, conq.String())
		full := testkit.Packed(t, testkit.Laid("p").Prefix(), 1, int64(math.MaxInt64), make([]byte, 20))
		foreign := testkit.Packed(t, testkit.Laid("p").Prefix(), 2, "x")
		testkit.Write(t, g, kv.KeyValue{Key: full}, kv.KeyValue{Key: foreign})
		release := g.hold()
		calls := make([]chan error, 5)
		for i := range calls {
			calls[i] = async(func() error { return p.Push(t.Context(), fmt.Sprint(i), int64(i%3)) })
		}
		release()
		wants := []error{nil, recipe.ErrNoIndex, conq.ErrDecode, nil, recipe.ErrNoIndex}
		for i, done := range calls {
			err := <-done
			if wants[i] == nil {
				testkit.NoError(t, err)
			} else {
				testkit.WantError(t, err, wants[i])
			}
		}
		testkit.NoError(t, g.Close())
	})
}

// Calls that dequeue together get the items in order of their arrival: each what
// it asked for, as far as it goes, and ErrEmpty only when there are no more.
func TestCombinedDequeues(t *testing.T) {
	for _, end := range allEnds {
		testkit.Bubble(t, func(t *testing.T) {
			g := newGated(kv.Limits{})
			var seen events
			v := end.open(t, g, conq.Options{Observe: seen.observe})
			for i := range 7 {
				testkit.NoError(t, v.add(t.Context(), fmt.Sprint(i)))
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			release := g.hold()
			var calls []*combined
			take := func(ctx context.Context, n int) { calls = append(calls, startTaking(ctx, v, n)) }
			take(t.Context(), 1)
			take(t.Context(), 3)
			take(ctx, 1)
			take(t.Context(), 0)
			take(t.Context(), 2)
			take(t.Context(), 3)
			take(t.Context(), 1)
			cancel(errEnough)
			synctest.Wait()
			testkit.WantError(t, calls[2].err, errEnough)
			release()
			for i, want := range []string{"0", "1 2 3", "", "", "4 5", "6", ""} {
				testkit.Equal(t, fmt.Sprintf("%s: call %d got", end.name, i), strings.Join(calls[i].values, " "), want)
			}
			testkit.WantError(t, calls[6].err, conq.ErrEmpty)
			if calls[3].err == nil || errors.Is(calls[3].err, conq.ErrEmpty) {
				t.Errorf("taking 0 items: %v", calls[3].err)
			}
			of := seen.take(conq.Taken)
			testkit.Equal(t, "transactions", len(of), 2)
			testkit.Equal(t, "calls in the second", of[1].Calls, 4)
			testkit.Equal(t, "items in the second", of[1].Items, 6)
			testkit.NoError(t, g.Close())
		})
	}
}

// combined is a call under way.
type combined struct {
	values []string
	err    error
}

func startTaking(ctx context.Context, v endVerbs, n int) *combined {
	c := new(combined)
	go func() { c.values, c.err = v.take(ctx, n) }()
	synctest.Wait()
	return c
}

// An item that does not decode is the error of those who would get it, and of
// those behind them, and stays the first one.
func TestCombinedUndecodable(t *testing.T) {
	for _, staging := range []conq.Staging{conq.StagingNever, conq.StagingAlways} {
		testkit.Bubble(t, func(t *testing.T) {
			g := newGated(kv.Limits{Shared: staging == conq.StagingAlways})
			q := newQueue(t, g, conq.Codec[string](picky{conq.String()}), conq.Options{Staging: staging})
			testkit.NoError(t, q.EnqueueAll(t.Context(), []string{"1", "2", "3", "unreadable", "4"}))
			release := g.hold()
			v := endVerbs{take: q.DequeueN}
			first := startTaking(t.Context(), v, 1)
			second := startTaking(t.Context(), v, 4)
			third := startTaking(t.Context(), v, 1)
			release()
			pass(time.Minute) // for staging
			testkit.EqualSlices(t, "first", first.values, []string{"1"})
			testkit.EqualSlices(t, "second", second.values, []string{"2", "3"})
			testkit.WantError(t, third.err, conq.ErrDecode)
			_, err := q.Dequeue(t.Context())
			testkit.WantError(t, err, conq.ErrDecode)
			_, err = q.DequeueWait(t.Context())
			testkit.WantError(t, err, conq.ErrDecode)
			wantLen(t, "items left", q.Len, 2)
			testkit.NoError(t, g.Close())
		})
	}
}

// A context that ends while the shared transaction is under way ends nobody
// else's call. When all have ended the transaction does, for each caller with his
// own cause.
func TestCombinedCancelled(t *testing.T) {
	for _, all := range []bool{false, true} {
		testkit.Bubble(t, func(t *testing.T) {
			g := newGated(kv.Limits{})
			q := newQueue(t, g, conq.String())
			releaseFirst, release := g.hold(), g.hold()
			first := async(func() error { return q.Enqueue(t.Context(), "first") })
			calls := make([]chan error, 3)
			causes := make([]error, len(calls))
			var cancels []context.CancelCauseFunc
			for i := range calls {
				ctx, cancel := context.WithCancelCause(t.Context())
				calls[i] = async(func() error { return q.Enqueue(ctx, fmt.Sprint(i)) })
				causes[i] = fmt.Errorf("cause %d", i)
				defer cancel(nil)
				cancels = append(cancels, cancel)
			}
			releaseFirst()
			testkit.NoError(t, <-first)
			for i, cancel := range cancels {
				if all || i == 0 {
					cancel(causes[i])
				}
			}
			synctest.Wait()
			release()
			for i, done := range calls {
				if all {
					testkit.WantError(t, <-done, causes[i])
				} else {
					testkit.NoError(t, <-done)
				}
			}
			wantLen(t, "items", q.Len, map[bool]int{false: 4, true: 1}[all])
			testkit.NoError(t, g.Close())
		})
	}
}

// pass lets time pass, in a bubble.
func pass(d time.Duration) { <-time.After(d) }
