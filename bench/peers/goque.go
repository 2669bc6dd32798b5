package main

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/beeker1121/goque"
)

// goque writes through LevelDB, which gives each write to the operating system
// before it returns, and is never told to sync.
func goqueSystems() []system {
	s := system{class: process, crash: nothing, outage: "all not flushed yet"}
	queue, priority := s, s
	queue.name, queue.order, queue.open = "goque-queue", fifo, openGoqueQueue
	priority.name, priority.priority, priority.order, priority.open = "goque-priority", true, byPriorityFIFO, openGoquePriority
	return []system{queue, priority}
}

type goqueQueue struct {
	inProcess
	q *goque.Queue
}

func openGoqueQueue(_ context.Context, e env) (peer, error) {
	q, err := goque.OpenQueue(e.dir)
	return &goqueQueue{q: q}, err
}

func (g *goqueQueue) client(context.Context) (client, error) { return goqueQueueClient{q: g.q}, nil }
func (g *goqueQueue) close() error                           { return g.q.Close() }

type goqueQueueClient struct {
	shared
	q *goque.Queue
}

func (c goqueQueueClient) put(_ context.Context, value []byte, _ int) error {
	_, err := c.q.Enqueue(value)
	return err
}

func (c goqueQueueClient) take(context.Context, bool) ([]byte, error) {
	item, err := c.q.Dequeue()
	if err != nil {
		return nil, goqueError(err)
	}
	return item.Value, nil
}

func goqueError(err error) error {
	if errors.Is(err, goque.ErrEmpty) {
		return errEmpty
	}
	return err
}

type goquePriority struct {
	inProcess
	q *goque.PriorityQueue
}

func openGoquePriority(_ context.Context, e env) (peer, error) {
	if e.priorities > math.MaxUint8+1 {
		return nil, fmt.Errorf("%d priorities: goque has at most %d", e.priorities, math.MaxUint8+1)
	}
	q, err := goque.OpenPriorityQueue(e.dir, goque.ASC)
	return &goquePriority{q: q}, err
}

func (g *goquePriority) client(context.Context) (client, error) {
	return goquePriorityClient{q: g.q}, nil
}
func (g *goquePriority) close() error { return g.q.Close() }

type goquePriorityClient struct {
	shared
	q *goque.PriorityQueue
}

func (c goquePriorityClient) put(_ context.Context, value []byte, priority int) error {
	_, err := c.q.Enqueue(uint8(priority), value)
	return err
}

func (c goquePriorityClient) take(context.Context, bool) ([]byte, error) {
	item, err := c.q.Dequeue()
	if err != nil {
		return nil, goqueError(err)
	}
	return item.Value, nil
}
