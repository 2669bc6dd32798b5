package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/work"
)

// workVerbs are verbs of a work queue, of a store or a server.
type workVerbs interface {
	work.Source[string]
	Put(context.Context, string, ...work.Job) (work.ID, error)
	Reserve(context.Context, ...work.ReserveOptions) (*work.Lease[string], error)
	ReserveWait(context.Context, ...work.ReserveOptions) (*work.Lease[string], error)
	Get(context.Context, work.ID) (*work.Info[string], error)
	Page(context.Context, work.Filter, []byte, int) ([]*work.Info[string], []byte, error)
	Result(context.Context, work.ID) ([]byte, error)
	Stats(context.Context) (work.Stats, error)
	Len(context.Context) (int, error)
	Clear(context.Context) error
	Kick(context.Context, work.ID) error
	Cancel(context.Context, work.ID) error
	Delete(context.Context, work.ID) error
	Reprioritise(context.Context, work.ID, int64) error
	KickAll(context.Context, work.Filter, func(int)) (int, error)
	Pause(context.Context) error
	Resume(context.Context) error
	Every(context.Context, string, string, string, ...work.EveryOptions) error
	RemovePeriodic(context.Context, string) error
	RunPeriodic(context.Context, string) (work.ID, error)
	Periodics(context.Context) ([]work.Periodic, error)
	Settings(context.Context) (work.Settings, int64, error)
	Configure(context.Context, work.Settings) error
}

// What each verb does whose queue was deleted is the same to a handle of a store and to one of a server.
func TestVerbsOfDeleted(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	stored, err := work.Open(t.Context(), db, "jobs", queue.String())
	testkit.NoError(t, err)
	defer stored.Close()
	c := newClient(t)
	served, err := client.OpenWork(t.Context(), c, "jobs", queue.String())
	testkit.NoError(t, err)
	ends := map[string]func(ctx context.Context, l *work.Lease[string]) error{
		"ack":    func(ctx context.Context, l *work.Lease[string]) error { return l.Ack(ctx) },
		"result": func(ctx context.Context, l *work.Lease[string]) error { return l.AckResult(ctx, []byte("r")) },
		"fail":   func(ctx context.Context, l *work.Lease[string]) error { return l.Fail(ctx, errors.New("failed")) },
		"bury":   func(ctx context.Context, l *work.Lease[string]) error { return l.Bury(ctx, "buried") },
		"extend": func(ctx context.Context, l *work.Lease[string]) error { return l.Extend(ctx, time.Minute) },
		"release": func(ctx context.Context, l *work.Lease[string]) error {
			return l.Release(ctx, 0)
		},
	}
	verbs := map[string]func(ctx context.Context, q workVerbs) (any, error){
		"try": func(ctx context.Context, q workVerbs) (any, error) {
			got, err := q.ReserveN(ctx, 5)
			return len(got), err
		},
		"get": func(ctx context.Context, q workVerbs) (any, error) { _, err := q.Get(ctx, 1); return nil, err },
		"page": func(ctx context.Context, q workVerbs) (any, error) {
			all, next, err := q.Page(ctx, work.Filter{}, nil, 10)
			return len(all) + len(next), err
		},
		"result": func(ctx context.Context, q workVerbs) (any, error) { _, err := q.Result(ctx, 1); return nil, err },
		"stats":  func(ctx context.Context, q workVerbs) (any, error) { return q.Stats(ctx) },
		"len":    func(ctx context.Context, q workVerbs) (any, error) { return q.Len(ctx) },
		"clear":  func(ctx context.Context, q workVerbs) (any, error) { return nil, q.Clear(ctx) },
		"kick":   func(ctx context.Context, q workVerbs) (any, error) { return nil, q.Kick(ctx, 1) },
		"cancel": func(ctx context.Context, q workVerbs) (any, error) { return nil, q.Cancel(ctx, 1) },
		"delete": func(ctx context.Context, q workVerbs) (any, error) { return nil, q.Delete(ctx, 1) },
		"reprioritise": func(ctx context.Context, q workVerbs) (any, error) {
			return nil, q.Reprioritise(ctx, 1, 5)
		},
		"kick all": func(ctx context.Context, q workVerbs) (any, error) { return q.KickAll(ctx, work.Filter{}, nil) },
		"pause":    func(ctx context.Context, q workVerbs) (any, error) { return nil, q.Pause(ctx) },
		"resume":   func(ctx context.Context, q workVerbs) (any, error) { return nil, q.Resume(ctx) },
		"every":    func(ctx context.Context, q workVerbs) (any, error) { return nil, q.Every(ctx, "n", "@daily", "x") },
		"no more":  func(ctx context.Context, q workVerbs) (any, error) { return nil, q.RemovePeriodic(ctx, "n") },
		"run": func(ctx context.Context, q workVerbs) (any, error) {
			_, err := q.RunPeriodic(ctx, "n")
			return nil, err
		},
		"periodics": func(ctx context.Context, q workVerbs) (any, error) {
			all, err := q.Periodics(ctx)
			return len(all), err
		},
		"settings": func(ctx context.Context, q workVerbs) (any, error) {
			s, version, err := q.Settings(ctx)
			return fmt.Sprint(s, version), err
		},
		"configure": func(ctx context.Context, q workVerbs) (any, error) {
			return nil, q.Configure(ctx, work.Settings{Concurrency: 3})
		},
		"put": func(ctx context.Context, q workVerbs) (any, error) { _, err := q.Put(ctx, "x"); return nil, err },
	}
	for name, end := range ends {
		verbs["lease: "+name] = func(ctx context.Context, q workVerbs) (any, error) {
			return nil, end(ctx, ctx.Value(leaseKey{}).(*work.Lease[string]))
		}
	}
	classes := append([]error{work.ErrNotFound, work.ErrLeaseLost}, errorsOfVerbs...)
	outcome := func(name string, q workVerbs, remove func() error, there func() bool) string {
		testkit.NoError(t, testkit.Drop(q.Put(t.Context(), "job")))
		l, err := q.Reserve(t.Context())
		testkit.NoError(t, err)
		testkit.NoError(t, remove())
		got, err := verbs[name](context.WithValue(t.Context(), leaseKey{}, l), q)
		text := fmt.Sprintf("%v, there %v, ", got, there())
		if there() {
			testkit.NoError(t, remove())
		}
		for _, class := range classes {
			if errors.Is(err, class) {
				return text + class.Error()
			}
		}
		return text + fmt.Sprint(err)
	}
	for name := range verbs {
		want := outcome(name, stored, func() error { return conq.DeleteQueue(t.Context(), db, "jobs") }, func() bool {
			_, found, err := conq.Lookup(t.Context(), db, "jobs")
			testkit.NoError(t, err)
			return found
		})
		got := outcome(name, served, func() error { return c.DeleteQueue(t.Context(), "jobs") }, func() bool {
			_, err := c.Lookup(t.Context(), "jobs")
			return !errors.Is(err, queue.ErrNoQueue)
		})
		testkit.Equal(t, name, got, want)
	}
}

type leaseKey struct{}

// Consumers that wait go on when their queue is deleted, and get what is put into the new one; those that don't find it empty.
func TestWaitsBeyondDeletion(t *testing.T) {
	ctx, c := t.Context(), newClient(t)
	q, err := client.OpenQueue(ctx, c, "items", queue.String())
	testkit.NoError(t, err)
	p, err := client.OpenPriorityQueue(ctx, c, "prio", queue.String())
	testkit.NoError(t, err)
	w, err := client.OpenWork(ctx, c, "jobs", queue.String())
	testkit.NoError(t, err)
	for _, name := range []string{"items", "prio", "jobs"} {
		testkit.NoError(t, c.DeleteQueue(ctx, name))
	}
	testkit.WantError(t, testkit.Drop(q.Dequeue(ctx)), queue.ErrEmpty)
	testkit.WantError(t, testkit.Drop(q.Peek(ctx)), queue.ErrEmpty)
	testkit.WantError(t, testkit.Drop(p.PopMin(ctx)), queue.ErrEmpty)
	got := make(chan string)
	waits := func(take func() (string, error)) {
		v, err := take()
		got <- fmt.Sprint(v, err)
	}
	go waits(func() (string, error) { return q.DequeueWait(ctx) })
	go waits(func() (string, error) { return p.PopWait(ctx, conq.Min) })
	runs, stop := context.WithCancel(ctx)
	go waits(func() (v string, err error) {
		err = work.Run(runs, w, func(_ context.Context, l *work.Lease[string]) error {
			v = l.Value
			stop()
			return nil
		}, work.RunOptions{Workers: 2})
		return v, err
	})
	for range 3 { // each asks a queue that is not there
		n, err := c.Queues(ctx)
		testkit.NoError(t, err)
		testkit.Equal(t, "queues", len(n), 0)
	}
	testkit.NoError(t, q.Enqueue(ctx, "x"))
	testkit.NoError(t, p.Push(ctx, "x", 1))
	testkit.NoError(t, testkit.Drop(w.Put(ctx, "x")))
	for range 3 {
		testkit.Equal(t, "outcome", <-got, "x<nil>")
	}
}
