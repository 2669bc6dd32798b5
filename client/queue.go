package client

import (
	"context"
	"iter"

	"github.com/conq-go/conq/internal/wire"
	"github.com/conq-go/conq/queue"
)

// Queue is a queue of a server, made by OpenQueue: first in, first out. Its methods are those of conq.Queue, but for what the package says of
// connections that break. It is safe for concurrent use.
type Queue[T any] struct {
	*items[T]
	codec queue.Codec[T]
}

// OpenQueue returns the queue of a name, and makes it if there is none. The error is a queue.ErrKind if the name is of a
// queue of another kind.
func OpenQueue[T any](ctx context.Context, c *Client, name string, of queue.Codec[T]) (*Queue[T], error) {
	q, err := openItems(ctx, c, name, "queue", of, func(i wire.Item) (T, error) { return decode(of, i.Bytes()) }, queue.Min)
	return &Queue[T]{q, of}, err
}

// Enqueue adds v at the end.
func (q *Queue[T]) Enqueue(ctx context.Context, v T) error { return q.EnqueueAll(ctx, []T{v}) }

// EnqueueAll adds up to 10,000 values at the end, in order, in one transaction.
func (q *Queue[T]) EnqueueAll(ctx context.Context, values []T) error {
	all := make([]wire.Item, len(values))
	for i, v := range values {
		payload, err := encode(q.codec, v)
		if err != nil {
			return err
		}
		all[i].Payload = wire.Base64(payload)
	}
	return q.add(ctx, all)
}

// Dequeue removes the first item and returns it, or a queue.ErrEmpty. If it does not decode, the error is a *DecodeError, which has it.
func (q *Queue[T]) Dequeue(ctx context.Context) (T, error) { return first(q.DequeueN(ctx, 1)) }

// DequeueN removes up to n items from the start and returns them in order, or a queue.ErrEmpty. Of items that do not decode
// the error has a *DecodeError each; the others are returned with it.
func (q *Queue[T]) DequeueN(ctx context.Context, n int) ([]T, error) {
	return q.take(ctx, queue.Min, n)
}

// DequeueWait is Dequeue, but waits until there is an item, or ctx ends.
func (q *Queue[T]) DequeueWait(ctx context.Context) (T, error) { return first(q.DequeueWaitN(ctx, 1)) }

// DequeueWaitN is DequeueN, but waits until there is at least one item, or ctx ends.
func (q *Queue[T]) DequeueWaitN(ctx context.Context, n int) ([]T, error) {
	return q.takeWait(ctx, queue.Min, n)
}

// Peek returns the first item and leaves it, or returns a queue.ErrEmpty.
func (q *Queue[T]) Peek(ctx context.Context) (T, error) { return q.peek(ctx, queue.Min) }

// Page returns up to n items, at most 1000, and leaves them: the first ones, or those behind where next of another page was. next is
// nil at the end.
func (q *Queue[T]) Page(ctx context.Context, after []byte, n int) (page []T, next []byte, err error) {
	return q.page(ctx, queue.Min, after, n)
}

// All returns the items in order and leaves them, a page at a time. The loop ends after the first error.
func (q *Queue[T]) All(ctx context.Context) iter.Seq2[T, error] { return q.all(ctx, queue.Min) }

// first returns the only value.
func first[V any](all []V, err error) (v V, _ error) {
	if len(all) > 0 {
		v = all[0]
	}
	return v, err
}
