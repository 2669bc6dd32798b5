package staging

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// source is a queue of the recipe with two ends, taken in the order of its keys.
type source struct{ recipe.Queue }

func (s source) Items(r kv.Reader, side Side, limit int) iter.Seq2[kv.KeyValue, error] {
	return r.Range(s.Range(), kv.RangeOptions{Limit: limit, Reverse: side == Back})
}

func (s source) Place(key []byte) (group, place []byte) {
	fields := key[len(subspace.Named("q").Bytes()):]
	_, rest, err := tuple.Next(fields)
	if err != nil {
		return nil, nil
	}
	return nil, fields[:len(fields)-len(rest)]
}

func (s source) Keys([]byte) int { return 1 }

// newClock returns a time that only the test moves.
func newClock() *testkit.Clock {
	c := testkit.NewClock()
	c.Pass(time.Hour)
	return c
}

var testQueue = source{recipe.NewQueue(subspace.Named("q"), nil)}

// stage is the staging of the test's queue for one process.
func stage(db kv.DB, o Options) *Stage {
	if o.Source == nil {
		o.Source = testQueue
	}
	o.Space, o.Outcomes = subspace.Named("stage"), subspace.Named("outcomes")
	return New(db, o)
}

// fill enqueues the numbers from 0 to n.
func fill(t *testing.T, db kv.DB, n int) {
	t.Helper()
	for i := range n {
		testkit.NoError(t, db.Transact(context.Background(), func(tx kv.Tx) error {
			return testQueue.Enqueue(tx, fmt.Append(nil, i))
		}))
	}
}

func values(_ kv.Tx, items []kv.KeyValue) (got []string, err error) {
	if len(items) == 0 {
		return nil, errors.New("collect was called without items")
	}
	for _, item := range items {
		got = append(got, string(item.Value))
	}
	return got, nil
}

// takeAll takes items until there are none.
func takeAll(ctx context.Context, s *Stage, side Side, n int) (got []string, err error) {
	for {
		some, err := Take(ctx, s, side, n, values)
		if errors.Is(err, ErrEmpty) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, some...)
	}
}

// count returns how many keys there are in a range.
func count(t *testing.T, db kv.DB, span kv.Range) int {
	t.Helper()
	return len(testkit.In(t, db, span))
}

// leftovers returns how many keys of the staging are still there.
func leftovers(t *testing.T, db kv.DB) int {
	t.Helper()
	span := subspace.Named("stage").Range()
	span.Begin = keys{subspace.Named("stage").Bytes()}.kind(requestKind) // what is in front of that goes in a moment
	return count(t, db, span)
}

// nothingLeft checks that no key of the staging is still there.
func nothingLeft(t *testing.T, db kv.DB) {
	t.Helper()
	if n := leftovers(t, db); n > 0 {
		t.Errorf("%d keys are left behind", n)
	}
}

// inTheRole takes the role, and serves in one transaction.
func inTheRole(t *testing.T, s *Stage) {
	t.Helper()
	assume(t, s)
	testkit.NoError(t, drop(s.serveSome()))
}

// assume has s take the role of the fulfiller.
func assume(t *testing.T, s *Stage) {
	t.Helper()
	testkit.NoError(t, s.db.Transact(context.Background(), func(tx kv.Tx) error {
		s.assume(tx, vacant)
		return nil
	}))
}

// roleTaken has another process have the role of the fulfiller, which has died.
func roleTaken(t *testing.T, db kv.DB) {
	t.Helper()
	assume(t, stage(db, Options{}))
}
