package handle_test

import (
	"context"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// endVerbs are those of an end of a queue, as one handle has them.
type endVerbs struct {
	add  func(context.Context, string) error
	all  func(context.Context, ...conq.Prioritized[string]) error // a queue ignores priorities
	in   func(kv.Tx, string) error
	take func(context.Context, int) ([]string, error)
	wait func(context.Context, int) ([]string, error)
	one  func(context.Context) (string, error) // waits
	len  func(context.Context) (int, error)

	reclaim func(context.Context) error
	close   func() error

	laid *layout.Queue // where its items are
}

// allEnds are the ends of queues that there are. Each opens its verbs on a store.
var allEnds = []struct {
	name string
	open func(testkit.TB, kv.DB, conq.Options) endVerbs
}{
	{"Dequeue", openFront},
	{"PopMin", func(t testkit.TB, db kv.DB, o conq.Options) endVerbs { return openPriority(t, db, o, true) }},
	{"PopMax", func(t testkit.TB, db kv.DB, o conq.Options) endVerbs {
		o.FIFOTies = true
		return openPriority(t, db, o, false)
	}},
}

func openFront(t testkit.TB, db kv.DB, o conq.Options) endVerbs {
	t.Helper()
	q := newQueue(t, db, conq.String(), o)
	return endVerbs{
		q.Enqueue, func(ctx context.Context, items ...conq.Prioritized[string]) error {
			values := make([]string, len(items))
			for i, item := range items {
				values[i] = item.Value
			}
			return q.EnqueueAll(ctx, values)
		},
		func(tx kv.Tx, v string) error { return q.In(tx).Enqueue(v) },
		q.DequeueN, q.DequeueWaitN, q.DequeueWait, q.Len, q.Reclaim, q.Close, testkit.Laid("q"),
	}
}

func openPriority(t testkit.TB, db kv.DB, o conq.Options, low bool) endVerbs {
	t.Helper()
	p := newPriorityQueue(t, db, conq.String(), o)
	v := endVerbs{
		func(ctx context.Context, v string) error { return p.Push(ctx, v, 7) },
		func(ctx context.Context, items ...conq.Prioritized[string]) error { return p.PushAll(ctx, items) },
		func(tx kv.Tx, v string) error { return p.In(tx).Push(v, 7) },
		valuesOf(p.PopN, conq.Max), valuesOf(p.PopWaitN, conq.Max), oneOf(p.PopWait, conq.Max), p.Len, p.Reclaim, p.Close, testkit.Laid("p"),
	}
	if low {
		v.take, v.wait, v.one = valuesOf(p.PopN, conq.Min), valuesOf(p.PopWaitN, conq.Min), oneOf(p.PopWait, conq.Min)
	}
	return v
}

func oneOf(f func(context.Context, conq.End) (string, error), e conq.End) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return f(ctx, e) }
}

func valuesOf(f func(context.Context, conq.End, int) ([]conq.Prioritized[string], error), e conq.End) func(context.Context, int) ([]string, error) {
	return func(ctx context.Context, n int) (values []string, err error) {
		items, err := f(ctx, e, n)
		for _, item := range items {
			values = append(values, item.Value)
		}
		return values, err
	}
}

// stores are the kinds of stores on which waiting differs. Each returns a function
// that opens it for another process.
var stores = map[string]func(t testing.TB) (process func() kv.DB, end func()){
	"in memory": func(t testing.TB) (func() kv.DB, func()) {
		db := memory.New(memory.Options{})
		return func() kv.DB { return db }, func() { testkit.NoError(t, db.Close()) }
	},
	"shared": func(t testing.TB) (func() kv.DB, func()) {
		c := testkit.NewCluster(t, 1, faulty.Options{})
		return func() kv.DB { return c.Process() }, c.Close
	},
}

// onEach runs a test in a bubble for each kind of store and each end of a queue.
func onEach(t *testing.T, test func(t *testing.T, process func() kv.DB, open func(testkit.TB, kv.DB, conq.Options) endVerbs)) {
	for store, newStore := range stores {
		for _, end := range allEnds {
			t.Run(store+" "+end.name, func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) {
					process, close := newStore(t)
					defer close()
					test(t, process, end.open)
				})
			})
		}
	}
}
