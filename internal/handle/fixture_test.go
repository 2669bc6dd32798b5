package handle_test

import (
	"context"
	"errors"
	"io"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// The tests of this package look at handles through the types that package conq puts on them:
// so values are strings, and what is tested is what users get.

// fixture is a queue and a priority queue, the latter by two handles, in a store.
type fixture struct {
	db  kv.DB
	q   *conq.Queue[string]
	p   *conq.PriorityQueue[string] // last pushed first at the high end
	pf  *conq.PriorityQueue[string] // first pushed first
	ctx context.Context
}

// newFixture opens the queues. random is nil for the default.
func newFixture(t testkit.TB, db kv.DB, random io.Reader) fixture {
	t.Helper()
	q, err := conq.OpenQueue(db, "q", conq.String(), conq.Options{Random: random})
	testkit.NoError(t, err)
	p, err := conq.OpenPriorityQueue(db, "p", conq.String(), conq.Options{Random: random})
	testkit.NoError(t, err)
	pf, err := conq.OpenPriorityQueue(db, "p", conq.String(), conq.Options{Random: random, FIFOTies: true})
	testkit.NoError(t, err)
	return fixture{db: db, q: q, p: p, pf: pf, ctx: context.Background()}
}

// small are limits under which values over 100 bytes are split.
var small, sharedSmall = kv.Limits{Value: 100, Transaction: 20_000}, kv.Limits{Value: 100, Transaction: 20_000, Shared: true}

// drop leaves of a result only errors of the store.
func drop[V any](_ V, err error) error {
	if errors.Is(err, conq.ErrEmpty) {
		return nil
	}
	return err
}
