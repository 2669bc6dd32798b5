// Package anyqueue has queues and priority queues of bytes behind one interface, for callers that do the same to both, in a
// store or over a server. An item of a queue has priority 0, and a queue has one end.
package anyqueue

import (
	"context"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Item is an item of a queue or a priority queue.
type Item = conq.Prioritized[[]byte]

// End is where items are taken: of a priority queue the lowest priority first, or the highest.
type End = queue.End

const (
	Min = queue.Min
	Max = queue.Max
)

// Queue is a queue or a priority queue. Its methods are those of conq.Queue.
type Queue interface {
	common
	AddAll(context.Context, []Item) error
	Take(ctx context.Context, from End, n int) ([]Item, error)
	TakeWait(ctx context.Context, from End, n int) ([]Item, error)
	Page(ctx context.Context, from End, after []byte, n int) (page []Item, next []byte, err error)
}

// common is what both kinds have under the same names.
type common interface {
	Name() string
	Len(context.Context) (int, error)
	Clear(context.Context) error
	Close() error
}

// FIFO is a queue of a store or a server.
type FIFO interface {
	common
	EnqueueAll(context.Context, [][]byte) error
	DequeueN(ctx context.Context, n int) ([][]byte, error)
	DequeueWaitN(ctx context.Context, n int) ([][]byte, error)
	Page(ctx context.Context, after []byte, n int) (page [][]byte, next []byte, err error)
}

// Priority is a priority queue of a store or a server.
type Priority interface {
	common
	PushAll(context.Context, []Item) error
	PopN(ctx context.Context, from End, n int) ([]Item, error)
	PopWaitN(ctx context.Context, from End, n int) ([]Item, error)
	Page(ctx context.Context, from End, after []byte, n int) (page []Item, next []byte, err error)
}

// OfFIFO returns a queue as a Queue.
func OfFIFO(q FIFO) Queue { return fifo{q} }

// OfPriority returns a priority queue as a Queue.
func OfPriority(q Priority) Queue { return priority{q} }

type fifo struct{ FIFO }

func (q fifo) AddAll(ctx context.Context, all []Item) error { return q.EnqueueAll(ctx, values(all)) }

func (q fifo) Take(ctx context.Context, _ End, n int) ([]Item, error) {
	return items(q.DequeueN(ctx, n))
}

func (q fifo) TakeWait(ctx context.Context, _ End, n int) ([]Item, error) {
	return items(q.DequeueWaitN(ctx, n))
}

func (q fifo) Page(ctx context.Context, _ End, after []byte, n int) (page []Item, next []byte, err error) {
	values, next, err := q.FIFO.Page(ctx, after, n)
	page, err = items(values, err)
	return page, next, err
}

func values(all []Item) [][]byte {
	values := make([][]byte, len(all))
	for i, v := range all {
		values[i] = v.Value
	}
	return values
}

func items(values [][]byte, err error) ([]Item, error) {
	all := make([]Item, len(values))
	for i, v := range values {
		all[i].Value = v
	}
	return all, err
}

type priority struct{ Priority }

func (q priority) AddAll(ctx context.Context, all []Item) error { return q.PushAll(ctx, all) }

func (q priority) Take(ctx context.Context, from End, n int) ([]Item, error) {
	return q.PopN(ctx, from, n)
}

func (q priority) TakeWait(ctx context.Context, from End, n int) ([]Item, error) {
	return q.PopWaitN(ctx, from, n)
}

// Stored is a queue of a store. What ends with In is within a transaction, as Transact runs one: see conq.Transact.
type Stored interface {
	Queue
	Transact(context.Context, func(kv.Tx) (int, error)) (int, error)
	AddAllIn(kv.Tx, []Item) error
	TakeIn(tx kv.Tx, from End, n int) ([]Item, error)
	Reclaim(context.Context) error
}

// Open opens a queue of a store.
func Open(ctx context.Context, db kv.DB, kind conq.Kind, name string, codec conq.Codec[[]byte], o ...conq.Options) (Stored, error) {
	switch kind {
	case conq.KindQueue:
		q, err := conq.OpenQueue(ctx, db, name, codec, o...)
		return StoredFIFO(q), err
	case conq.KindPriorityQueue:
		q, err := conq.OpenPriorityQueue(ctx, db, name, codec, o...)
		return StoredPriority(q), err
	}
	return nil, fmt.Errorf("%w: %q is a %q, which this version does not know", conq.ErrFormat, name, kind)
}

// StoredFIFO returns a queue as a Stored.
func StoredFIFO(q *conq.Queue[[]byte]) Stored { return storedFIFO{fifo{q}, q} }

type storedFIFO struct {
	fifo
	q *conq.Queue[[]byte]
}

func (s storedFIFO) AddAllIn(tx kv.Tx, all []Item) error { return s.q.In(tx).EnqueueAll(values(all)) }

func (s storedFIFO) TakeIn(tx kv.Tx, _ End, n int) ([]Item, error) {
	return items(s.q.In(tx).DequeueN(n))
}

func (s storedFIFO) Transact(ctx context.Context, f func(kv.Tx) (int, error)) (int, error) {
	return conq.Transact(ctx, s.q, f)
}

func (s storedFIFO) Reclaim(ctx context.Context) error { return s.q.Reclaim(ctx) }

// StoredPriority returns a priority queue as a Stored.
func StoredPriority(q *conq.PriorityQueue[[]byte]) Stored { return storedPriority{priority{q}, q} }

type storedPriority struct {
	priority
	q *conq.PriorityQueue[[]byte]
}

func (s storedPriority) AddAllIn(tx kv.Tx, all []Item) error { return s.q.In(tx).PushAll(all) }

func (s storedPriority) TakeIn(tx kv.Tx, from End, n int) ([]Item, error) {
	return s.q.In(tx).PopN(from, n)
}

func (s storedPriority) Transact(ctx context.Context, f func(kv.Tx) (int, error)) (int, error) {
	return conq.Transact(ctx, s.q, f)
}

func (s storedPriority) Reclaim(ctx context.Context) error { return s.q.Reclaim(ctx) }
