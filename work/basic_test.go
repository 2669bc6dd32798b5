package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

func open(t *testing.T, db kv.DB, o Options) *Queue[string] {
	t.Helper()
	q, err := Open(t.Context(), db, "jobs", queue.String(), o)
	noError(t, err)
	t.Cleanup(func() { noError(t, q.Close()) })
	return q
}

// store returns one whose transactions may take as long as they do on a busy machine.
func store(t *testing.T) kv.DB {
	db := memory.New(memory.Options{Limits: kv.Limits{Age: time.Hour}})
	t.Cleanup(func() { db.Close() })
	return db
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ready returns ReserveN of a queue, which then returns no lease, and no error, if there is no job.
func ready[T any](q Source[T]) func(context.Context, int, ...ReserveOptions) ([]*Lease[T], error) {
	return func(ctx context.Context, n int, o ...ReserveOptions) ([]*Lease[T], error) {
		leases, err := q.ReserveN(ctx, n, o...)
		if errors.Is(err, queue.ErrEmpty) {
			return nil, nil
		}
		return leases, err
	}
}

func isError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

// sound checks all that is stored.
func sound(t testing.TB, q *Queue[string]) {
	t.Helper()
	noError(t, q.db.ReadTransact(context.Background(), func(r kv.Reader) error {
		problems, err := q.recipe.Check(r)
		for _, p := range problems {
			t.Errorf("%x: %s", p.Key, p.What)
		}
		return err
	}))
}

func TestPutReserveAck(t *testing.T) {
	ctx := context.Background()
	q := open(t, store(t), Options{})
	for i := range 3 {
		_, err := q.Put(ctx, fmt.Sprint("job ", i), Job{Priority: int64(-i), Meta: map[string]string{"n": fmt.Sprint(i)}})
		noError(t, err)
	}
	for i := 2; i >= 0; i-- {
		l, err := q.ReserveWait(ctx)
		noError(t, err)
		if l.Value != fmt.Sprint("job ", i) || l.Attempt != 1 || l.Meta["n"] != fmt.Sprint(i) {
			t.Fatalf("got %+v", l)
		}
		noError(t, l.Ack(ctx))
		isError(t, l.Ack(ctx), ErrLeaseLost)
	}
	leases, err := ready(q)(ctx, 1)
	noError(t, err)
	if len(leases) > 0 {
		t.Fatalf("%v is left", leases[0].Value)
	}
	sound(t, q)
}

func TestExpiredLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		q := open(t, store(t), Options{Settings: &Settings{Lease: time.Second}})
		_, err := q.Put(ctx, "a")
		noError(t, err)
		first, err := q.ReserveWait(ctx)
		noError(t, err)
		began := time.Now()
		second, err := q.ReserveWait(ctx) // waits for the end of the first lease
		noError(t, err)
		if waited := time.Since(began); waited < time.Second || waited > 2*time.Second {
			t.Errorf("the job came back after %v", waited)
		}
		isError(t, first.Ack(ctx), ErrLeaseLost)
		isError(t, first.Extend(ctx, time.Hour), ErrLeaseLost)
		if second.Attempt != 2 || len(second.Failures) != 1 {
			t.Errorf("got %+v", second)
		}
		noError(t, second.Ack(ctx))
		sound(t, q)
	})
}

func TestScheduled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := store(t)
		q, other := open(t, db, Options{}), open(t, db, Options{})
		var group sync.WaitGroup
		began := time.Now()
		for i := range 4 {
			group.Go(func() {
				l, err := q.ReserveWait(ctx)
				noError(t, err)
				noError(t, l.Ack(ctx))
				if d := time.Since(began).Round(time.Second); l.Value != fmt.Sprint(d) {
					t.Errorf("worker %d got the job of %v after %v", i, l.Value, d)
				}
			})
		}
		synctest.Wait()
		for i := 4; i > 0; i-- {
			d := time.Duration(i) * time.Minute
			_, err := other.Put(ctx, fmt.Sprint(d), Job{Delay: d})
			noError(t, err)
		}
		group.Wait()
		sound(t, q)
	})
}

func TestRunRetriesAndPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, store(t), Options{Settings: &Settings{MaxAttempts: 3, Lease: time.Second}})
		ctx, stop := context.WithCancel(context.Background())
		for _, v := range []string{"fails", "panics", "works", "slow", "cancels", "snoozes"} {
			_, err := q.Put(ctx, v)
			noError(t, err)
		}
		var mu sync.Mutex
		runs := make(map[string]int)
		handler := func(ctx context.Context, l *Lease[string]) error {
			mu.Lock()
			runs[l.Value]++
			n := runs[l.Value]
			mu.Unlock()
			switch l.Value {
			case "fails":
				return errors.New("no luck")
			case "panics":
				panic("oh")
			case "slow":
				time.Sleep(10 * time.Second) // far longer than its lease
			case "cancels":
				return Cancel(errors.New("never"))
			case "snoozes":
				if n < 5 {
					return Snooze(time.Minute)
				}
			}
			return nil
		}
		done := make(chan error)
		go func() { done <- Run(ctx, q, handler, RunOptions{Workers: 3}) }()
		time.Sleep(time.Hour)
		stop()
		noError(t, <-done)
		want := map[string]int{"fails": 3, "panics": 3, "works": 1, "slow": 1, "cancels": 1, "snoozes": 5}
		if fmt.Sprint(runs) != fmt.Sprint(want) {
			t.Errorf("ran %v, want %v", runs, want)
		}
		s, err := q.Stats(context.Background())
		noError(t, err)
		if s != (Stats{Dead: 3}) {
			t.Errorf("stats %+v", s)
		}
		sound(t, q)
	})
}

func TestKeysInOrder(t *testing.T) {
	ctx := context.Background()
	q := open(t, store(t), Options{})
	const keys, each = 5, 20
	for i := range keys * each {
		_, err := q.Put(ctx, fmt.Sprint(i), Job{Key: fmt.Sprint(i % keys)})
		noError(t, err)
	}
	var mu sync.Mutex
	seen, under := make(map[string][]string), make(map[string]bool)
	ctx, stop := context.WithCancel(ctx)
	n := 0
	noError(t, Run(ctx, q, func(_ context.Context, l *Lease[string]) error {
		mu.Lock()
		defer mu.Unlock()
		if under[l.Key] {
			t.Errorf("two jobs of key %s at once", l.Key)
		}
		seen[l.Key] = append(seen[l.Key], l.Value)
		if n++; n == keys*each {
			stop()
		}
		return nil
	}, RunOptions{Workers: 16}))
	for k := range keys {
		for i, v := range seen[fmt.Sprint(k)] {
			if v != fmt.Sprint(i*keys+k) {
				t.Fatalf("key %d: %v", k, seen[fmt.Sprint(k)])
			}
		}
	}
	sound(t, q)
}

func TestPeriodic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(context.Background(), 100*time.Minute+time.Second)
		defer stop()
		db := store(t)
		noError(t, open(t, db, Options{}).Every(ctx, "tick", "@every 1m", "tick"))
		var mu sync.Mutex
		n := 0
		var group sync.WaitGroup
		for range 8 {
			q := open(t, db, Options{})
			group.Go(func() {
				noError(t, Run(ctx, q, func(context.Context, *Lease[string]) error {
					mu.Lock()
					defer mu.Unlock()
					n++
					return nil
				}))
			})
		}
		group.Wait()
		if n != 100 {
			t.Errorf("%d jobs in 100 ticks", n)
		}
	})
}

// A job that is due further away than a duration can say is not due at once.
func TestFarAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := open(t, store(t), Options{})
		id, err := q.Put(t.Context(), "far", Job{At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
		noError(t, err)
		info, err := q.Get(t.Context(), id)
		noError(t, err)
		if info.State != Scheduled || info.History.Delay < 292*365*24*time.Hour {
			t.Errorf("%v after a delay of %v", info.State, info.History.Delay)
		}
		a := alarm{keeping: []*engine{&q.engine}, looked: 1, wake: jobs.Never}
		a.set(1, micros(info.Time))
		if a.timer != nil {
			t.Error("it rings at once")
		}
	})
}
