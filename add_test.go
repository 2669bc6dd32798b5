package conq

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
)

// Calls for whose items nobody waits are left to the next batch, if these are no more
// than half.
func TestHandOverPutOff(t *testing.T) {
	calls := []string{"12", "3", "4", "5", "6"} // each byte is an item
	const items = 6
	for wanted, batches := range map[int]string{2: "[1 5]", 3: "[1 2 3]", 5: "[1 4 1]", 6: "[1 5]", 7: "[1 5]"} {
		onEnds(t, fifoOrders, func(t *testing.T, db *writes, end endOrder) {
			var added []int // calls in each batch
			v := end.open(t, db, Options{Observe: func(e Event) {
				if e.Kind == Added {
					added = append(added, e.Calls)
				}
			}})
			add := func(call string) {
				var all []Prioritized[string]
				for _, item := range call {
					all = append(all, Prioritized[string]{Value: string(item)})
				}
				noError(t, v.all(t.Context(), all...))
			}
			waiters := []*taken{startWaiter(t.Context(), v, 1)}
			for n := wanted; n > 0; n -= 2 { // two items for most
				waiters = append(waiters, startWaiter(t.Context(), v, min(n, 2)))
			}
			db.begins = func() {
				for _, call := range calls {
					go add(call)
					synctest.Wait()
				}
			}
			add("0")
			synctest.Wait()
			equal(t, "calls of the batches", fmt.Sprint(added), batches)
			var got []string
			for _, w := range waiters {
				noError(t, w.err)
				got = append(got, w.values...)
			}
			left, err := v.take(t.Context(), 2*items)
			if wanted < items {
				noError(t, err)
			} else {
				wantError(t, err, ErrEmpty)
			}
			equal(t, "handed over", len(got), 1+min(wanted, items))
			equal(t, "order", strings.Join(append(got, left...), ""), "0123456")
		})
	}
}
