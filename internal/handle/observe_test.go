package handle_test

import (
	"context"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// How many wait is told of both ends of a priority queue together, and only when it has changed.
func TestObserveWaiting(t *testing.T) {
	for _, shared := range []bool{false, true} {
		testkit.Bubble(t, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{Shared: shared})
			var told []int
			p, err := conq.OpenPriorityQueue(t.Context(), db, "p", conq.String(), conq.Options{Observe: func(e conq.Event) {
				if e.Kind == conq.Waiting {
					told = append(told, e.Items)
				}
			}})
			testkit.NoError(t, err)
			wait := func(pop func(context.Context) (string, error)) (leave func() error) {
				ctx, cancel := context.WithCancelCause(t.Context())
				done := async(func() error { return drop(pop(ctx)) })
				return func() error {
					cancel(errEnough)
					return <-done
				}
			}
			low, high, late := wait(oneOf(p.PopWait, conq.Min)), wait(oneOf(p.PopWait, conq.Max)), wait(oneOf(p.PopWait, conq.Max))
			testkit.WantError(t, high(), errEnough)
			testkit.WantError(t, low(), errEnough)
			testkit.WantError(t, late(), errEnough)
			testkit.NoError(t, p.Close())
			testkit.EqualSlices(t, "told who waits", told, []int{1, 2, 3, 2, 1, 0})
		})
	}
}

// The calls of an event are all those for which items were taken, also of callers who waited: what
// they have found, or were handed, is of one transaction.
func TestObserveTakenCalls(t *testing.T) {
	for _, found := range []bool{false, true} {
		for _, shared := range []bool{false, true} {
			testkit.Bubble(t, func(t *testing.T) {
				db := testkit.NewMemory(t, kv.Limits{Shared: shared})
				var seen events
				q := newQueue(t, db, conq.String(), conq.Options{Observe: seen.observe})
				other := newQueue(t, db, conq.String())
				var done []chan error
				for range 3 {
					done = append(done, async(func() error { return drop(q.DequeueWait(t.Context())) }))
				}
				seen.take(conq.Taken)
				add := q.EnqueueAll
				if found {
					add = other.EnqueueAll
				}
				testkit.NoError(t, add(t.Context(), []string{"a", "b", "c"}))
				for _, err := range done {
					testkit.NoError(t, <-err)
				}
				testkit.EqualSlices(t, "taken", seen.take(conq.Taken), []conq.Event{{Queue: "q", Kind: conq.Taken, Calls: 3, Items: 3, Attempts: 1}})
				testkit.NoError(t, q.Close())
				testkit.NoError(t, other.Close())
			})
		}
	}
}

// Calls that share a batch, but not its transaction, are each told of once.
func TestObserveTakenCallsOfSeveralTransactions(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		g := newGated(kv.Limits{Transaction: 2000}) // a transaction takes 1,000 bytes
		var seen events
		v := openFront(t, g, conq.Options{Observe: seen.observe})
		for range 60 {
			testkit.NoError(t, v.add(t.Context(), "ten bytes."))
		}
		release := g.hold()
		var done []chan error
		for range 4 {
			done = append(done, async(func() error { return drop(v.take(t.Context(), 20)) }))
		}
		release()
		for _, err := range done {
			testkit.NoError(t, <-err)
		}
		testkit.Equal(t, "calls", seen.sum(conq.Taken).Calls, 4)
		testkit.NoError(t, g.Close())
	})
}
