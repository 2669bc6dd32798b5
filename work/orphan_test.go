package work

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// reopened is a store as the next process has it that opens it.
type reopened struct {
	kv.DB
	signals kvext.Signals
}

func (r *reopened) Signals() *kvext.Signals { return &r.signals }

// run has a runner begin all jobs of a source, whose handlers go on until the end of the test, or of their contexts.
func run(t *testing.T, q Source[string], workers int) (ended <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := ctx.Done()
	began, over, done := make(chan struct{}, workers), make(chan error, workers), make(chan error)
	go func() {
		done <- Run(ctx, q, func(ctx context.Context, l *Lease[string]) error {
			began <- struct{}{}
			<-ctx.Done()
			over <- context.Cause(ctx)
			<-stopped // it is gone, and takes no other job
			return ctx.Err()
		}, RunOptions{Workers: workers, Grace: time.Millisecond, OnError: func(ID, error) {}})
	}()
	for range workers {
		<-began
	}
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return over
}

// TestOrphans: what a runner had leased whose process is gone is ready when the store is opened again, and the attempt counts. Other
// leases stay: whoever has the token may be a client of a server. Another handle of the same process changes nothing.
func TestOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var first kv.DB = memory.New(memory.Options{})
		defer first.Close()
		q := open(t, first, Options{Settings: &Settings{Lease: time.Hour, Concurrency: 5}})
		client, err := q.Put(ctx, "client's")
		noError(t, err)
		l, err := q.ReserveWait(ctx)
		noError(t, err)
		plain, err := q.Put(ctx, "plain", Job{Key: "k", Unique: "u", Priority: 1})
		noError(t, err)
		last, err := q.Put(ctx, "last", Job{MaxAttempts: 1, Key: "other", Unique: "last"})
		noError(t, err)
		cancelled, err := q.Put(ctx, "cancelled")
		noError(t, err)
		run(t, q, 3)
		blocked, err := q.Put(ctx, "blocked", Job{Key: "other"})
		noError(t, err)
		leased := func(q *Queue[string], want int64) {
			t.Helper()
			s, err := q.Stats(ctx)
			if noError(t, err); s.Leased != want {
				t.Fatalf("%d are leased, want %d: %+v", s.Leased, want, s)
			}
		}
		leased(open(t, first, Options{}), 4)
		noError(t, q.Cancel(ctx, cancelled)) // its handler goes on

		var events []Event
		again := open(t, &reopened{DB: first}, Options{Observe: func(e Event) { events = append(events, e) }})
		leased(again, 1)
		for id, want := range map[ID]State{client: Leased, plain: Ready, last: Dead, cancelled: Dead, blocked: Ready} {
			info, err := again.Get(ctx, id)
			noError(t, err)
			if info.State != want {
				t.Errorf("%s is %v, want %v", info.Value, info.State, want)
			}
			if id == plain && (info.Attempts != 1 || info.History.Expiries != 1 || len(info.Failures) != 1 || info.Failures[0].Error != "the process of its runner has ended") {
				t.Errorf("attempts %d, expiries %d, failures %v", info.Attempts, info.History.Expiries, info.Failures)
			}
		}
		if len(events) != 2 || events[1].Kind != EventExpired || events[1].Jobs != 3 || events[1].Dead != 2 {
			t.Errorf("events %+v", events)
		}
		sound(t, again)
		got, err := ready(again)(ctx, 10)
		noError(t, err)
		if len(got) != 2 || got[0].ID != blocked || got[1].ID != plain || got[1].Attempt != 2 {
			t.Errorf("reserved %v", got)
		}
		noError(t, l.Ack(ctx))
		sound(t, again)
	})
}

// TestOrphansOfUnion: the jobs of a runner over several queues, too, as many as there are, also where transactions are small, and in
// queues that only Keep looks at.
func TestOrphansOfUnion(t *testing.T) {
	ctx := context.Background()
	for _, by := range []string{"Open", "Keep"} {
		t.Run(by, func(t *testing.T) {
			db := memory.New(memory.Options{Limits: kv.Limits{Operations: 200}})
			t.Cleanup(func() { noError(t, db.Close()) })
			u, queues := openUnion(t, db, "a", "b")
			for i := range 60 {
				_, err := queues[[]string{"a", "b"}[i%2]].Put(ctx, fmt.Sprint(i), Job{Lease: time.Hour})
				noError(t, err)
			}
			run(t, u, 60)
			next := &reopened{DB: db}
			if by == "Open" {
				_, queues = openUnion(t, next, "a", "b")
			} else {
				kept, cancel := context.WithCancel(ctx)
				var expired atomic.Int64
				all, done := make(chan struct{}), make(chan error)
				go func() {
					done <- Keep(kept, next, Options{Observe: func(e Event) {
						if e.Kind == EventExpired && expired.Add(int64(e.Jobs)) == 60 {
							close(all)
						}
					}})
				}()
				<-all
				cancel()
				noError(t, <-done)
			}
			for _, q := range queues {
				if s, err := q.Stats(ctx); err != nil || s.Ready != 30 || s.Leased != 0 {
					t.Errorf("%+v, error %v", s, err)
				}
				sound(t, q)
			}
		})
	}
}

// TestOrphansOfThisProcess: a program that closes the store while handlers run, and opens it again, has these end at once, although
// their leases would go on for long.
func TestOrphansOfThisProcess(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	db, err := embedded.Open(ctx, dir, embedded.Options{})
	noError(t, err)
	q, err := Open(ctx, db, "jobs", queue.String(), Options{Settings: &Settings{Lease: time.Hour}})
	noError(t, err)
	_, err = q.Put(ctx, "a")
	noError(t, err)
	ended := run(t, q, 1)
	noError(t, db.Close())
	again, err := embedded.Open(ctx, dir, embedded.Options{})
	noError(t, err)
	t.Cleanup(func() { noError(t, again.Close()) })
	got, err := open(t, again, Options{}).ReserveN(ctx, 1)
	noError(t, err)
	if len(got) != 1 || got[0].Attempt != 2 {
		t.Fatalf("reserved %v", got)
	}
	isError(t, <-ended, ErrLeaseLost)
	_ = q.Close()
}
