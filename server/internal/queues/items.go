package queues

import (
	"context"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
)

// Queue is a queue of any kind.
type Queue interface {
	Clear(context.Context) error
	Len(context.Context) (int, error)
}

// Queue returns the queue of a name and a kind, as FIFO does.
func (s *Set) Queue(ctx context.Context, name string, kind conq.Kind, m Mode) (q Queue, release func(), err error) {
	switch kind {
	case conq.KindQueue, conq.KindPriorityQueue:
		return s.Items(ctx, name, kind, m)
	case conq.KindWorkQueue:
		return s.Work(ctx, name, m)
	}
	return nil, nil, fmt.Errorf("%w: %q is a %s, which this server does not know", conq.ErrKind, name, kind)
}

// Item is an item of a queue, whose priority is 0, or of a priority queue.
type Item = conq.Prioritized[[]byte]

// End is where items are taken: of a priority queue the lowest priority first, or the highest. A queue has one end.
type End bool

const (
	Min End = false
	Max End = true
)

// Items is a queue or a priority queue. What ends with In is within a transaction.
type Items interface {
	Queue
	AddAll(context.Context, []Item) error
	AddAllIn(kv.Tx, []Item) error
	Take(ctx context.Context, from End, n int) ([]Item, error)
	TakeIn(tx kv.Tx, from End, n int) ([]Item, error)
	TakeWait(ctx context.Context, from End, n int) ([]Item, error)
	Page(ctx context.Context, from End, after []byte, n int) (page []Item, next []byte, err error)
	Reclaim(context.Context) error
}

// Items returns the queue or priority queue of a name, as FIFO does.
func (s *Set) Items(ctx context.Context, name string, kind conq.Kind, m Mode) (q Items, release func(), err error) {
	if kind == conq.KindPriorityQueue {
		q, release, err := s.Priority(ctx, name, m)
		return priorityItems{q}, release, err
	}
	fifo, release, err := s.FIFO(ctx, name, m)
	return fifoItems{fifo}, release, err
}

type fifoItems struct{ *FIFO }

func (q fifoItems) AddAll(ctx context.Context, all []Item) error {
	return q.EnqueueAll(ctx, values(all))
}
func (q fifoItems) AddAllIn(tx kv.Tx, all []Item) error { return q.In(tx).EnqueueAll(values(all)) }

func (q fifoItems) Take(ctx context.Context, _ End, n int) ([]Item, error) {
	return itemsOf(q.DequeueN(ctx, n))
}

func (q fifoItems) TakeIn(tx kv.Tx, _ End, n int) ([]Item, error) {
	return itemsOf(q.In(tx).DequeueN(n))
}

func (q fifoItems) TakeWait(ctx context.Context, _ End, n int) ([]Item, error) {
	return itemsOf(q.DequeueWaitN(ctx, n))
}

func (q fifoItems) Page(ctx context.Context, _ End, after []byte, n int) (page []Item, next []byte, err error) {
	values, next, err := q.FIFO.Page(ctx, after, n)
	page, err = itemsOf(values, err)
	return page, next, err
}

func values(all []Item) [][]byte {
	values := make([][]byte, len(all))
	for i, v := range all {
		values[i] = v.Value
	}
	return values
}

func itemsOf(values [][]byte, err error) ([]Item, error) {
	all := make([]Item, len(values))
	for i, v := range values {
		all[i].Value = v
	}
	return all, err
}

type priorityItems struct{ *Priority }

func (q priorityItems) AddAll(ctx context.Context, all []Item) error { return q.PushAll(ctx, all) }
func (q priorityItems) AddAllIn(tx kv.Tx, all []Item) error          { return q.In(tx).PushAll(all) }

func (q priorityItems) Take(ctx context.Context, from End, n int) ([]Item, error) {
	if from == Max {
		return q.PopMaxN(ctx, n)
	}
	return q.PopMinN(ctx, n)
}

func (q priorityItems) TakeIn(tx kv.Tx, from End, n int) ([]Item, error) {
	if from == Max {
		return q.In(tx).PopMaxN(n)
	}
	return q.In(tx).PopMinN(n)
}

func (q priorityItems) TakeWait(ctx context.Context, from End, n int) ([]Item, error) {
	if from == Max {
		return q.PopMaxWaitN(ctx, n)
	}
	return q.PopMinWaitN(ctx, n)
}

func (q priorityItems) Page(ctx context.Context, from End, after []byte, n int) (page []Item, next []byte, err error) {
	if from == Max {
		return q.PageMax(ctx, after, n)
	}
	return q.PageMin(ctx, after, n)
}
