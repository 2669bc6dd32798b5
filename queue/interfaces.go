package queue

import (
	"context"
	"iter"
)

// FIFO is a queue of a store or of a server. What its methods do, conq.Queue says, and package client what differs over
// a network.
type FIFO[T any] interface {
	Name() string
	Enqueue(ctx context.Context, v T) error
	EnqueueAll(ctx context.Context, values []T) error
	Dequeue(ctx context.Context) (T, error)
	DequeueN(ctx context.Context, n int) ([]T, error)
	DequeueWait(ctx context.Context) (T, error)
	DequeueWaitN(ctx context.Context, n int) ([]T, error)
	Peek(ctx context.Context) (T, error)
	Page(ctx context.Context, after []byte, n int) (values []T, next []byte, err error)
	All(ctx context.Context) iter.Seq2[T, error]
	Len(ctx context.Context) (int, error)
	Clear(ctx context.Context) error
	Close() error
}

// Priority is a priority queue of a store or of a server. What its methods do, conq.PriorityQueue says, and package client
// what differs over a network.
type Priority[T any] interface {
	Name() string
	Push(ctx context.Context, v T, priority int64) error
	PushAll(ctx context.Context, values []Prioritized[T]) error
	PopMin(ctx context.Context) (T, error)
	PopMax(ctx context.Context) (T, error)
	Pop(ctx context.Context, from End) (T, error)
	PopN(ctx context.Context, from End, n int) ([]Prioritized[T], error)
	PopWait(ctx context.Context, from End) (T, error)
	PopWaitN(ctx context.Context, from End, n int) ([]Prioritized[T], error)
	Peek(ctx context.Context, at End) (T, error)
	Page(ctx context.Context, from End, after []byte, n int) (values []Prioritized[T], next []byte, err error)
	All(ctx context.Context) iter.Seq2[Prioritized[T], error]
	Len(ctx context.Context) (int, error)
	Clear(ctx context.Context) error
	Close() error
}
