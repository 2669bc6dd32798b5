package queues

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// fixture is a queue and a priority queue, the latter by two handles, in a store.
type fixture struct {
	db  kv.DB
	q   *conq.Queue[string]
	p   *conq.PriorityQueue[string] // last pushed first at the high end
	pf  *conq.PriorityQueue[string] // first pushed first
	ctx context.Context

	mode conq.Staging // what tests that need one open further handles with
}

// newFixture opens the queues. random is nil for the default.
func newFixture(t testkit.TB, db kv.DB, random io.Reader) fixture {
	t.Helper()
	q, err := conq.OpenQueue(context.Background(), db, "q", conq.String(), conq.Options{Random: random})
	testkit.NoError(t, err)
	p, err := conq.OpenPriorityQueue(context.Background(), db, "p", conq.String(), conq.Options{Random: random})
	testkit.NoError(t, err)
	pf, err := conq.OpenPriorityQueue(context.Background(), db, "p", conq.String(), conq.Options{Random: random, FIFOTies: true})
	testkit.NoError(t, err)
	return fixture{db: db, q: q, p: p, pf: pf, ctx: context.Background()}
}

func contents(t testkit.TB, f fixture) (q []string, p []conq.Prioritized[string]) {
	t.Helper()
	return testkit.List(t, f.q.All(f.ctx)), testkit.List(t, f.p.All(f.ctx))
}

// drop leaves of a result only errors of the store.
func drop[V any](_ V, err error) error {
	if errors.Is(err, conq.ErrEmpty) {
		return nil
	}
	return err
}

var errEnough = errors.New("waited for long enough")

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }

func first(t *testing.T, f fixture) string {
	t.Helper()
	v, err := f.q.Dequeue(f.ctx)
	testkit.NoError(t, err)
	return v
}
