package linear

import (
	"context"
	"errors"

	"github.com/conq-go/conq"
)

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

func (f fifo) Take(ctx context.Context, end End, n int) ([]Item, error) {
	if end != Low {
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

func (f fifo) Peek(ctx context.Context, end End) (Item, error) {
	if end != Low {
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

func (p priority) Take(ctx context.Context, end End, n int) ([]Item, error) {
	switch {
	case n == 1 && end == Low:
		return one(p.p.PopMin(ctx))
	case n == 1:
		return one(p.p.PopMax(ctx))
	case end == Low:
		return several(p.p.PopMinN(ctx, n))
	default:
		return several(p.p.PopMaxN(ctx, n))
	}
}

// several returns what a verb for several values has returned.
func several(values []conq.Prioritized[string], err error) ([]Item, error) {
	var items []Item
	for _, v := range values {
		items = append(items, Item{v.Value, v.Priority})
	}
	return items, err
}

func (p priority) Peek(ctx context.Context, end End) (Item, error) {
	peek := p.p.PeekMin
	if end == High {
		peek = p.p.PeekMax
	}
	v, err := peek(ctx)
	return Item{v, Untold}, err
}

func (p priority) Len(ctx context.Context) (int, error) { return p.p.Len(ctx) }
