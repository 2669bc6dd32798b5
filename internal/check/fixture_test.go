package check_test

import (
	"context"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// small are limits under which values over 100 bytes are split.
var small = kv.Limits{Value: 100, Transaction: 20_000}

// fixture is a queue and a priority queue in a store.
type fixture struct {
	ctx context.Context
	db  kv.DB
	q   *conq.Queue[string]
	p   *conq.PriorityQueue[string]
}

func newFixture(t testkit.TB, db kv.DB) fixture {
	t.Helper()
	q, err := conq.OpenQueue(context.Background(), db, "q", conq.String())
	testkit.NoError(t, err)
	p, err := conq.OpenPriorityQueue(context.Background(), db, "p", conq.String())
	testkit.NoError(t, err)
	return fixture{context.Background(), db, q, p}
}

// newClocked returns queues in a store whose transactions expire by the clock.
func newClocked(t *testing.T) (fixture, *testkit.Clock) {
	db, clock := testkit.Clocked(t)
	return newFixture(t, db), clock
}
