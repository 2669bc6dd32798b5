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
