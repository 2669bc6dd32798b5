package work

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// A periodic job is put at each tick while all workers are busy.
func TestTicksWhileBusy(t *testing.T) {
	for _, limits := range []kv.Limits{{}, {Shared: true}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			db := memory.New(memory.Options{Limits: limits})
			q := open(t, db, Options{})
			noError(t, q.Every(ctx, "tick", "@every 1s", "x"))
			done := make(chan error)
			go func() {
				done <- Run(ctx, q, func(ctx context.Context, _ *Lease[string]) error {
					<-ctx.Done()
					return ctx.Err()
				}, RunOptions{Grace: time.Second})
			}()
			time.Sleep(12*time.Second + 100*time.Millisecond)
			n := 0
			noError(t, db.ReadTransact(ctx, func(r kv.Reader) error { // which has nothing done that is due
				counts, err := q.recipe.Counts(r)
				n = int(counts[jobs.Ready] + counts[jobs.Leased])
				return err
			}))
			if n < 12 || n > 13 {
				t.Errorf("%d jobs after 12 ticks", n)
			}
			stop()
			noError(t, <-done)
			noError(t, q.Close())
		})
	}
}

// A periodic job that is set again is due when it was; with another specification, a tick that is due is made.
func TestEveryAgain(t *testing.T) {
	ctx, now := t.Context(), &handClock{t: time.Unix(1_000_000, 0)}
	q := open(t, memory.New(memory.Options{}), Options{})
	q.now = now.now
	next := func() time.Time {
		all, err := q.Periodics(ctx)
		noError(t, err)
		return all[0].Next
	}
	noError(t, q.Every(ctx, "p", "@every 1h", "a"))
	now.add(40 * time.Minute)
	noError(t, q.Every(ctx, "p", "@every 1h", "b", EveryOptions{Job: Job{Priority: 3}}))
	if got := next().Sub(now.now()); got != 20*time.Minute {
		t.Errorf("with the same specification it is due in %v", got)
	}
	now.add(30 * time.Minute)
	noError(t, q.Every(ctx, "p", "@every 1h", "c"))
	reserves := func(want string) {
		t.Helper()
		l, err := ready(q)(ctx, 10)
		noError(t, err)
		if len(l) != 1 || l[0].Value != want {
			t.Fatalf("%d jobs: %v", len(l), l)
		}
		noError(t, l[0].Ack(ctx))
	}
	reserves("c")
	now.add(2 * time.Hour)
	noError(t, q.Every(ctx, "p", "@every 2h", "d"))
	reserves("d")
	if got := next().Sub(now.now()); got != 2*time.Hour {
		t.Errorf("with another specification it is due in %v", got)
	}
	noError(t, q.Close())
}

// What reads a queue shows it as it is now, though nobody reserves, and though it is paused.
func TestReadsAreAsOfNow(t *testing.T) {
	read := map[string]func(ctx context.Context, q *Queue[string], ids []ID) string{
		"stats": func(ctx context.Context, q *Queue[string], _ []ID) string {
			s, err := q.Stats(ctx)
			return fmt.Sprint(s.Ready, s.Scheduled, s.Leased, err)
		},
		"get": func(ctx context.Context, q *Queue[string], ids []ID) string {
			a, err := q.Get(ctx, ids[0])
			noErr(err)
			b, err := q.Get(ctx, ids[1])
			noErr(err)
			return fmt.Sprint(map[State]int{a.State: 0}, map[State]int{b.State: 0})
		},
		"peek": func(ctx context.Context, q *Queue[string], _ []ID) string {
			all, err := q.Peek(ctx, 10)
			return fmt.Sprint(len(all), err)
		},
		"list": func(ctx context.Context, q *Queue[string], _ []ID) string {
			n := 0
			for _, err := range q.List(ctx, Filter{State: Ready}) {
				noErr(err)
				n++
			}
			return fmt.Sprint(n)
		},
		"count": func(ctx context.Context, q *Queue[string], _ []ID) string {
			n, err := q.Count(ctx, Filter{State: Leased}, nil)
			return fmt.Sprint(n, err)
		},
		"below": func(ctx context.Context, q *Queue[string], _ []ID) string {
			n, err := q.readyBelow(ctx, 1, 10)
			return fmt.Sprint(n, err)
		},
		"bulk": func(ctx context.Context, q *Queue[string], _ []ID) string {
			n, err := q.DeleteAll(ctx, Filter{State: Ready}, nil)
			return fmt.Sprint(n, err)
		},
	}
	want := map[string]string{
		"stats": "3 0 0 <nil>", "get": "map[ready:0] map[ready:0]", "peek": "3 <nil>", "list": "3", "count": "0 <nil>", "below": "3 <nil>", "bulk": "3 <nil>",
	}
	for name, f := range read {
		for _, paused := range []bool{false, true} {
			ctx, now := t.Context(), &handClock{t: time.Unix(1_000_000, 0)}
			q := open(t, memory.New(memory.Options{}), Options{})
			q.now = now.now
			a, err := q.Put(ctx, "a")
			noError(t, err)
			_, err = ready(q)(ctx, 1)
			noError(t, err)
			b, err := q.Put(ctx, "b", Job{Delay: time.Minute})
			noError(t, err)
			noError(t, q.Every(ctx, "p", "@every 5m", "c"))
			if paused {
				noError(t, q.Pause(ctx))
			}
			now.add(6 * time.Minute)
			if got := f(ctx, q, []ID{a, b}); got != want[name] {
				t.Errorf("%s (paused: %v): %s, want %s", name, paused, got, want[name])
			}
			noError(t, q.Close())
		}
	}
}

func noErr(err error) {
	if err != nil {
		panic(err)
	}
}

// A clock that is set forward is noticed within a second, by those who wait at a queue and at a union.
func TestClockIsSetForward(t *testing.T) {
	for _, limits := range []kv.Limits{{}, {Shared: true}} {
		for _, union := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				now := &handClock{t: time.Now()}
				q := open(t, memory.New(memory.Options{Limits: limits}), Options{})
				q.now = now.now
				_, err := q.Put(ctx, "a", Job{Delay: time.Hour})
				noError(t, err)
				var from Source[string] = q
				if union {
					from, err = NewUnion(q)
					noError(t, err)
				}
				got := make(chan error)
				go func() {
					_, err := from.ReserveWaitN(ctx, 1)
					got <- err
				}()
				synctest.Wait()
				time.Sleep(time.Minute)
				began := time.Now()
				now.add(2 * time.Hour)
				noError(t, <-got)
				if d := time.Since(began); d > 1100*time.Millisecond {
					t.Errorf("a job was found %v after it was due (%+v, union: %v)", d, limits, union)
				}
				noError(t, q.Close())
			})
		}
	}
}

// A tick that was set while the clock was far ahead is corrected, and shown until then.
func TestTicksAreHealed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		now := &handClock{t: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
		q := open(t, memory.New(memory.Options{}), Options{})
		q.now = now.now
		noError(t, q.Every(ctx, "p", "TZ=UTC 0 0 * * *", "a"))
		now.add(30 * 24 * time.Hour)
		l, err := ready(q)(ctx, 5)
		noError(t, err)
		if len(l) != 1 {
			t.Fatalf("%d jobs of the missed ticks", len(l))
		}
		now.add(-30 * 24 * time.Hour)
		all, err := q.Periodics(ctx)
		noError(t, err)
		if all[0].Trouble == "" {
			t.Errorf("nothing tells that it is due at %v", all[0].Next)
		}
		time.Sleep(3 * time.Second) // of the test's clock
		synctest.Wait()
		all, err = q.Periodics(ctx)
		noError(t, err)
		if got := all[0].Next.Sub(now.now()); got != 12*time.Hour || all[0].Trouble != "" {
			t.Errorf("it is due in %v (%s)", got, all[0].Trouble)
		}
		noError(t, q.Close())
	})
}

// One thing that is due and can't be done does not hold up others, and is told of once.
func TestAside(t *testing.T) {
	ctx, now := t.Context(), &handClock{t: time.Unix(1_000_000, 0)}
	db := memory.New(memory.Options{})
	var log bytes.Buffer
	q := open(t, db, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))})
	q.now = now.now
	broken := map[string]func(tx kv.Tx, id ID) error{
		"zone": func(tx kv.Tx, _ ID) error {
			return q.recipe.SetPeriodic(tx, &jobs.Periodic{Name: "p", Spec: "CRON_TZ=No/Where * * * * *", Next: micros(now.now())})
		},
		"entry": func(tx kv.Tx, id ID) error { // its header is gone
			for pair, err := range tx.Range(jobs.Space("jobs").Range(), kv.RangeOptions{}) {
				if err != nil {
					return err
				}
				if q.recipe.IsHeader(pair.Key) && bytes.HasSuffix(pair.Key, tuple.AppendInt(nil, int64(id))) {
					tx.Clear(pair.Key)
				}
			}
			return nil
		},
	}
	for name, breaks := range broken {
		id, err := q.Put(ctx, "bad", Job{Delay: time.Second})
		noError(t, err)
		good, err := q.Put(ctx, "good", Job{Delay: 2 * time.Second})
		noError(t, err)
		noError(t, db.Transact(ctx, func(tx kv.Tx) error { return breaks(tx, id) }))
		for range 3 {
			now.add(time.Minute)
			_, err = q.Stats(ctx)
			noError(t, err)
			_, err = ready(q)(ctx, 1)
			noError(t, err)
		}
		info, err := q.Get(ctx, good)
		noError(t, err)
		if info.State == Scheduled {
			t.Errorf("%s: a job that is due is still %v", name, info.State)
		}
	}
	all, err := q.Periodics(ctx)
	noError(t, err)
	if len(all) != 1 || all[0].Trouble == "" {
		t.Errorf("the periodic job is shown as %+v", all)
	}
	noError(t, q.Close())
	if n := bytes.Count(log.Bytes(), []byte("set aside")); n != 2 {
		t.Errorf("%d errors were logged, want one for each:\n%s", n, log.String())
	}
	noError(t, db.ReadTransact(ctx, func(r kv.Reader) error {
		problems, err := jobs.NewQueue("jobs", kv.Limits{}, jobs.Config{NextTick: jobs.CronTick}).Check(r)
		said := fmt.Sprint(problems)
		if !strings.Contains(said, "No/Where") || !strings.Contains(said, "has no header") {
			t.Errorf("a check finds %s", said)
		}
		return err
	}))
}

// Keep does what is due in queues of which no handle is open, those of other processes, too.
func TestKeep(t *testing.T) {
	for _, limits := range []kv.Limits{{}, {Shared: true}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			base := memory.New(memory.Options{Limits: limits})
			put := func(name string) {
				q, err := Open(ctx, other{base}, name, queue.String())
				noError(t, err)
				_, err = q.Put(ctx, "a", Job{Delay: time.Minute})
				noError(t, err)
				noError(t, q.Close())
			}
			for i := range 120 {
				put(fmt.Sprint("q", i))
			}
			noError(t, base.Transact(ctx, func(tx kv.Tx) error { // what can't be read keeps it from nothing else
				tx.Set(layout.EntryKey("a"), []byte{0xff})
				tx.Set(tuple.AppendString(tuple.AppendString(jobs.Space("q1").Bytes(), "q"), "settings"), []byte{0xff})
				return nil
			}))
			done := make(chan error)
			go func() { done <- Keep(ctx, base) }()
			synctest.Wait()
			if limits.Shared {
				put("later")
			}
			time.Sleep(80 * time.Second) // of the test's clock
			synctest.Wait()
			noError(t, base.ReadTransact(ctx, func(r kv.Reader) error {
				names := []string{"q0", "q119"}
				if limits.Shared {
					names = append(names, "later")
				}
				for _, name := range names {
					counts, err := jobs.NewQueue(name, limits, jobs.Config{}).Counts(r)
					if err != nil || counts[jobs.Ready] != 1 {
						t.Errorf("%s has %v (%v)", name, counts, err)
					}
				}
				return nil
			}))
			stop()
			noError(t, <-done)
		})
	}
}

// other is the store as another process has it.
type other struct{ kv.DB }
