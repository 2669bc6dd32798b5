package conq

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

type tb = testkit.TB

// fixture is a queue and a priority queue, the latter by two handles, in a store.
type fixture struct {
	db  kv.DB
	q   *Queue[string]
	p   *PriorityQueue[string] // last pushed first at the high end
	pf  *PriorityQueue[string] // first pushed first
	ctx context.Context

	mode Staging // what tests that need one open further handles with
}

// newFixture opens the queues. random is nil for the default.
func newFixture(t tb, db kv.DB, random io.Reader) fixture {
	t.Helper()
	q, err := OpenQueue(db, "q", String(), Options{Random: random})
	noError(t, err)
	p, err := OpenPriorityQueue(db, "p", String(), Options{Random: random})
	noError(t, err)
	pf, err := OpenPriorityQueue(db, "p", String(), Options{Random: random, FIFOTies: true})
	noError(t, err)
	return fixture{db: db, q: q, p: p, pf: pf, ctx: context.Background()}
}

func newMemory(t testing.TB, limits kv.Limits) kv.DB {
	t.Helper()
	return testkit.NewMemory(t, limits)
}

func noError(t tb, err error) {
	t.Helper()
	testkit.NoError(t, err)
}

func wantError(t tb, got, want error, texts ...string) {
	t.Helper()
	testkit.WantError(t, got, want, texts...)
}

func equal[V comparable](t tb, what string, got, want V) {
	t.Helper()
	testkit.Equal(t, what, got, want)
}

// list returns the values of a sequence.
func list[V any](t tb, seq func(func(V, error) bool)) []V {
	t.Helper()
	return testkit.List(t, seq)
}

func contents(t tb, f fixture) (q []string, p []Prioritized[string]) {
	t.Helper()
	return list(t, f.q.All(f.ctx)), list(t, f.p.All(f.ctx))
}

// everything returns all pairs of a store.
func everything(t tb, db kv.DB) []kv.KeyValue {
	t.Helper()
	return testkit.Everything(t, db)
}

// stored returns the pairs that belong to items: all but format and catalogue.
func stored(t tb, db kv.DB) []kv.KeyValue {
	t.Helper()
	return testkit.Stored(t, db)
}

func write(t tb, db kv.DB, pairs ...kv.KeyValue) {
	t.Helper()
	testkit.Write(t, db, pairs...)
}

// hooked is a store that tests look into.
type hooked = testkit.Hooked

func equalSlices[V comparable](t tb, what string, got, want []V) {
	t.Helper()
	testkit.EqualSlices(t, what, got, want)
}

// laid returns where the items of "q", a queue, or of another name, a priority queue, are.
func laid(name string) *layout.Queue {
	kind := KindPriorityQueue
	if name == "q" {
		kind = KindQueue
	}
	return layout.New(name, kind, kv.Limits{})
}

// drop leaves of a result only errors of the store.
func drop[V any](_ V, err error) error {
	if errors.Is(err, ErrEmpty) {
		return nil
	}
	return err
}

var errEnough = errors.New("waited for long enough")

// pass lets time pass.
func pass(d time.Duration) { <-time.After(d) }

// stays checks that all verbs of the queue fail with an ErrDecode that says both
// texts, and change nothing, even when the caller commits.
func stays(t *testing.T, f fixture, texts ...string) {
	t.Helper()
	before := testkit.Everything(t, f.db)
	first := func(seq func(func(string, error) bool)) error {
		for _, err := range seq {
			return err
		}
		return nil
	}
	verbs := map[string]func(kv.Tx) error{
		"Dequeue":     func(kv.Tx) error { return testkit.Drop(f.q.Dequeue(f.ctx)) },
		"DequeueN":    func(kv.Tx) error { return testkit.Drop(f.q.DequeueN(f.ctx, 2)) },
		"Peek":        func(kv.Tx) error { return testkit.Drop(f.q.Peek(f.ctx)) },
		"All":         func(kv.Tx) error { return first(f.q.All(f.ctx)) },
		"In Dequeue":  func(tx kv.Tx) error { return testkit.Drop(f.q.In(tx).Dequeue()) },
		"In DequeueN": func(tx kv.Tx) error { return testkit.Drop(f.q.In(tx).DequeueN(2)) },
		"In Peek":     func(tx kv.Tx) error { return testkit.Drop(f.q.In(tx).Peek()) },
		"In All":      func(tx kv.Tx) error { return first(f.q.In(tx).All()) },
	}
	for name, verb := range verbs {
		testkit.NoError(t, f.db.Transact(f.ctx, func(tx kv.Tx) error {
			err := verb(tx)
			if !errors.Is(err, ErrDecode) {
				t.Errorf("%s: error %v, want an ErrDecode", name, err)
				return nil
			}
			testkit.WantError(t, err, ErrDecode, texts...)
			return nil
		}))
	}
	testkit.EqualPairs(t, testkit.Everything(t, f.db), before)
}

func first(t *testing.T, f fixture) string {
	t.Helper()
	v, err := f.q.Dequeue(f.ctx)
	testkit.NoError(t, err)
	return v
}
