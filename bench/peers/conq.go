package main

import (
	"context"
	"errors"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
)

func conqSystems() (all []system) {
	for _, kind := range []string{"queue", "priority"} {
		for _, d := range []embedded.Durability{embedded.Always, embedded.Interval, embedded.Memory} {
			s := system{name: "conq-" + kind + "/" + d.String(), order: fifo, waits: true, hands: true}
			s.class, s.crash, s.outage = promiseOf(d)
			s.open = func(_ context.Context, e env) (peer, error) { return openConqQueue(e.dir, d) }
			if kind == "priority" {
				s.priority, s.order = true, byPriorityFIFO
				s.open = func(_ context.Context, e env) (peer, error) { return openConqPriority(e.dir, d) }
			}
			all = append(all, s)
		}
	}
	return all
}

// promiseOf returns what a durability of the embedded store promises.
func promiseOf(d embedded.Durability) (c class, crash, outage string) {
	switch d {
	case embedded.Always:
		return power, nothing, nothing
	case embedded.Interval:
		return process, nothing, any10ms
	}
	return none, "the latest", "the latest"
}

// conqQueue is conq's queue through one handle that all share.
type conqQueue struct {
	inProcess
	db kv.DB
	q  *conq.Queue[[]byte]
}

func openConqQueue(dir string, d embedded.Durability) (*conqQueue, error) {
	db, err := embedded.Open(context.Background(), dir, embedded.Options{Durability: d})
	if err != nil {
		return nil, err
	}
	q, err := conq.OpenQueue(context.Background(), db, "queue", conq.Bytes())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &conqQueue{db: db, q: q}, nil
}

func (c *conqQueue) client(context.Context) (client, error) { return conqQueueClient{q: c.q}, nil }
func (c *conqQueue) close() error                           { return c.db.Close() }

type conqQueueClient struct {
	shared
	q *conq.Queue[[]byte]
}

func (c conqQueueClient) put(ctx context.Context, value []byte, _ int) error {
	return c.q.Enqueue(ctx, value)
}

func (c conqQueueClient) take(ctx context.Context, wait bool) ([]byte, error) {
	if wait {
		return c.q.DequeueWait(ctx)
	}
	return orEmpty(c.q.Dequeue(ctx))
}

func orEmpty(value []byte, err error) ([]byte, error) {
	if errors.Is(err, conq.ErrEmpty) {
		return nil, errEmpty
	}
	return value, err
}

// conqPriority is the same for a priority queue.
type conqPriority struct {
	inProcess
	db kv.DB
	q  *conq.PriorityQueue[[]byte]
}

func openConqPriority(dir string, d embedded.Durability) (*conqPriority, error) {
	db, err := embedded.Open(context.Background(), dir, embedded.Options{Durability: d})
	if err != nil {
		return nil, err
	}
	q, err := conq.OpenPriorityQueue(context.Background(), db, "priority", conq.Bytes())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &conqPriority{db: db, q: q}, nil
}

func (c *conqPriority) client(context.Context) (client, error) {
	return conqPriorityClient{q: c.q}, nil
}
func (c *conqPriority) close() error { return c.db.Close() }

type conqPriorityClient struct {
	shared
	q *conq.PriorityQueue[[]byte]
}

func (c conqPriorityClient) put(ctx context.Context, value []byte, priority int) error {
	return c.q.Push(ctx, value, int64(priority))
}

func (c conqPriorityClient) take(ctx context.Context, wait bool) ([]byte, error) {
	if wait {
		return c.q.PopWait(ctx, conq.Min)
	}
	return orEmpty(c.q.PopMin(ctx))
}
