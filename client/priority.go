package client

import (
	"context"
	"iter"

	"github.com/conq-go/conq/codec"
	"github.com/conq-go/conq/internal/wire"
)

// Prioritized is a value with its priority.
type Prioritized[T any] = codec.Prioritized[T]

// PriorityQueue is a priority queue of a server, with two ends. Its methods are those of conq.PriorityQueue, but for what the package says
// of connections that break. It is safe for concurrent use.
type PriorityQueue[T any] struct {
	*items[Prioritized[T]]
	codec codec.Codec[T]
}

// OpenPriorityQueue returns the priority queue of a name, as OpenQueue does.
func OpenPriorityQueue[T any](ctx context.Context, c *Client, name string, of codec.Codec[T]) (*PriorityQueue[T], error) {
	q, err := openItems(ctx, c, name, "priority queue", of, func(i wire.Item) (v Prioritized[T], err error) {
		if i.Priority != nil {
			v.Priority = *i.Priority
		}
		v.Value, err = decode(of, i.Bytes())
		return v, err
	}, wire.Min, wire.Max)
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

// PopMin removes the first item of the lowest priority and returns it, or an errs.ErrEmpty. If it does not decode, the error is a
// *DecodeError, which has it.
func (p *PriorityQueue[T]) PopMin(ctx context.Context) (T, error) { return value(p.PopMinN(ctx, 1)) }

// PopMax removes the last item of the highest priority, as PopMin does.
func (p *PriorityQueue[T]) PopMax(ctx context.Context) (T, error) { return value(p.PopMaxN(ctx, 1)) }

// PopMinN removes up to n items, those that PopMin would return one after another. Of items that do not decode the error has
// a *DecodeError each; the others are returned with it.
func (p *PriorityQueue[T]) PopMinN(ctx context.Context, n int) ([]Prioritized[T], error) {
	return p.take(ctx, wire.Min, n)
}

// PopMaxN is PopMinN from the other end.
func (p *PriorityQueue[T]) PopMaxN(ctx context.Context, n int) ([]Prioritized[T], error) {
	return p.take(ctx, wire.Max, n)
}

// PopMinWait is PopMin, but waits until there is an item, or ctx ends.
func (p *PriorityQueue[T]) PopMinWait(ctx context.Context) (T, error) {
	return value(p.PopMinWaitN(ctx, 1))
}

// PopMaxWait is PopMax, but waits until there is an item, or ctx ends.
func (p *PriorityQueue[T]) PopMaxWait(ctx context.Context) (T, error) {
	return value(p.PopMaxWaitN(ctx, 1))
}

// PopMinWaitN is PopMinN, but waits until there is at least one item, or ctx ends.
func (p *PriorityQueue[T]) PopMinWaitN(ctx context.Context, n int) ([]Prioritized[T], error) {
	return p.takeWait(ctx, wire.Min, n)
}

// PopMaxWaitN is PopMaxN, but waits until there is at least one item, or ctx ends.
func (p *PriorityQueue[T]) PopMaxWaitN(ctx context.Context, n int) ([]Prioritized[T], error) {
	return p.takeWait(ctx, wire.Max, n)
}

// PeekMin returns the item that PopMin would, and leaves it.
func (p *PriorityQueue[T]) PeekMin(ctx context.Context) (T, error) {
	v, err := p.peek(ctx, wire.Min)
	return v.Value, err
}

// PeekMax returns the item that PopMax would, and leaves it.
func (p *PriorityQueue[T]) PeekMax(ctx context.Context) (T, error) {
	v, err := p.peek(ctx, wire.Max)
	return v.Value, err
}

// PageMin returns up to n items, at most 1000, and leaves them, the lowest priority first; see Queue.Page.
func (p *PriorityQueue[T]) PageMin(ctx context.Context, after []byte, n int) (page []Prioritized[T], next []byte, err error) {
	return p.page(ctx, wire.Min, after, n)
}

// PageMax is PageMin from the other end.
func (p *PriorityQueue[T]) PageMax(ctx context.Context, after []byte, n int) (page []Prioritized[T], next []byte, err error) {
	return p.page(ctx, wire.Max, after, n)
}

// All returns the items in the order of PopMin and leaves them; see Queue.All.
func (p *PriorityQueue[T]) All(ctx context.Context) iter.Seq2[Prioritized[T], error] {
	return p.all(ctx, wire.Min)
}

// value returns the only value.
func value[T any](all []Prioritized[T], err error) (T, error) {
	v, err := first(all, err)
	return v.Value, err
}
