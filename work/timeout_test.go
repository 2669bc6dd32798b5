package work

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
)

// An attempt that has run for its Timeout has failed, whatever its handler does then, and is tried again, or is dead.
func TestTimeout(t *testing.T) {
	wait := func(ctx context.Context) { <-ctx.Done() }
	for name, c := range map[string]struct {
		handler func(ctx context.Context, l *Lease[string]) error
		reason  string
	}{
		"returns an error of its own": {func(ctx context.Context, _ *Lease[string]) error { wait(ctx); return errors.New("half of it") }, "timed out: half of it"},
		"returns the context's":       {func(ctx context.Context, _ *Lease[string]) error { wait(ctx); return ctx.Err() }, "timed out"},
		"returns nil":                 {func(ctx context.Context, _ *Lease[string]) error { wait(ctx); return nil }, "timed out"},
		"snoozes":                     {func(ctx context.Context, _ *Lease[string]) error { wait(ctx); return Snooze(time.Hour) }, "timed out: snoozed for 1h0m0s"},
		"panics":                      {func(ctx context.Context, _ *Lease[string]) error { wait(ctx); panic("x") }, "panic: x"},
		"does not return":             {func(context.Context, *Lease[string]) error { time.Sleep(90 * time.Second); return nil }, "timed out: the handler has not returned"},
	} {
		for _, lease := range []time.Duration{3 * time.Second, time.Hour} {
			for sourceName, source := range sources {
				t.Run(name+" "+sourceName+" "+lease.String(), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { timesOut(t, source, lease, c.handler, c.reason) })
				})
			}
		}
	}
}

func timesOut(t *testing.T, source func(*testing.T, *Queue[string]) Source[string], lease time.Duration, h Handler[string], reason string) {
	ctx, stop := context.WithCancel(t.Context())
	q := open(t, store(t), Options{Settings: &Settings{Lease: lease, Timeout: time.Minute, MaxAttempts: 2, Backoff: Backoff{Kind: Constant, Base: time.Second}}})
	of := source(t, q)
	byDefault, err := q.Put(ctx, "a")
	noError(t, err)
	own, err := q.Put(ctx, "b", Job{Timeout: 10 * time.Second, MaxAttempts: 1})
	noError(t, err)
	causes := make(chan error, 10)
	done := make(chan error)
	began := time.Now()
	go func() {
		done <- Run(ctx, of, func(ctx context.Context, l *Lease[string]) error {
			if l.Attempt == 2 {
				return l.Ack(ctx)
			}
			context.AfterFunc(ctx, func() { causes <- context.Cause(ctx) })
			return h(ctx, l)
		}, RunOptions{Workers: 4, Grace: 10 * time.Second})
	}()
	for _, after := range []time.Duration{10 * time.Second, time.Minute} {
		if cause := <-causes; !errors.Is(cause, ErrTimeout) || time.Since(began) != after {
			t.Errorf("after %v the context ended: %v, want it after %v", time.Since(began), cause, after)
		}
	}
	time.Sleep(15 * time.Second) // of the bubble's clock: Grace, the backoff
	dead, err := q.Get(ctx, own)
	noError(t, err)
	if f := dead.Failures; dead.State != Dead || len(f) != 1 || !strings.Contains(f[0].Error, reason) || !strings.HasPrefix(f[0].Error, "timed out") || dead.Timeout != 10*time.Second {
		t.Errorf("the job with a limit of its own: %+v", dead)
	}
	if _, err = q.Get(ctx, byDefault); !errors.Is(err, ErrNotFound) {
		t.Errorf("the job of the queue's limit was not done by its second attempt: %v", err)
	}
	sound(t, q)
	stop()
	noError(t, <-done)
}

// Who reserves by himself is told of the limit, and not held to it; one that is done in time is as any other.
func TestTimeoutIsARunners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		q := open(t, store(t), Options{Settings: &Settings{Timeout: time.Second}})
		_, err := q.Put(ctx, "a")
		noError(t, err)
		l, err := q.ReserveWait(ctx)
		noError(t, err)
		time.Sleep(5 * time.Second)
		if err := l.Ack(ctx); err != nil || l.Timeout != time.Second {
			t.Errorf("limit %v: %v", l.Timeout, err)
		}
		_, err = q.Put(ctx, "b", Job{Timeout: time.Minute})
		noError(t, err)
		noError(t, Run(ctx, q, func(context.Context, *Lease[string]) error { time.Sleep(50 * time.Second); return nil }, RunOptions{Drain: true}))
		if s, err := q.Stats(ctx); err != nil || s != (Stats{}) {
			t.Errorf("left: %+v (%v)", s, err)
		}
	})
}

func TestBadTimeout(t *testing.T) {
	q := open(t, store(t), Options{})
	for _, d := range []time.Duration{-2, -time.Second, 1, time.Microsecond, MaxLease + 1} {
		if _, err := q.Put(t.Context(), "v", Job{Timeout: d}); !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), "Timeout") {
			t.Errorf("a job with a limit of %v: %v", d, err)
		}
	}
}

// TestNoTimeout: a job of a queue with a limit may have none, put once or periodically.
func TestNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		q := open(t, store(t), Options{Settings: &Settings{Timeout: time.Second}})
		id, err := q.Put(ctx, "v", Job{Timeout: NoTimeout})
		noError(t, err)
		noError(t, q.Every(ctx, "p", "@daily", "w", EveryOptions{Job: Job{Timeout: NoTimeout}}))
		_, err = q.RunPeriodic(ctx, "p")
		noError(t, err)
		if info, err := q.Get(ctx, id); err != nil || info.Timeout != 0 {
			t.Errorf("its limit is %v (%v)", info.Timeout, err)
		}
		noError(t, Run(ctx, q, func(ctx context.Context, l *Lease[string]) error {
			if l.Timeout != 0 {
				t.Errorf("the limit of %s is %v", l.Value, l.Timeout)
			}
			time.Sleep(time.Hour)
			return ctx.Err()
		}, RunOptions{Drain: true}))
		if s, err := q.Stats(ctx); err != nil || s != (Stats{}) {
			t.Errorf("left: %+v (%v)", s, err)
		}
	})
}
