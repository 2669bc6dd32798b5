package queues

import (
	"context"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/handle"
)

// Queue is a queue of any kind.
type Queue interface {
	Clear(context.Context) error
	Len(context.Context) (int, error)
}

// Queue returns the queue of a name and a kind, as Items does.
func (s *Set) Queue(ctx context.Context, name string, kind conq.Kind, m Mode) (q Queue, release func(), err error) {
	switch kind {
	case conq.KindQueue, conq.KindPriorityQueue:
		return s.Items(ctx, name, kind, m)
	case conq.KindWorkQueue:
		return s.Work(ctx, name, m)
	}
	return nil, nil, fmt.Errorf("%w: %q is a %s, which this server does not know", conq.ErrKind, name, kind)
}

// Items is a queue or a priority queue.
type Items = handle.Handle

// Item is an item of one.
type Item = handle.Item

// Items returns the queue or priority queue of a name, which the caller uses until it calls release, once. The error is a
// conq.ErrNoQueue if there is none and the mode is Existing, a conq.ErrKind if it is of another kind, a
// conq.ErrName, or ErrTooMany.
func (s *Set) Items(ctx context.Context, name string, kind conq.Kind, m Mode) (q *Items, release func(), err error) {
	return use(ctx, s, name, m, kind, func() (*Items, error) {
		return handle.Open(ctx, s.db, name, kind, nil, handle.Options{Observe: s.observe()})
	})
}

// observe returns what handles of items tell of themselves, or nil if nobody wants to know.
func (s *Set) observe() func(handle.Event) {
	told := s.options.Observe
	if told == nil {
		return nil
	}
	return func(e handle.Event) {
		told(conq.Event{Queue: e.Queue, Kind: conq.EventKind(e.Kind), Calls: e.Calls, Items: e.Items, Attempts: e.Attempts})
	}
}
