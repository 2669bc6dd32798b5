package conq

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

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/recipe"
)

// gated is a store whose next transactions can be held up as they begin.
type gated struct {
	hooked
	held []chan struct{} // each holds up one attempt, until it is closed
}

func newGated(limits kv.Limits) *gated {
	g := &gated{hooked: hooked{DB: memory.New(memory.Options{Limits: limits})}}
	g.attempt = func(tx kv.Tx) kv.Tx {
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
	all []Event
}

func (e *events) observe(event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

// take returns the events of a kind so far, and forgets all.
func (e *events) take(kind EventKind) (of []Event) {
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
func (e *events) sum(kind EventKind) (sum Event) {
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
type picky struct{ Codec[string] }

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
	for _, o := range []Options{{}, {NoCombining: true}, {Staging: StagingNever}} {
		for _, shared := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, 1, faulty.Options{})
				defer c.close()
				var inner kv.DB = c.inner
				if shared {
					inner = c.process()
				}
				db, attempts := counted(inner)
				began := time.Now()
				for _, end := range allEnds {
					v := end.open(t, db, o)
					attempts.Store(0)
					noError(t, v.add(t.Context(), "1"))
					noError(t, v.add(t.Context(), "2"))
					equal(t, "transactions of 2 enqueues", attempts.Load(), 2)
					got, err := v.take(t.Context(), 1)
					noError(t, err)
					equalSlices(t, "got", got, []string{"1"})
					equal(t, "transactions with a dequeue", attempts.Load(), 3)
					_, err = v.one(t.Context())
					noError(t, err)
					equal(t, "transactions with one that need not wait", attempts.Load(), 4)
					_, err = v.take(t.Context(), 1)
					wantError(t, err, ErrEmpty)
					equal(t, "transactions with one that finds nothing", attempts.Load(), 5)
				}
				equal(t, "time that has passed", time.Since(began), 0)
				noError(t, c.inner.Close())
			})
		}
	}
}

// Calls that come while a transaction is under way share the next one, in order.
// What is wrong with one of them is its own affair.
func TestCombinedEnqueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(small)
		var seen events
		q, err := OpenQueue(g, "q", Codec[string](picky{String()}), Options{Observe: seen.observe})
		noError(t, err)
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
		wantError(t, <-cancelled, errEnough)
		wantError(t, <-oversized, kv.ErrTooLarge)
		if err := <-refused; err == nil || !strings.Contains(err.Error(), "value 2 of 2") {
			t.Errorf("a value that does not encode: %v", err)
		}
		equal(t, "returned", len(first)+len(second)+len(third), 0)
		release()
		for _, done := range []chan error{first, second, third} {
			noError(t, <-done)
		}
		equalSlices(t, "added", seen.take(Added), []Event{
			{Queue: "q", Kind: Added, Calls: 1, Items: 1, Attempts: 1},
			{Queue: "q", Kind: Added, Calls: 2, Items: 3, Attempts: 1},
		})
		equalSlices(t, "items", list(t, q.All(t.Context())), []string{"first", "second", "third", "fourth"})
		noError(t, g.Close())
	})
}

// Whoever shares a batch with a call in which Options.Observe panics does not know what came of his.
func TestCombinedPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(kv.Limits{})
		q, err := OpenQueue(g, "q", String(), Options{Observe: func(e Event) {
			if e.Calls > 1 {
				panic(errEnough)
			}
		}})
		noError(t, err)
		release := g.hold()
		calls := make([]chan error, 3)
		for i := range calls {
			calls[i] = async(func() (err error) {
				defer func() {
					if r := recover(); r != nil {
						equal(t, "panic", r, any(errEnough))
						err = errEnough
					}
				}()
				return q.Enqueue(t.Context(), "value")
			})
		}
		release()
		noError(t, <-calls[0])
		wantError(t, <-calls[1], errEnough)
		wantError(t, <-calls[2], kv.ErrCommitUnknown)
		noError(t, g.Close())
	})
}

// So it is if the codec panics as it decodes what is handed over, whose value that is, and then
// nothing was added.
func TestCombinedPanicOfCodec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(kv.Limits{})
		q, err := OpenQueue[string](g, "q", fragile{String()})
		noError(t, err)
		v := endVerbs{wait: q.DequeueWaitN}
		var waiters []*taken
		for range 3 {
			waiters = append(waiters, startWaiter(t.Context(), v, 1))
		}
		release := g.hold()
		calls := make([]chan error, 3)
		for i, value := range []string{"first", "good", "panic"} {
			calls[i] = async(func() (err error) {
				defer func() {
					if recover() != nil {
						err = errEnough
					}
				}()
				return q.Enqueue(t.Context(), value)
			})
		}
		release()
		noError(t, <-calls[0])
		wantError(t, <-calls[1], errEnough)
		wantError(t, <-calls[2], kv.ErrCommitUnknown)
		equalSlices(t, "got", waiters[0].values, []string{"first"})
		equal(t, "others got something", waiters[1].done.Load() || waiters[2].done.Load(), false)
		n, err := q.Len(t.Context())
		noError(t, err)
		equal(t, "left", n, 0)
		noError(t, q.Close())
		noError(t, g.Close())
	})
}

// Calls that are too large together have a transaction each, and only one that is
// too large by itself fails.
func TestCombinedTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(kv.Limits{Operations: 100})
		q, err := OpenQueue(g, "q", String())
		noError(t, err)
		values := func(n int) []string { return make([]string, n) }
		release := g.hold()
		calls := make([]chan error, 4)
		for i, n := range []int{1, 60, 200, 70} {
			calls[i] = async(func() error { return q.EnqueueAll(t.Context(), values(n)) })
		}
		release()
		noError(t, <-calls[0])
		noError(t, <-calls[1])
		wantError(t, <-calls[2], kv.ErrTooLarge)
		noError(t, <-calls[3])
		n, err := q.Len(t.Context())
		noError(t, err)
		equal(t, "items", n, 131)
		noError(t, g.Close())
	})
}

// A batch is bounded by the keys of its items too: empty ones also take room.
func TestCombinedEmptyItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(kv.Limits{})
		var seen events
		q, err := OpenQueue(g, "q", Bytes(), Options{Observe: seen.observe})
		noError(t, err)
		release := g.hold()
		const calls, each = 20, 5000
		var group sync.WaitGroup
		for range calls {
			group.Go(func() { report(t, q.EnqueueAll(t.Context(), make([][]byte, each))) })
		}
		synctest.Wait()
		release()
		group.Wait()
		for _, e := range seen.take(Added) {
			if e.Items*20 > 1<<20 {
				t.Errorf("a batch of %d items", e.Items)
			}
		}
		noError(t, g.Close())
	})
}

// A priority that is full, or ends in a key that is not an item's, fails those who
// push to it, and nobody else.
func TestCombinedBadPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(kv.Limits{})
		p, err := OpenPriorityQueue(g, "p", String())
		noError(t, err)
		full := packed(t, laid("p").Prefix(), 1, int64(math.MaxInt64), make([]byte, 20))
		foreign := packed(t, laid("p").Prefix(), 2, "x")
		write(t, g, kv.KeyValue{Key: full}, kv.KeyValue{Key: foreign})
		release := g.hold()
		calls := make([]chan error, 5)
		for i := range calls {
			calls[i] = async(func() error { return p.Push(t.Context(), fmt.Sprint(i), int64(i%3)) })
		}
		release()
		wants := []error{nil, recipe.ErrFull, ErrDecode, nil, recipe.ErrFull}
		for i, done := range calls {
			err := <-done
			if wants[i] == nil {
				noError(t, err)
			} else {
				wantError(t, err, wants[i])
			}
		}
		noError(t, g.Close())
	})
}

// Calls that dequeue together get the items in order of their arrival: each what
// it asked for, as far as it goes, and ErrEmpty only when there are no more.
func TestCombinedDequeues(t *testing.T) {
	for _, end := range allEnds {
		synctest.Test(t, func(t *testing.T) {
			g := newGated(kv.Limits{})
			var seen events
			v := end.open(t, g, Options{Observe: seen.observe})
			for i := range 7 {
				noError(t, v.add(t.Context(), fmt.Sprint(i)))
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
			wantError(t, calls[2].err, errEnough)
			release()
			for i, want := range []string{"0", "1 2 3", "", "", "4 5", "6", ""} {
				equal(t, fmt.Sprintf("%s: call %d got", end.name, i), strings.Join(calls[i].values, " "), want)
			}
			wantError(t, calls[6].err, ErrEmpty)
			if calls[3].err == nil || errors.Is(calls[3].err, ErrEmpty) {
				t.Errorf("taking 0 items: %v", calls[3].err)
			}
			of := seen.take(Taken)
			equal(t, "transactions", len(of), 2)
			equal(t, "calls in the second", of[1].Calls, 4)
			equal(t, "items in the second", of[1].Items, 6)
			noError(t, g.Close())
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
	for _, staging := range []Staging{StagingNever, StagingAlways} {
		synctest.Test(t, func(t *testing.T) {
			g := newGated(kv.Limits{})
			q, err := OpenQueue(g, "q", Codec[string](picky{String()}), Options{Staging: staging})
			noError(t, err)
			noError(t, q.EnqueueAll(t.Context(), []string{"1", "2", "3", "unreadable", "4"}))
			release := g.hold()
			v := endVerbs{take: q.DequeueN}
			first := startTaking(t.Context(), v, 1)
			second := startTaking(t.Context(), v, 4)
			third := startTaking(t.Context(), v, 1)
			release()
			pass(time.Minute) // for staging
			equalSlices(t, "first", first.values, []string{"1"})
			equalSlices(t, "second", second.values, []string{"2", "3"})
			wantError(t, third.err, ErrDecode)
			_, err = q.Dequeue(t.Context())
			wantError(t, err, ErrDecode)
			_, err = q.DequeueWait(t.Context())
			wantError(t, err, ErrDecode)
			n, err := q.Len(t.Context())
			noError(t, err)
			equal(t, "items left", n, 2)
			noError(t, g.Close())
		})
	}
}

// A context that ends while the shared transaction is under way ends nobody
// else's call. When all have ended the transaction does, for each caller with his
// own cause.
func TestCombinedCancelled(t *testing.T) {
	for _, all := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newGated(kv.Limits{})
			q, err := OpenQueue(g, "q", String())
			noError(t, err)
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
			noError(t, <-first)
			for i, cancel := range cancels {
				if all || i == 0 {
					cancel(causes[i])
				}
			}
			synctest.Wait()
			release()
			for i, done := range calls {
				if all {
					wantError(t, <-done, causes[i])
				} else {
					noError(t, <-done)
				}
			}
			n, err := q.Len(t.Context())
			noError(t, err)
			equal(t, "items", n, map[bool]int{false: 4, true: 1}[all])
			noError(t, g.Close())
		})
	}
}

// pass lets time pass, in a bubble.
func pass(d time.Duration) { <-time.After(d) }
