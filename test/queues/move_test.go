package queues

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
)

// fill puts items of three pieces each into both queues, and returns their values,
// sorted.
func fill(t *testing.T, f fixture) (all []string) {
	testkit.NoError(t, f.q.Clear(f.ctx))
	testkit.NoError(t, f.p.Clear(f.ctx))
	for i := range 3 {
		v := fmt.Sprint("q", i, strings.Repeat(".", 40))
		w := fmt.Sprint("p", i, strings.Repeat(".", 40))
		testkit.NoError(t, f.q.Enqueue(f.ctx, v))
		testkit.NoError(t, f.p.Push(f.ctx, w, int64(i/2)))
		all = append(all, v, w)
	}
	slices.Sort(all)
	return all
}

// The largest item can be moved in one transaction, with an engine's own limits, also between queues with the
// longest names.
func TestMoveLargest(t *testing.T) {
	testkit.Long(t)
	for name, open := range engines.All(t) {
		t.Run(name, func(t *testing.T) {
			db := open(kv.Limits{})
			from, err := conq.OpenQueue(t.Context(), db, strings.Repeat("f", conq.MaxName), conq.String())
			testkit.NoError(t, err)
			to, err := conq.OpenPriorityQueue(t.Context(), db, strings.Repeat("t", conq.MaxName), conq.String())
			testkit.NoError(t, err)
			size := db.Limits().Transaction / 2
			testkit.NoError(t, from.Enqueue(t.Context(), strings.Repeat("x", size)))
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				v, err := from.In(tx).Dequeue()
				if err != nil {
					return err
				}
				return to.In(tx).Push(v, math.MinInt64)
			}))
			got, err := to.PopMax(t.Context())
			testkit.NoError(t, err)
			testkit.Equal(t, "length", len(got), size)
			testkit.Equal(t, "keys left", len(testkit.Stored(t, db)), 0)
		})
	}
}
