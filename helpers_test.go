package conq

import (
	"context"
	"io"
	"slices"
	"sync/atomic"
	"testing"

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

// small are limits under which values over 100 bytes are split.
var small = kv.Limits{Value: 100, Transaction: 20_000}

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
	var values []V
	for v, err := range seq {
		noError(t, err)
		values = append(values, v)
	}
	return values
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
	return slices.DeleteFunc(everything(t, db), func(pair kv.KeyValue) bool {
		return layout.Entries().Contains(pair.Key) || string(pair.Key) == string(layout.FormatKey())
	})
}

func write(t tb, db kv.DB, pairs ...kv.KeyValue) {
	t.Helper()
	testkit.Write(t, db, pairs...)
}

// hooked is a kv.DB that reports other limits, and lets a test look at each
// attempt of a transaction.
type hooked struct {
	kv.DB
	limits  kv.Limits
	attempt func(kv.Tx) kv.Tx // called for each attempt; may wrap
	reader  func(kv.Reader) kv.Reader
}

// Signals implements kv.Local, which embedding hides.
func (h *hooked) Signals() *kv.Signals { return kv.SignalsOf(h.DB) }

func (h *hooked) Limits() kv.Limits {
	l := h.DB.Limits()
	if h.limits.Value > 0 {
		l.Value = h.limits.Value
	}
	if h.limits.Transaction > 0 {
		l.Transaction = h.limits.Transaction
	}
	if h.limits.Operations > 0 {
		l.Operations = h.limits.Operations
	}
	return l
}

func (h *hooked) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return h.DB.Transact(ctx, func(tx kv.Tx) error {
		if h.attempt != nil {
			tx = h.attempt(tx)
		}
		return f(tx)
	})
}

func (h *hooked) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	return h.DB.ReadTransact(ctx, func(r kv.Reader) error {
		if h.reader != nil {
			r = h.reader(r)
		}
		return f(r)
	})
}

// counted returns db and a counter of the attempts of its transactions.
func counted(db kv.DB) (*hooked, *atomic.Int64) {
	var attempts atomic.Int64
	return &hooked{DB: db, attempt: func(tx kv.Tx) kv.Tx {
		attempts.Add(1)
		return tx
	}}, &attempts
}

func equalSlices[V comparable](t tb, what string, got, want []V) {
	t.Helper()
	testkit.EqualSlices(t, what, got, want)
}
