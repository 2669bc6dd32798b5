package queues

import (
	"context"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/anyqueue"
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

// A queue or priority queue, its items, and its ends.
type (
	Items = anyqueue.Stored
	Item  = anyqueue.Item
	End   = anyqueue.End
)

const (
	Min = anyqueue.Min
	Max = anyqueue.Max
)

// Items returns the queue or priority queue of a name, as FIFO does.
func (s *Set) Items(ctx context.Context, name string, kind conq.Kind, m Mode) (q Items, release func(), err error) {
	if kind == conq.KindPriorityQueue {
		q, release, err := s.Priority(ctx, name, m)
		return anyqueue.StoredPriority(q), release, err
	}
	fifo, release, err := s.FIFO(ctx, name, m)
	return anyqueue.StoredFIFO(fifo), release, err
}
