package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hibiken/asynq"
)

// asynqPeer is asynq on Redis. It has workers of its own, as many as there are consumers. It does not tell when it has
// written that a job is done: an item is taken when its handler is called, so the last job of each worker counts too early.
type asynqPeer struct {
	*server
	*workers
	c *asynq.Client
}

func openAsynq(ctx context.Context, e env, sync string) (peer, error) {
	s, err := startRedis(ctx, e, sync)
	if err != nil {
		return nil, err
	}
	at := asynq.RedisClientOpt{Addr: s.addr, PoolSize: e.producers + e.consumers + 10}
	start := func(values chan<- []byte) (func(context.Context) error, error) {
		w := asynq.NewServer(at, asynq.Config{
			Concurrency: e.consumers, LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond, // of an empty queue
		})
		err := w.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
			values <- slices.Clone(t.Payload())
			return nil
		}))
		return func(context.Context) error {
			w.Shutdown()
			return nil
		}, err
	}
	return &asynqPeer{server: s, workers: &workers{start: start, items: e.items}, c: asynq.NewClient(at)}, nil
}

func (a *asynqPeer) close() error {
	return errors.Join(a.workers.close(), a.c.Close(), a.server.close())
}

func (a *asynqPeer) client(context.Context) (client, error) { return asynqClient{a: a}, nil }

type asynqClient struct {
	shared
	a *asynqPeer
}

func (c asynqClient) put(ctx context.Context, value []byte, _ int) error {
	_, err := c.a.c.EnqueueContext(ctx, asynq.NewTask("item", value))
	return err
}

func (c asynqClient) take(ctx context.Context, _ bool) ([]byte, error) { return c.a.take(ctx) }
