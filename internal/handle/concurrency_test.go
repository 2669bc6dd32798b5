package handle_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
)

// Concurrent enqueues, and pushes, never conflict with each other, whether or not
// they share transactions: each transaction runs exactly once.
func TestEnqueuesDoNotConflict(t *testing.T) {
	for name, open := range engines.All(t) {
		for _, combining := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s combining %v", name, combining), func(t *testing.T) {
				db, attempts := testkit.Counted(open(kv.Limits{}))
				var transactions, calls, items atomic.Int64
				o := conq.Options{NoCombining: !combining, Observe: func(e conq.Event) {
					transactions.Add(1)
					calls.Add(int64(e.Calls))
					items.Add(int64(e.Items))
					testkit.Equal(t, "attempts", e.Attempts, 1)
				}}
				q, err := conq.OpenQueue(t.Context(), db, "queue", conq.String(), o)
				testkit.NoError(t, err)
				p, err := conq.OpenPriorityQueue(t.Context(), db, "priority queue", conq.String(), o)
				testkit.NoError(t, err)
				attempts.Store(0)
				const workers = 32
				each := testkit.Cases(3125) // 100,000 items for each
				testkit.Together(workers, func(w int) {
					for i := range each {
						v := fmt.Sprint(w, " ", i)
						if i%8 == 7 { // a few batches
							testkit.Check(t, q.EnqueueAll(t.Context(), []string{v, v}))
							continue
						}
						testkit.Check(t, q.Enqueue(t.Context(), v))
					}
				})
				testkit.Together(workers, func(w int) {
					for i := range 100 {
						v := fmt.Sprint(w, " ", i)
						if i%4 == 3 {
							testkit.Check(t, p.PushAll(t.Context(), []conq.Prioritized[string]{{Value: v, Priority: 0}, {Value: v, Priority: int64(1 + w%3)}, {Value: v, Priority: 5}}))
							continue
						}
						testkit.Check(t, p.Push(t.Context(), v, int64(i%3)))
					}
				})
				testkit.Equal(t, "attempts in all", attempts.Load(), transactions.Load())
				testkit.Equal(t, "calls", calls.Load(), int64(workers*(each+100)))
				testkit.Equal(t, "items", items.Load(), int64(workers*(each+each/8+100+100/4*2)))
				wantLen(t, "items in the queue", q.Len, workers*(each+each/8))
				if !combining {
					testkit.Equal(t, "transactions", transactions.Load(), calls.Load())
				} else if transactions.Load() > calls.Load()/2 {
					t.Errorf("%d calls in %d transactions: they were hardly combined", calls.Load(), transactions.Load())
				}
			})
		}
	}
}

// during runs outer in a transaction, and inner once while its first attempt is
// open, and returns the number of attempts.
func during(t *testing.T, f fixture, outer func(kv.Tx) error, inner func() error) (attempts int) {
	t.Helper()
	testkit.NoError(t, f.db.Transact(f.ctx, func(tx kv.Tx) error {
		attempts++
		err := outer(tx)
		tx.Set([]byte("written"), nil) // what writes nothing never conflicts
		if attempts == 1 {
			testkit.NoError(t, inner())
		}
		return err
	}))
	return attempts
}

// What a verb conflicts with is what its documentation says, no more and no less.
func TestConflicts(t *testing.T) {
	type outer = func(fixture, kv.Tx) error
	type inner = func(fixture) error
	enqueue := func(f fixture) error { return f.q.Enqueue(f.ctx, "x") }
	dequeue := func(f fixture) error { return drop(f.q.Dequeue(f.ctx)) }
	push := func(priority int64) inner {
		return func(f fixture) error { return f.p.Push(f.ctx, "x", priority) }
	}
	popMin := func(f fixture) error { return drop(f.p.PopMin(f.ctx)) }
	dequeueN := func(n int) outer {
		return func(f fixture, tx kv.Tx) error { return drop(f.q.In(tx).DequeueN(n)) }
	}
	max := func(f fixture, tx kv.Tx) error { return drop(f.p.In(tx).PopMax()) }
	maxFIFO := func(f fixture, tx kv.Tx) error { return drop(f.pf.In(tx).PopMax()) }
	peekFIFO := func(f fixture, tx kv.Tx) error { return drop(f.pf.In(tx).Peek(conq.Max)) }
	maxNFIFO := func(n int) outer {
		return func(f fixture, tx kv.Tx) error { return drop(f.pf.In(tx).PopN(conq.Max, n)) }
	}
	minN := func(n int) outer {
		return func(f fixture, tx kv.Tx) error { return drop(f.p.In(tx).PopN(conq.Min, n)) }
	}
	leave := func(f fixture, tx kv.Tx) error {
		for _, err := range f.q.In(tx).All() {
			return err
		}
		return nil
	}
	cases := []struct {
		what     string
		items    int // 1, 2, ... in the queue; with priorities 1, 2, 3, 3 in the priority queue
		outer    outer
		inner    inner
		conflict bool
	}{
		{"enqueue, enqueue", 2, func(f fixture, tx kv.Tx) error { return f.q.In(tx).Enqueue("y") }, enqueue, false},
		{"clear, enqueue", 2, func(f fixture, tx kv.Tx) error { return f.q.In(tx).Clear() }, enqueue, false},
		{"dequeue, enqueue", 1, func(f fixture, tx kv.Tx) error { return drop(f.q.In(tx).Dequeue()) }, enqueue, false},
		{"dequeue, dequeue", 2, func(f fixture, tx kv.Tx) error { return drop(f.q.In(tx).Dequeue()) }, dequeue, true},
		{"dequeue of nothing, enqueue", 0, func(f fixture, tx kv.Tx) error { return drop(f.q.In(tx).Dequeue()) }, enqueue, true},
		{"peek, enqueue", 1, func(f fixture, tx kv.Tx) error { return drop(f.q.In(tx).Peek()) }, enqueue, false},
		{"peek, dequeue", 2, func(f fixture, tx kv.Tx) error { return drop(f.q.In(tx).Peek()) }, dequeue, true},
		{"len, enqueue", 2, func(f fixture, tx kv.Tx) error { return drop(f.q.In(tx).Len()) }, enqueue, true},
		{"all left early, enqueue", 2, leave, enqueue, false},
		{"all left early, dequeue", 2, leave, dequeue, true},
		{"full batch, enqueue", 2, dequeueN(2), enqueue, false},
		{"full batch, dequeue", 3, dequeueN(2), dequeue, true},
		{"short batch, enqueue", 2, dequeueN(3), enqueue, true},
		{"pop max, push lower", 4, max, push(2), false},
		{"pop max, push same", 4, max, push(3), true},
		{"pop max, push higher", 4, max, push(4), true},
		{"pop max, pop min", 4, max, popMin, false},
		{"pop max first pushed, push lower", 4, maxFIFO, push(2), false},
		{"pop max first pushed, push same", 4, maxFIFO, push(3), false},
		{"pop max first pushed, push higher", 4, maxFIFO, push(4), true},
		{"peek max first pushed, push same", 4, peekFIFO, push(3), false},
		{"peek max first pushed, push higher", 4, peekFIFO, push(4), true},
		{"pop max of nothing, push", 0, maxFIFO, push(0), true},
		{"pop 1 first pushed, push same", 4, maxNFIFO(1), push(3), false},
		{"pop 2 first pushed, push same", 4, maxNFIFO(2), push(3), false},
		{"pop 3 first pushed, push to one taken", 4, maxNFIFO(3), push(3), true},
		{"pop 3 first pushed, push to the last", 4, maxNFIFO(3), push(2), false},
		{"pop 9 first pushed, push lower", 4, maxNFIFO(9), push(-9), true},
		{"pop min 2, push between", 4, minN(2), push(1), true},
		{"pop min 2, push higher", 4, minN(2), push(3), false},
		{"pop min 9, push higher", 4, minN(9), push(9), true},
	}
	for name, open := range engines.All(t) {
		db := open(kv.Limits{})
		f := newFixture(t, db, nil)
		for _, c := range cases {
			t.Run(name+" "+c.what, func(t *testing.T) {
				testkit.NoError(t, f.q.Clear(f.ctx))
				testkit.NoError(t, f.p.Clear(f.ctx))
				for i := range c.items {
					testkit.NoError(t, f.q.Enqueue(f.ctx, fmt.Sprint(i+1)))
					testkit.NoError(t, f.p.Push(f.ctx, fmt.Sprint(i+1), int64(min(i+1, 3))))
				}
				attempts := during(t, f, func(tx kv.Tx) error { return c.outer(f, tx) }, func() error { return c.inner(f) })
				testkit.Equal(t, "conflict", attempts > 1, c.conflict)
			})
		}
	}
}

// Clear while others enqueue leaves whole items only.
func TestClearAgainstEnqueues(t *testing.T) {
	f := newFixture(t, &testkit.Hooked{DB: testkit.NewMemory(t, kv.Limits{}), Bounds: kv.Limits{Value: 4}}, nil)
	ctx, cancel := context.WithCancel(f.ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			testkit.Check(t, f.q.Clear(f.ctx))
		}
	})
	for range 300 {
		testkit.NoError(t, f.q.Enqueue(f.ctx, "split over some keys"))
	}
	cancel()
	group.Wait()
	n, err := f.q.Len(f.ctx)
	testkit.NoError(t, err)
	for _, v := range testkit.List(t, f.q.All(f.ctx)) {
		testkit.Equal(t, "item", v, "split over some keys")
	}
	testkit.Equal(t, "keys", len(testkit.Stored(t, f.db)), 5*n)
}
