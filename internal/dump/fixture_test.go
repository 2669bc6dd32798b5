package dump_test

import (
	"errors"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// small are limits under which values over 100 bytes are split.
var small = kv.Limits{Value: 100, Transaction: 20_000}

var errCancelled = errors.New("cancelled by the test")

// fixture is a queue and a priority queue in a store.
type fixture struct {
	db kv.DB
	q  *conq.Queue[string]
	p  *conq.PriorityQueue[string]
}

func newFixture(t *testing.T, db kv.DB) fixture {
	t.Helper()
	q, err := conq.OpenQueue(t.Context(), db, "q", conq.String())
	testkit.NoError(t, err)
	p, err := conq.OpenPriorityQueue(t.Context(), db, "p", conq.String())
	testkit.NoError(t, err)
	return fixture{db, q, p}
}

func contents(t *testing.T, f fixture) (q []string, p []conq.Prioritized[string]) {
	t.Helper()
	return testkit.List(t, f.q.All(t.Context())), testkit.List(t, f.p.All(t.Context()))
}

// newClocked returns queues in a store whose transactions expire by the clock.
func newClocked(t *testing.T) (fixture, *testkit.Clock) {
	db, clock := testkit.Clocked(t)
	return newFixture(t, db), clock
}
