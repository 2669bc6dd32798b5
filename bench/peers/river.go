package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
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
	env      env
	inserter *river.Client[pgx.Tx]

	mu     sync.Mutex
	worker *river.Client[pgx.Tx] // nil if it does not run
	events <-chan *river.Event
}

func openRiver(ctx context.Context, e env) (peer, error) {
	s, err := startPostgres(ctx, e, e.producers+e.consumers+10) // River has its own connections too
	if err != nil {
		return nil, err
	}
	r := &riverPeer{postgresServer: s, env: e}
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

// begin implements phaser. Workers run from the beginning of a transfer. In a
// drain they start with the first take, so that none begins before the clock does.
func (r *riverPeer) begin(ctx context.Context, phase string) error {
	if err := r.rest(ctx); err != nil {
		return err
	}
	if phase == "fill" || phase == "drain" {
		return nil
	}
	_, err := r.work()
	return err
}

// work has workers run, and returns where they tell what they have done.
func (r *riverPeer) work() (<-chan *river.Event, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.worker != nil {
		return r.events, nil
	}
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, riverWorker{}); err != nil {
		return nil, err
	}
	w, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers,
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
	r.worker, r.events = w, events
	return events, nil
}

// rest stops the workers.
func (r *riverPeer) rest(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.worker
	if r.worker = nil; w == nil {
		return nil
	}
	return w.Stop(ctx)
}

func (r *riverPeer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopping)
	defer cancel()
	return errors.Join(r.rest(ctx), r.postgresServer.close())
}

func (r *riverPeer) client(context.Context) (client, error) { return riverClient{r: r}, nil }

type riverClient struct {
	shared
	r *riverPeer
}

func (c riverClient) put(ctx context.Context, value []byte, _ int) error {
	_, err := c.r.inserter.Insert(ctx, riverArgs{value}, nil)
	return err
}

func (c riverClient) take(ctx context.Context, _ bool) ([]byte, error) {
	events, err := c.r.work()
	if err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case event, ok := <-events:
		if !ok {
			return nil, errors.New("River has stopped")
		}
		var args riverArgs
		err := json.Unmarshal(event.Job.EncodedArgs, &args)
		return args.Value, err
	}
}
