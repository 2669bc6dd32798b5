package main

import (
	"context"
	"errors"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// conqWorkSystems are conq's work queue, whose jobs each client reserves and acknowledges itself, or work.Run does.
func conqWorkSystems() (all []system) {
	for _, d := range []embedded.Durability{embedded.Always, embedded.Interval} {
		s := system{name: "conq-work/" + d.String(), order: fifo, waits: true}
		s.class, s.crash, s.outage = promiseOf(d)
		s.open = func(_ context.Context, e env) (peer, error) { return asPeer(openConqWork(e.dir, d)) }
		run := s
		run.name, run.order = "conq-work-run/"+d.String(), unordered
		run.open = func(_ context.Context, e env) (peer, error) { return asPeer(openConqRun(e, d)) }
		all = append(all, s, run)
	}
	return all
}

// asPeer keeps a nil pointer from becoming a peer.
func asPeer[P peer](p P, err error) (peer, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// conqWork is a work queue through one handle that all share.
type conqWork struct {
	inProcess
	db kv.DB
	q  *work.Queue[[]byte]
}

func openConqWork(dir string, d embedded.Durability) (*conqWork, error) {
	db, err := embedded.Open(context.Background(), dir, embedded.Options{Durability: d})
	if err != nil {
		return nil, err
	}
	q, err := work.Open(context.Background(), db, "jobs", queue.Bytes(), work.Options{})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &conqWork{db: db, q: q}, nil
}

func (c *conqWork) client(context.Context) (client, error) { return conqWorkClient{q: c.q}, nil }
func (c *conqWork) close() error                           { return errors.Join(c.q.Close(), c.db.Close()) }

type conqWorkClient struct {
	shared
	q *work.Queue[[]byte]
}

func (c conqWorkClient) put(ctx context.Context, value []byte, _ int) error {
	_, err := c.q.Put(ctx, value)
	return err
}

func (c conqWorkClient) take(ctx context.Context, _ bool) ([]byte, error) {
	l, err := c.q.ReserveWait(ctx) // as a worker does, also if it knows that there is one
	if err != nil {
		return nil, err
	}
	return l.Value, l.Ack(ctx)
}

// conqRun is the same with work.Run, which has as many workers as there are consumers. An item is taken when its handler is
// called, as that of other peers with workers of their own.
type conqRun struct {
	*conqWork
	*workers
}

func openConqRun(e env, d embedded.Durability) (*conqRun, error) {
	c, err := openConqWork(e.dir, d)
	if err != nil {
		return nil, err
	}
	start := func(values chan<- []byte) (func(context.Context) error, error) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			defer close(values)
			ended <- work.Run(ctx, c.q, func(_ context.Context, l *work.Lease[[]byte]) error {
				values <- l.Value
				return nil
			}, work.RunOptions{Workers: e.consumers})
		}()
		return func(context.Context) error {
			cancel()
			return <-ended
		}, nil
	}
	return &conqRun{c, &workers{start: start, items: e.items}}, nil
}

func (c *conqRun) close() error { return errors.Join(c.workers.close(), c.conqWork.close()) }

func (c *conqRun) client(context.Context) (client, error) {
	return conqRunClient{conqWorkClient{q: c.q}, c.workers}, nil
}

type conqRunClient struct {
	conqWorkClient
	w *workers
}

func (c conqRunClient) take(ctx context.Context, _ bool) ([]byte, error) { return c.w.take(ctx) }
