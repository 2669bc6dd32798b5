package conq

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/kv"
)

// How many wait is told of both ends of a priority queue together, and only when it has changed.
func TestObserveWaiting(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			db := newMemory(t, kv.Limits{Shared: shared})
			var told []int
			p, err := OpenPriorityQueue(db, "p", String(), Options{Observe: func(e Event) {
				if e.Kind == Waiting {
					told = append(told, e.Items)
				}
			}})
			noError(t, err)
			wait := func(pop func(context.Context) (string, error)) (leave func() error) {
				ctx, cancel := context.WithCancelCause(t.Context())
				done := async(func() error { return drop(pop(ctx)) })
				return func() error {
					cancel(errEnough)
					return <-done
				}
			}
			low, high, late := wait(p.PopMinWait), wait(p.PopMaxWait), wait(p.PopMaxWait)
			wantError(t, high(), errEnough)
			wantError(t, low(), errEnough)
			wantError(t, late(), errEnough)
			noError(t, p.Close())
			equalSlices(t, "told who waits", told, []int{1, 2, 3, 2, 1, 0})
		})
	}
}

// The calls of an event are all those for which items were taken, also of callers who waited: what
// they have found, or were handed, is of one transaction.
func TestObserveTakenCalls(t *testing.T) {
	for _, found := range []bool{false, true} {
		for _, shared := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				db := newMemory(t, kv.Limits{Shared: shared})
				var seen events
				q, err := OpenQueue(db, "q", String(), Options{Observe: seen.observe})
				noError(t, err)
				other, err := OpenQueue(db, "q", String())
				noError(t, err)
				var done []chan error
				for range 3 {
					done = append(done, async(func() error { return drop(q.DequeueWait(t.Context())) }))
				}
				seen.take(Taken)
				add := q.EnqueueAll
				if found {
					add = other.EnqueueAll
				}
				noError(t, add(t.Context(), []string{"a", "b", "c"}))
				for _, err := range done {
					noError(t, <-err)
				}
				equalSlices(t, "taken", seen.take(Taken), []Event{{Queue: "q", Kind: Taken, Calls: 3, Items: 3, Attempts: 1}})
				noError(t, q.Close())
				noError(t, other.Close())
			})
		}
	}
}

// Calls that share a batch, but not its transaction, are each told of once.
func TestObserveTakenCallsOfSeveralTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGated(kv.Limits{Transaction: 2000}) // a transaction takes 1,000 bytes
		var seen events
		v := openFront(t, g, Options{Observe: seen.observe})
		for range 60 {
			noError(t, v.add(t.Context(), "ten bytes."))
		}
		release := g.hold()
		var done []chan error
		for range 4 {
			done = append(done, async(func() error { return drop(v.take(t.Context(), 20)) }))
		}
		release()
		for _, err := range done {
			noError(t, <-err)
		}
		equal(t, "calls", seen.sum(Taken).Calls, 4)
		noError(t, g.Close())
	})
}
