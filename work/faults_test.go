package work

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// TestLateExpiryDoesNotUndoAck: whoever ends leases that are over has read the job before it was
// acknowledged, and commits after.
func TestLateExpiryDoesNotUndoAck(t *testing.T) {
	ctx := context.Background()
	q := open(t, store(t), Options{Settings: &Settings{Keep: time.Hour}})
	_, err := q.Put(ctx, "a")
	noError(t, err)
	l, err := q.ReserveWait(ctx)
	noError(t, err)
	attempts := 0
	noError(t, q.db.Transact(ctx, func(tx kv.Tx) error {
		attempts++
		_, err := q.recipe.Due(tx, micros(time.Now().Add(time.Hour)), 10)
		if attempts == 1 {
			noError(t, l.Ack(ctx))
		}
		return err
	}))
	if attempts != 2 {
		t.Errorf("the expiry committed in attempt %d", attempts)
	}
	s, err := q.Stats(ctx)
	noError(t, err)
	if s.Ready > 0 || s.Leased > 0 {
		t.Errorf("the job is back: %+v", s)
	}
	sound(t, q)
}

// TestOldTokenAfterRestart: a holder's lease ran out, and the store was opened again.
func TestOldTokenAfterRestart(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	db, err := embedded.Open(ctx, dir, embedded.Options{})
	noError(t, err)
	q, err := Open(ctx, db, "jobs", queue.String(), Options{Settings: &Settings{Lease: MinLease}})
	noError(t, err)
	_, err = q.Put(ctx, "a")
	noError(t, err)
	old, err := q.ReserveWait(ctx)
	noError(t, err)
	noError(t, q.Close())
	noError(t, db.Close())

	db, err = embedded.Open(ctx, dir, embedded.Options{})
	noError(t, err)
	defer db.Close()
	q, err = Open(ctx, db, "jobs", queue.String(), Options{Settings: &Settings{Lease: time.Hour}})
	noError(t, err)
	defer q.Close()
	held, err := q.ReserveWait(ctx)
	noError(t, err)
	old.queue = q
	for name, verb := range map[string]error{
		"Ack": old.Ack(ctx), "Extend": old.Extend(ctx, time.Hour), "Release": old.Release(ctx, 0),
		"Fail": old.Fail(ctx, nil), "Bury": old.Bury(ctx, ""),
	} {
		if !errors.Is(verb, ErrLeaseLost) {
			t.Errorf("%s with an old token: %v", name, verb)
		}
	}
	noError(t, held.Ack(ctx))
	sound(t, q)
}

var ends = flag.Int("ends", 3000, "how many jobs end in TestNothingLeaks")

// TestNothingLeaks: jobs with keys and unique names end in all ways; then no slot and no claim is left.
func TestNothingLeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		q := open(t, store(t), Options{Settings: &Settings{KeyLimit: 2, Concurrency: 7, Lease: time.Second, MaxAttempts: 2}})
		r := rand.New(rand.NewPCG(1, 2))
		for i := range *ends {
			_, err := q.Put(ctx, "v", Job{Key: fmt.Sprint(r.IntN(5)), Unique: fmt.Sprint(r.IntN(50)), UniqueFor: time.Duration(r.IntN(2)) * time.Second})
			if !errors.Is(err, ErrDuplicate) {
				noError(t, err)
			}
			leases, err := ready(q)(ctx, 3)
			noError(t, err)
			for _, l := range leases {
				switch r.IntN(6) {
				case 0: // its lease runs out
				case 1:
					noError(t, q.Delete(ctx, l.ID))
				case 2:
					noError(t, q.Cancel(ctx, l.ID))
				case 3:
					noError(t, l.Bury(ctx, ""))
				case 4:
					noError(t, l.Fail(ctx, nil))
				case 5:
					noError(t, l.Ack(ctx))
				}
			}
			if i%10 == 0 {
				time.Sleep(time.Second)
			}
			if i%100 == 0 {
				sound(t, q)
			}
			if i%1000 == 0 { // so that a check does not take longer and longer
				_, err := q.DeleteAll(ctx, Filter{State: Dead}, nil)
				noError(t, err)
			}
		}
		_, err := q.DeleteAll(ctx, Filter{}, nil)
		noError(t, err)
		time.Sleep(time.Minute)
		noError(t, q.Sweep(ctx))
		noError(t, q.db.ReadTransact(ctx, func(r kv.Reader) error {
			for pair, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
				if err != nil {
					return err
				}
				if !strings.Contains(string(pair.Key), "\x02c\x00") && len(pair.Value) > 0 && !strings.HasSuffix(string(pair.Key), "work\x00") &&
					!strings.Contains(string(pair.Key), "settings") && !strings.Contains(string(pair.Key), "queue") && !strings.Contains(string(pair.Key), "format") {
					t.Errorf("left: %q -> %x", pair.Key, pair.Value)
				}
			}
			return nil
		}))
		sound(t, q)
	})
}

// TestHangingWorker: one that extends its lease keeps its job, one that died loses it.
func TestHangingWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := store(t)
		q := open(t, db, Options{Settings: &Settings{Lease: 10 * time.Second}})
		for _, v := range []string{"dies", "hangs"} {
			_, err := q.Put(ctx, v)
			noError(t, err)
		}
		_, err := q.ReserveWait(ctx) // and is never heard of again
		noError(t, err)
		began := time.Now()
		run, stop := context.WithCancel(ctx)
		done := make(chan error)
		other := open(t, db, Options{Settings: &Settings{Lease: 10 * time.Second}})
		go func() {
			done <- Run(run, q, func(context.Context, *Lease[string]) error {
				time.Sleep(time.Hour)
				return nil
			})
		}()
		synctest.Wait()
		back, err := other.ReserveWait(ctx)
		noError(t, err)
		if d := time.Since(began); back.Value != "dies" || d > 11*time.Second {
			t.Errorf("%q came back after %v", back.Value, d)
		}
		noError(t, back.Ack(ctx))
		time.Sleep(2 * time.Hour)
		stop()
		noError(t, <-done)
		s, err := q.Stats(ctx)
		noError(t, err)
		if s != (Stats{}) {
			t.Errorf("left: %+v", s)
		}
	})
}

// TestCancelLeased: the handler of a job that is cancelled ends, and the job is dead.
func TestCancelLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		q := open(t, store(t), Options{})
		id, err := q.Put(ctx, "a")
		noError(t, err)
		var cause error
		done := make(chan error)
		go func() {
			done <- Run(ctx, q, func(ctx context.Context, _ *Lease[string]) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return cause
			})
		}()
		synctest.Wait()
		noError(t, q.Cancel(ctx, id))
		time.Sleep(11 * time.Second)
		stop()
		noError(t, <-done)
		isError(t, cause, ErrCancelled)
		info, err := q.Get(context.Background(), id)
		noError(t, err)
		if info.State != Dead {
			t.Errorf("the job is %v", info.State)
		}
	})
}

// TestGracefulStop: jobs whose handlers do not end within Grace are ready at once.
func TestGracefulStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		q := open(t, store(t), Options{Settings: &Settings{Lease: time.Hour}})
		_, err := q.Put(ctx, "a")
		noError(t, err)
		done := make(chan error)
		go func() {
			done <- Run(ctx, q, func(ctx context.Context, _ *Lease[string]) error {
				<-ctx.Done()
				return ctx.Err()
			}, RunOptions{Grace: time.Second})
		}()
		synctest.Wait()
		stop()
		noError(t, <-done)
		leases, err := ready(q)(context.Background(), 1)
		noError(t, err)
		if len(leases) != 1 || leases[0].Attempt != 1 {
			t.Errorf("got %+v", leases)
		}
	})
}

func TestPauseAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := store(t)
		q, other := open(t, db, Options{}), open(t, db, Options{})
		noError(t, other.Pause(ctx))
		_, err := q.Put(ctx, "a")
		noError(t, err)
		got := make(chan error)
		go func() {
			_, err := q.ReserveWait(ctx)
			got <- err
		}()
		synctest.Wait()
		select {
		case <-got:
			t.Error("a paused queue gave out a job")
		default:
		}
		noError(t, other.Resume(ctx))
		noError(t, <-got)
		go func() {
			_, err := q.ReserveWait(ctx)
			got <- err
		}()
		synctest.Wait()
		noError(t, q.Close())
		isError(t, <-got, queue.ErrClosed)
		_, err = q.Put(ctx, "b")
		isError(t, err, queue.ErrClosed)
	})
}

// TestScheduledBehindAStaleTime: a handle that knows of an earlier time, which counts no more, tells others of a later one.
func TestScheduledBehindAStaleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := store(t)
		q, other := open(t, db, Options{}), open(t, db, Options{})
		id, err := q.Put(ctx, "gone", Job{Delay: 10 * time.Minute})
		noError(t, err)
		_, err = ready(q)(ctx, 1)
		noError(t, err)
		noError(t, other.Delete(ctx, id))
		began := time.Now()
		got := make(chan error)
		go func() {
			_, err := other.ReserveWait(ctx)
			got <- err
		}()
		synctest.Wait()
		_, err = q.Put(ctx, "later", Job{Delay: 30 * time.Minute})
		noError(t, err)
		noError(t, <-got)
		if d := time.Since(began); d > 31*time.Minute {
			t.Errorf("the job came after %v", d)
		}
	})
}

func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		q := open(t, store(t), Options{Settings: &Settings{Rate: Rate{N: 10, Per: time.Second}}})
		for i := range 50 {
			_, err := q.Put(ctx, fmt.Sprint(i))
			noError(t, err)
		}
		began := time.Now()
		for i := range 50 {
			l, err := q.ReserveWait(ctx)
			noError(t, err)
			if l.Value != fmt.Sprint(i) {
				t.Fatalf("got %s as number %d", l.Value, i)
			}
			noError(t, l.Ack(ctx))
		}
		if d := time.Since(began); d < 3900*time.Millisecond || d > 4500*time.Millisecond {
			t.Errorf("50 jobs at 10 a second took %v", d)
		}
	})
}

func TestBadInput(t *testing.T) {
	ctx := context.Background()
	q := open(t, store(t), Options{})
	long := strings.Repeat("x", MaxText+1)
	for name, j := range map[string]Job{
		"delay and time": {Delay: 1, At: time.Now()}, "negative delay": {Delay: -1}, "far future": {At: time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)},
		"long key": {Key: long}, "key": {Key: "\xff"}, "unique": {Unique: long}, "unique for": {UniqueFor: time.Second},
		"lease": {Lease: time.Nanosecond}, "long lease": {Lease: math.MaxInt64}, "attempts": {MaxAttempts: -2},
		"meta": {Meta: map[string]string{"a": strings.Repeat("x", MaxMeta)}}, "meta text": {Meta: map[string]string{"a": "\xff"}},
		"unique text": {Unique: "\xed\xa0\x80"}, "meta halves": {Meta: map[string]string{"\xc3": "\xa9"}},
	} {
		if _, err := q.Put(ctx, "v", j); !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), "jobs") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, o := range map[string]Options{
		"lease": {Settings: &Settings{Lease: 1}}, "attempts": {Settings: &Settings{MaxAttempts: -2}}, "skew": {Skew: -1}, "holder": {Holder: "\xff"},
	} {
		if _, err := Open(ctx, q.db, "other", queue.String(), o); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("options %s: %v", name, err)
		}
	}
	for _, o := range []RunOptions{{Workers: -1}, {Workers: maxWorkers + 1}, {Grace: -1}} {
		isError(t, Run(ctx, q, func(context.Context, *Lease[string]) error { return nil }, o), kv.ErrInvalid)
	}
	for _, spec := range []string{"", "x", "* * * *", "60 * * * *", "0 0 31 2 *", "CRON_TZ=Nowhere/X 0 0 * * *", "TZ=", "@every", "@every -5s x", "@every -5s", "@every 0s", "@every 1500ms", "TZ=UTC @every 999ms", strings.Repeat("*", 2000)} {
		if err := q.Every(ctx, "p", spec, "v"); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("cron %.20q: %v", spec, err)
		}
	}
	for name, verb := range map[string]error{
		"kick": q.Kick(ctx, 99), "delete": q.Delete(ctx, -1), "cancel": q.Cancel(ctx, 0), "bury": q.Bury(ctx, 99, ""),
		"priority": q.Reprioritise(ctx, 99, 1), "periodic": q.RemovePeriodic(ctx, "none"),
	} {
		isError(t, verb, ErrNotFound)
		_ = name
	}
	_, err := q.ReserveWaitN(ctx, 0)
	isError(t, err, kv.ErrInvalid)
	_, _, err = q.Page(ctx, Filter{}, nil, 0)
	isError(t, err, kv.ErrInvalid)
	for _, f := range []Filter{{State: -1}, {State: Done + 1}, {MinAttempts: -1}} {
		_, err = q.Count(ctx, f, nil)
		isError(t, err, kv.ErrInvalid)
		_, err = q.DeleteAll(ctx, f, nil)
		isError(t, err, kv.ErrInvalid)
	}
	_, _, err = q.Page(ctx, Filter{}, []byte("elsewhere"), 1)
	isError(t, err, kv.ErrInvalid)
	isError(t, err, kv.ErrInvalid)
	_, err = q.Peek(ctx, -1)
	isError(t, err, kv.ErrInvalid)
	_, err = q.kickFirst(ctx, -1)
	isError(t, err, kv.ErrInvalid)
	_, err = find(ctx, nil, 1)
	isError(t, err, kv.ErrInvalid)
	_, err = ParseState("lost")
	isError(t, err, kv.ErrInvalid)
	_, err = NewUnion(q, nil)
	isError(t, err, kv.ErrInvalid)
	var none context.Context
	_, err = q.Put(none, "v")
	isError(t, err, kv.ErrInvalid)
	_, err = find(none, q.db, 1)
	isError(t, err, kv.ErrInvalid)
	s, err := q.Stats(ctx)
	noError(t, err)
	if s != (Stats{}) {
		t.Errorf("bad input left %+v", s)
	}
}

// A delay is not negative. That of Backoff may be.
func TestNegativeDelay(t *testing.T) {
	ctx := context.Background()
	q := open(t, store(t), Options{Backoff: func(int) time.Duration { return -1 }})
	_, err := q.Put(ctx, "a")
	noError(t, err)
	l, err := q.ReserveWait(ctx)
	noError(t, err)
	isError(t, l.FailAfter(ctx, -1, nil), kv.ErrInvalid)
	isError(t, l.Release(ctx, -1), kv.ErrInvalid)
	isError(t, q.db.Transact(ctx, func(tx kv.Tx) error { return l.In(tx).Release(-1) }), kv.ErrInvalid)
	noError(t, l.Fail(ctx, nil))
	l, err = q.ReserveWait(ctx)
	noError(t, err)
	noError(t, q.db.Transact(ctx, func(tx kv.Tx) error { return l.In(tx).Fail(nil) }))
	_, err = q.ReserveWait(ctx)
	noError(t, err)
}

// All methods of a queue that was not opened say so, and those of a lease of no keeper.
func TestUnopened(t *testing.T) {
	q := new(Queue[string])
	held, err := q.Held(1, "1-1-xxxx-0")
	noError(t, err)
	for _, of := range []any{q, q.In(nil), held, NewLease[string](nil, 1, "", time.Second, time.Time{})} {
		v := reflect.ValueOf(of)
		for i := range v.NumMethod() {
			name, out := v.Type().Method(i).Name, v.Method(i).Call(argumentsOf(v.Method(i).Type()))
			if len(out) == 0 || name == "Held" || out[len(out)-1].Type() != reflect.TypeFor[error]() {
				continue
			}
			if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, errUnopened) {
				t.Errorf("%T.%s: %v", of, name, err)
			}
		}
	}
}

// argumentsOf are some with which a method may be called, without those that are optional.
func argumentsOf(method reflect.Type) (in []reflect.Value) {
	for i := range method.NumIn() {
		switch t := method.In(i); {
		case method.IsVariadic() && i == method.NumIn()-1:
		case t == reflect.TypeFor[context.Context]():
			in = append(in, reflect.ValueOf(context.Background()))
		case t.Kind() == reflect.Int:
			in = append(in, reflect.ValueOf(1))
		case t.Kind() == reflect.String:
			in = append(in, reflect.ValueOf("* * * * *"))
		default:
			in = append(in, reflect.Zero(t))
		}
	}
	return in
}

func TestLargePayload(t *testing.T) {
	ctx := context.Background()
	db := memory.New(memory.Options{Limits: kv.Limits{Value: 1000, Transaction: 100_000}})
	defer db.Close()
	q := open(t, db, Options{})
	value := strings.Repeat("0123456789", 4321)
	_, err := q.Put(ctx, value)
	noError(t, err)
	_, err = q.Put(ctx, strings.Repeat("x", 60_000))
	isError(t, err, kv.ErrTooLarge)
	l, err := q.ReserveWait(ctx)
	noError(t, err)
	if l.Value != value {
		t.Errorf("got %d bytes back", len(l.Value))
	}
	noError(t, l.Ack(ctx))
	sound(t, q)
}

// TestFewOperations: where an engine limits the operations of a transaction, many jobs that become due at once do.
func TestFewOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := memory.New(memory.Options{Limits: kv.Limits{Operations: 128}})
		defer db.Close()
		q := open(t, db, Options{Settings: &Settings{Lease: time.Minute}})
		const jobs = 200
		for range jobs {
			_, err := q.Put(ctx, "v", Job{Delay: time.Minute})
			noError(t, err)
		}
		time.Sleep(2 * time.Minute)
		for range 2 { // the first time their leases run out
			for n := 0; n < jobs; {
				leases, err := q.ReserveWaitN(ctx, 5)
				noError(t, err)
				n += len(leases)
			}
			time.Sleep(2 * time.Minute)
		}
		sound(t, q)
	})
}

// TestAllMatching: an operator's verb over many jobs, in several transactions.
func TestAllMatching(t *testing.T) {
	ctx := context.Background()
	q := open(t, store(t), Options{Settings: &Settings{MaxAttempts: 1}})
	const n = 350
	for i := range n {
		_, err := q.Put(ctx, fmt.Sprint("job ", i%2))
		noError(t, err)
		l, err := q.ReserveWait(ctx)
		noError(t, err)
		noError(t, l.Fail(ctx, errors.New("no luck")))
	}
	told := 0
	kicked, err := q.KickAll(ctx, Filter{State: Dead, Contains: "job 1"}, func(n int) { told = n })
	noError(t, err)
	if kicked != n/2 || told != kicked {
		t.Errorf("%d kicked, %d told", kicked, told)
	}
	changed, err := q.ReprioritiseAll(ctx, Filter{State: Ready}, 7, nil)
	noError(t, err)
	deleted, err := q.DeleteAll(ctx, Filter{State: Dead, MinAttempts: 1}, nil)
	noError(t, err)
	cancelled, err := q.CancelAll(ctx, Filter{}, nil)
	noError(t, err)
	if changed != n/2 || deleted != n/2 || cancelled != n/2 {
		t.Errorf("%d changed, %d deleted, %d cancelled", changed, deleted, cancelled)
	}
	sound(t, q)
}

// TestEventDue: observers are told of scheduled jobs that became ready, and of leases that ran out.
func TestEventDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var due atomic.Int64
		q := open(t, store(t), Options{Settings: &Settings{Lease: time.Minute}, Observe: func(e Event) {
			if e.Kind == EventDue {
				due.Add(int64(e.Jobs))
			}
		}})
		_, err := q.Put(ctx, "a", Job{Delay: time.Minute})
		noError(t, err)
		for want := range 3 {
			if due.Load() != int64(want) {
				t.Errorf("%d jobs were due, want %d", due.Load(), want)
			}
			time.Sleep(2 * time.Minute)
			leases, err := ready(q)(ctx, 1)
			noError(t, err)
			if len(leases) != 1 {
				t.Fatalf("%d jobs", len(leases))
			}
		}
	})
}
