package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

func riverSystems() []system {
	return []system{{
		name: "river", class: power, crash: nothing, outage: nothing, waits: true, missing: missingPostgres, open: openRiver,
	}}
}

// riverPeer is River on PostgreSQL. It has workers of its own, as many as there are
// consumers: an item is taken when River says that its job is complete, which is
// when that has been committed.
type riverPeer struct {
	*postgresServer
	*workers
	env      env
	inserter *river.Client[pgx.Tx]
}

func openRiver(ctx context.Context, e env) (peer, error) {
	s, err := startPostgres(ctx, e, e.producers+e.consumers+10) // River has its own connections too
	if err != nil {
		return nil, err
	}
	r := &riverPeer{postgresServer: s, env: e}
	r.workers = &workers{start: r.start, items: e.items}
	if err := r.prepare(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return r, nil
}

func (r *riverPeer) prepare(ctx context.Context) error {
	driver := riverpgxv5.New(r.pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	r.inserter, err = river.NewClient(driver, &river.Config{Logger: slog.New(slog.DiscardHandler)})
	return err
}

type riverArgs struct {
	Value []byte `json:"value"`
}

// Kind implements river.JobArgs.
func (riverArgs) Kind() string { return "item" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
}

// Work implements river.Worker.
func (riverWorker) Work(context.Context, *river.Job[riverArgs]) error { return nil }

func (r *riverPeer) start(values chan<- []byte) (stop func(context.Context) error, err error) {
	all := river.NewWorkers()
	if err := river.AddWorkerSafely(all, riverWorker{}); err != nil {
		return nil, err
	}
	w, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: all,
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.env.consumers}},
		FetchCooldown:     river.FetchCooldownMin, // with the default it works ten times a second
		FetchPollInterval: 10 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	events, _ := w.SubscribeConfig(&river.SubscribeConfig{
		ChanSize: r.env.items + 1, Kinds: []river.EventKind{river.EventKindJobCompleted},
	})
	if err := w.Start(context.Background()); err != nil { // until it is stopped
		return nil, err
	}
	go func() {
		defer close(values)
		for event := range events {
			var args riverArgs
			_ = json.Unmarshal(event.Job.EncodedArgs, &args) // what went wrong is not what went in
			values <- args.Value
		}
	}()
	return w.Stop, nil
}

func (r *riverPeer) close() error { return errors.Join(r.workers.close(), r.postgresServer.close()) }

func (r *riverPeer) client(context.Context) (client, error) { return riverClient{r: r}, nil }

type riverClient struct {
	shared
	r *riverPeer
}

func (c riverClient) put(ctx context.Context, value []byte, _ int) error {
	_, err := c.r.inserter.Insert(ctx, riverArgs{value}, nil)
	return err
}

func (c riverClient) take(ctx context.Context, _ bool) ([]byte, error) { return c.r.take(ctx) }
