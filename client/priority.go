package client

import (
	"context"
	"iter"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/queue"
)

// Prioritized is a value with its priority.
type Prioritized[T any] = queue.Prioritized[T]

// PriorityQueue is a priority queue of a server, with two ends. Its methods are those of conq.PriorityQueue, but for what the package says
// of connections that break. It is safe for concurrent use.
type PriorityQueue[T any] struct {
	*items[Prioritized[T]]
	codec queue.Codec[T]
}

// OpenPriorityQueue returns the priority queue of a name, as OpenQueue does.
func OpenPriorityQueue[T any](ctx context.Context, c *Client, name string, of queue.Codec[T]) (*PriorityQueue[T], error) {
	q, err := openItems(ctx, c, name, "priority queue", of, func(i wire.Item) (v Prioritized[T], err error) {
		if i.Priority != nil {
			v.Priority = *i.Priority
		}
		v.Value, err = decode(of, i.Bytes())
		return v, err
	}, queue.Min, queue.Max)
	return &PriorityQueue[T]{q, of}, err
}

// Push adds v behind the items of its priority.
func (p *PriorityQueue[T]) Push(ctx context.Context, v T, priority int64) error {
	return p.PushAll(ctx, []Prioritized[T]{{Value: v, Priority: priority}})
}

// PushAll adds up to 10,000 values in one transaction.
func (p *PriorityQueue[T]) PushAll(ctx context.Context, values []Prioritized[T]) error {
	all := make([]wire.Item, len(values))
	for i, v := range values {
		payload, err := encode(p.codec, v.Value)
		if err != nil {
			return err
		}
		all[i] = wire.Item{Payload: wire.Base64(payload), Priority: &v.Priority}
	}
	return p.add(ctx, all)
}

// PopMin removes the first item of the lowest priority and returns it, or a queue.ErrEmpty. If it does not decode, the error is a
// *DecodeError, which has it.
func (p *PriorityQueue[T]) PopMin(ctx context.Context) (T, error) { return p.Pop(ctx, queue.Min) }

// PopMax removes the last item of the highest priority, as PopMin does.
func (p *PriorityQueue[T]) PopMax(ctx context.Context) (T, error) { return p.Pop(ctx, queue.Max) }

// Pop is PopMin or PopMax, by the end that it is given.
func (p *PriorityQueue[T]) Pop(ctx context.Context, from queue.End) (T, error) {
	return value(p.PopN(ctx, from, 1))
}

// PopN removes up to n items from an end, those that Pop would return one after another. Of items that do not decode the
// error has a *DecodeError each; the others are returned with it.
func (p *PriorityQueue[T]) PopN(ctx context.Context, from queue.End, n int) ([]Prioritized[T], error) {
	return p.take(ctx, from, n)
}

// PopWait is Pop, but waits until there is an item, or ctx ends.
func (p *PriorityQueue[T]) PopWait(ctx context.Context, from queue.End) (T, error) {
	return value(p.PopWaitN(ctx, from, 1))
}

// PopWaitN is PopN, but waits until there is at least one item, or ctx ends.
func (p *PriorityQueue[T]) PopWaitN(ctx context.Context, from queue.End, n int) ([]Prioritized[T], error) {
	return p.takeWait(ctx, from, n)
}

// Peek returns the item that Pop would, and leaves it.
func (p *PriorityQueue[T]) Peek(ctx context.Context, at queue.End) (T, error) {
	v, err := p.peek(ctx, at)
	return v.Value, err
}

// Page returns up to n items, at most 1000, and leaves them, from the lowest priority up or from the highest down; see
// Queue.Page.
func (p *PriorityQueue[T]) Page(ctx context.Context, from queue.End, after []byte, n int) (page []Prioritized[T], next []byte, err error) {
	return p.page(ctx, from, after, n)
}

// All returns the items in the order of PopMin and leaves them; see Queue.All.
func (p *PriorityQueue[T]) All(ctx context.Context) iter.Seq2[Prioritized[T], error] {
	return p.all(ctx, queue.Min)
}

// value returns the only value.
func value[T any](all []Prioritized[T], err error) (T, error) {
	v, err := first(all, err)
	return v.Value, err
}
