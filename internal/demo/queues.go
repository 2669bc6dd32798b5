package demo

import (
	"context"
	"errors"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/audit"
	"github.com/conq-go/conq/kv"
)

// Names of the queues that are worked on.
const (
	fifoName     = "conq demo: queue"
	priorityName = "conq demo: priority queue"
)

// queue is what a phase works on.
type queue interface {
	Name() string
	Close() error
	Len(context.Context) (int, error)
	put(ctx context.Context, payload []byte, priority int64) error
	// take takes from an end, or fails with conq.ErrEmpty.
	take(ctx context.Context, from audit.End) ([]byte, error)
	// takeSome takes the first items from the front, or fails with conq.ErrEmpty.
	takeSome(ctx context.Context) ([][]byte, error)
	// verbs are the names of put and take.
	verbs() (put, take string)
	// priorities is how many different ones are in use.
	priorities() int64
}

// some is how many items takeSome takes at most.
const some = 1000

type fifo struct{ *conq.Queue[[]byte] }

func openFIFO(db kv.DB) (queue, error) {
	q, err := conq.OpenQueue(db, fifoName, conq.Bytes())
	return fifo{q}, err
}

func (q fifo) put(ctx context.Context, payload []byte, _ int64) error { return q.Enqueue(ctx, payload) }

func (q fifo) take(ctx context.Context, _ audit.End) ([]byte, error) { return q.Dequeue(ctx) }

func (q fifo) takeSome(ctx context.Context) ([][]byte, error) { return q.DequeueN(ctx, some) }

func (q fifo) verbs() (put, take string) { return "enqueue", "dequeue" }

func (q fifo) priorities() int64 { return 1 }

type priorityQueue struct{ *conq.PriorityQueue[[]byte] }

func openPriority(db kv.DB) (queue, error) {
	p, err := conq.OpenPriorityQueue(db, priorityName, conq.Bytes())
	return priorityQueue{p}, err
}

func (p priorityQueue) put(ctx context.Context, payload []byte, priority int64) error {
	return p.Push(ctx, payload, priority)
}

func (p priorityQueue) take(ctx context.Context, from audit.End) ([]byte, error) {
	if from == audit.Back {
		return p.PopMax(ctx)
	}
	return p.PopMin(ctx)
}

func (p priorityQueue) takeSome(ctx context.Context) ([][]byte, error) {
	items, err := p.PopMinN(ctx, some)
	payloads := make([][]byte, len(items))
	for i, it := range items {
		payloads[i] = it.Value
	}
	return payloads, err
}

func (p priorityQueue) verbs() (put, take string) { return "push", "pop" }

func (p priorityQueue) priorities() int64 { return 9 }

func isEmpty(err error) bool { return errors.Is(err, conq.ErrEmpty) }
