package handle_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"

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
	q := newQueue(t, db, conq.String(), conq.Options{Random: random})
	p := newPriorityQueue(t, db, conq.String(), conq.Options{Random: random})
	pf := newPriorityQueue(t, db, conq.String(), conq.Options{Random: random, FIFOTies: true})
	return fixture{db: db, q: q, p: p, pf: pf, ctx: context.Background()}
}

// newQueue opens the queue "q".
func newQueue[V any](t testkit.TB, db kv.DB, codec conq.Codec[V], opts ...conq.Options) *conq.Queue[V] {
	t.Helper()
	q, err := conq.OpenQueue(context.Background(), db, "q", codec, opts...)
	testkit.NoError(t, err)
	return q
}

// newPriorityQueue opens the priority queue "p".
func newPriorityQueue[V any](t testkit.TB, db kv.DB, codec conq.Codec[V], opts ...conq.Options) *conq.PriorityQueue[V] {
	t.Helper()
	p, err := conq.OpenPriorityQueue(context.Background(), db, "p", codec, opts...)
	testkit.NoError(t, err)
	return p
}

// wantLen ends the test unless a queue has so many items.
func wantLen(t *testing.T, what string, length func(context.Context) (int, error), want int) {
	t.Helper()
	n, err := length(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, what, n, want)
}

// wantOne ends the test unless a call returns this item.
func wantOne[V comparable](t *testing.T, what string, call func(context.Context) (V, error), want V) {
	t.Helper()
	got, err := call(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, what, got, want)
}

// wantItems ends the test unless a call for up to n items returns these.
func wantItems[V comparable](t *testing.T, what string, call func(context.Context, int) ([]V, error), n int, want ...V) {
	t.Helper()
	got, err := call(t.Context(), n)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, what, got, want)
}

// wantPanic fails the test unless f panics with that value.
func wantPanic(t *testing.T, want any, f func()) {
	t.Helper()
	defer func() { testkit.Equal(t, "panic", recover(), want) }()
	f()
}

// panics makes an error of a panic that is errEnough.
func panics(f func() error) func() error {
	return func() (err error) {
		defer func() {
			if r := recover(); r == errEnough {
				err = errEnough
			} else if r != nil {
				panic(r)
			}
		}()
		return f()
	}
}

// account notes which items were acknowledged, and which came out.
type account struct {
	t        *testing.T
	put, got sync.Map
	n        atomic.Int64 // how many came out
}

// in notes an item if the call that added it returned no error, and returns the error.
func (a *account) in(value string, err error) error {
	if err == nil {
		a.put.Store(value, true)
	}
	return err
}

// out notes items that came out.
func (a *account) out(values ...string) {
	for _, v := range values {
		if _, twice := a.got.LoadOrStore(v, true); twice {
			a.t.Errorf("%.20q came out twice", v)
		}
	}
	a.n.Add(int64(len(values)))
}

// settle checks that all items that were acknowledged have come out.
func (a *account) settle() {
	a.put.Range(func(v, _ any) bool {
		if _, ok := a.got.Load(v); !ok {
			a.t.Errorf("%s was acknowledged, and is lost", v)
		}
		return true
	})
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
