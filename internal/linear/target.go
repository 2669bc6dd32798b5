package linear

import (
	"context"
	"errors"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Open opens a queue, FIFO with one end and of priorities with two. It does so again after an unknown
// outcome, which does no harm.
func Open(ctx context.Context, db kv.DB, name string, ends int, o conq.Options) (t Target, err error) {
	for err = kv.ErrCommitUnknown; errors.Is(err, kv.ErrCommitUnknown); {
		if ends == 1 {
			var q *conq.Queue[string]
			q, err = conq.OpenQueue(ctx, db, name, conq.String(), o)
			t = FIFO(q)
		} else {
			var p *conq.PriorityQueue[string]
			p, err = conq.OpenPriorityQueue(ctx, db, name, conq.String(), o)
			t = Priority(p)
		}
	}
	return t, err
}

// CheckOn lets clients work on a queue through handles on several stores that are one, as processes have them,
// and fails the test for what a correct queue could not have done. An even seed has FIFOTies. It returns the errors
// of calls that have not happened.
func CheckOn(t testing.TB, dbs []kv.DB, name string, w Workload, o conq.Options) []error {
	t.Helper()
	o.FIFOTies = w.Seed%2 == 0
	var handles []Target
	for _, db := range dbs {
		h, err := Open(t.Context(), db, name, w.Ends, o)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, h)
	}
	histories, failed, err := Run(t.Context(), w, Queue{
		Name: name, FIFOTies: o.FIFOTies,
		Open:  func(client int) Target { return handles[client%len(handles)] },
		Drain: func() Target { return handles[0] },
	})
	if err != nil {
		t.Fatal(err)
	}
	CheckShared(t, histories...)
	return failed
}

var errLow = errors.New("linear: a FIFO queue has no high end")

// FIFO makes a queue a Target.
func FIFO(q *conq.Queue[string]) Target { return fifo{q} }

type fifo struct{ q *conq.Queue[string] }

func (f fifo) Put(ctx context.Context, items []Item) error {
	if len(items) == 1 {
		return f.q.Enqueue(ctx, items[0].Value)
	}
	values := make([]string, len(items))
	for i, item := range items {
		values[i] = item.Value
	}
	return f.q.EnqueueAll(ctx, values)
}

func (f fifo) Take(ctx context.Context, end queue.End, n int) ([]Item, error) {
	if end != queue.Min {
		return nil, errLow
	}
	if n == 1 {
		return one(f.q.Dequeue(ctx))
	}
	values, err := f.q.DequeueN(ctx, n)
	var items []Item
	for _, v := range values {
		items = append(items, Item{Value: v})
	}
	return items, err
}

func (f fifo) Peek(ctx context.Context, end queue.End) (Item, error) {
	if end != queue.Min {
		return Item{}, errLow
	}
	v, err := f.q.Peek(ctx)
	return Item{v, Untold}, err
}

func (f fifo) Len(ctx context.Context) (int, error) { return f.q.Len(ctx) }

// one returns what a verb for a single value has returned.
func one(v string, err error) ([]Item, error) {
	if err != nil {
		return nil, err
	}
	return []Item{{v, Untold}}, nil
}

// Priority makes a priority queue a Target.
func Priority(p *conq.PriorityQueue[string]) Target { return priority{p} }

type priority struct{ p *conq.PriorityQueue[string] }

func (p priority) Put(ctx context.Context, items []Item) error {
	if len(items) == 1 {
		return p.p.Push(ctx, items[0].Value, items[0].Priority)
	}
	values := make([]conq.Prioritized[string], len(items))
	for i, item := range items {
		values[i] = conq.Prioritized[string]{Value: item.Value, Priority: item.Priority}
	}
	return p.p.PushAll(ctx, values)
}

func (p priority) Take(ctx context.Context, end queue.End, n int) ([]Item, error) {
	if n == 1 {
		return one(p.p.Pop(ctx, end))
	}
	return several(p.p.PopN(ctx, end, n))
}

// several returns what a verb for several values has returned.
func several(values []conq.Prioritized[string], err error) ([]Item, error) {
	var items []Item
	for _, v := range values {
		items = append(items, Item{v.Value, v.Priority})
	}
	return items, err
}

func (p priority) Peek(ctx context.Context, end queue.End) (Item, error) {
	v, err := p.p.Peek(ctx, end)
	return Item{v, Untold}, err
}

func (p priority) Len(ctx context.Context) (int, error) { return p.p.Len(ctx) }
