package work

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

func drawnSettings(t *rapid.T) Settings {
	rate := rapid.SampledFrom([]Rate{{}, {N: 3, Per: time.Second}, {N: 1, Per: 90 * time.Second}, {N: 7, Per: 5 * time.Microsecond}})
	return Settings{
		Lease:       time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "lease")) * time.Millisecond,
		MaxAttempts: rapid.IntRange(-1, 5).Draw(t, "attempts"),
		Backoff: Backoff{
			Kind: rapid.SampledFrom([]BackoffKind{0, Constant, Exponential, Polynomial}).Draw(t, "kind"),
			Base: time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "base")) * time.Millisecond, Max: time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "max")) * time.Second,
			Jitter: float64(rapid.IntRange(0, 1000).Draw(t, "jitter")) / 1000,
		},
		KeyLimit: rapid.IntRange(0, 5).Draw(t, "key limit"), Concurrency: rapid.IntRange(0, 5).Draw(t, "concurrency"),
		Rate: rate.Draw(t, "rate"), KeyRate: rate.Draw(t, "key rate"), Keep: time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "keep")) * time.Microsecond,
		Order: rapid.SampledFrom([]Order{NearlyStrict, Strict, Relaxed}).Draw(t, "order"), UniqueWhileDead: rapid.Bool().Draw(t, "unique while dead"),
		Timeout: time.Duration(rapid.SampledFrom([]int64{0, 1, 90_000}).Draw(t, "timeout")) * time.Millisecond,
	}
}

// What is stored is what was set, and each text of a setting is read as what was written.
func TestSettingsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := drawnSettings(t).Complete()
		if err != nil {
			t.Fatal(err)
		}
		if again := settingsOf(s.jobs()); again != s {
			t.Fatalf("%+v is stored as %+v", s, again)
		}
		if again, err := s.Complete(); err != nil || again != s {
			t.Fatalf("%+v is completed to %+v (%v)", s, again, err)
		}
		rate, rateErr := ParseRate(s.Rate.String())
		backoff, backoffErr := ParseBackoff(s.Backoff.String())
		order, orderErr := ParseOrder(s.Order.String())
		if err := errors.Join(rateErr, backoffErr, orderErr); err != nil || rate != s.Rate || backoff != s.Backoff || order != s.Order {
			t.Fatalf("%v, %v, %v of %+v: %v", rate, backoff, order, s, err)
		}
	})
}

func TestNoTimeoutSetting(t *testing.T) {
	if s, err := (Settings{Timeout: NoTimeout}).Complete(); err != nil || s.Timeout != 0 {
		t.Errorf("a timeout of none is %v: %v", s.Timeout, err)
	}
}

func TestBadSettings(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	q := open(t, db, Options{})
	for name, s := range map[string]Settings{
		"Lease": {Lease: 1}, "MaxAttempts": {MaxAttempts: -2}, "KeyLimit": {KeyLimit: -1}, "Concurrency": {Concurrency: -1}, "Rate": {Rate: Rate{N: 1}},
		"KeyRate": {KeyRate: Rate{N: -1, Per: time.Second}}, "Keep": {Keep: -1 * time.Second}, "Order": {Order: 3}, "Timeout": {Timeout: 1}, "Backoff.Kind": {Backoff: Backoff{Kind: 9}},
		"Backoff.Base": {Backoff: Backoff{Base: -time.Second}}, "Backoff.Max": {Backoff: Backoff{Max: 366 * 24 * time.Hour}},
		"Backoff.Power": {Backoff: Backoff{Power: 11}}, "Backoff.Jitter": {Backoff: Backoff{Jitter: 1.1}},
	} {
		if err := q.Configure(t.Context(), s); !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Open(t.Context(), db, "jobs", queue.String(), Options{Settings: &s}); !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("Open with %s: %v", name, err)
		}
	}
	for _, text := range []string{"", "1", "/s", "0/s", "-1/s", "1/", "1/0s", "1/721h", "a/s", "1/s/s"} {
		if r, err := ParseRate(text); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("rate %q is %v (%v)", text, r, err)
		}
	}
	for _, text := range []string{"", "base=1s", "linear", "constant base", "constant base=x", "exponential power=2", "polynomial power=0x", "constant jitter=NaN", "constant jitter=2", "default base=1s", "constant foo=1"} {
		if b, err := ParseBackoff(text); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("backoff %q is %v (%v)", text, b, err)
		}
	}
	_, version, err := q.Settings(t.Context())
	noError(t, err)
	if version != 0 {
		t.Errorf("bad settings left version %d", version)
	}
}

// The slots of a limit don't leak when handles know nothing of it, nor when it is taken away and set again.
func TestConcurrencyOfOthers(t *testing.T) {
	ctx := t.Context()
	db := memory.New(memory.Options{})
	defer db.Close()
	q := open(t, db, Options{Settings: &Settings{Concurrency: 1}})
	other := open(t, db, Options{})
	for _, end := range []func(*Lease[string]) error{
		func(l *Lease[string]) error { return other.Delete(ctx, l.ID) },
		func(l *Lease[string]) error { return other.Bury(ctx, l.ID, "") },
		func(l *Lease[string]) error { return other.EndLease(ctx, l.ID) },
		func(l *Lease[string]) error {
			return errors.Join(q.Configure(ctx, Settings{}), l.Ack(ctx), q.Configure(ctx, Settings{Concurrency: 1}))
		},
		func(l *Lease[string]) error { return other.Clear(ctx) },
	} {
		for range 2 {
			_, err := other.Put(ctx, "v")
			noError(t, err)
		}
		got, err := ready(q)(ctx, 5)
		noError(t, err)
		if len(got) != 1 {
			t.Fatalf("%d jobs are leased at once", len(got))
		}
		noError(t, end(got[0]))
	}
	_, err := q.Put(ctx, "the last one")
	noError(t, err)
	got, err := ready(q)(ctx, 1)
	noError(t, err)
	if len(got) != 1 {
		t.Fatal("a slot has leaked")
	}
}

// A change holds for all handles, whatever they were opened with.
func TestConfigure(t *testing.T) {
	ctx := t.Context()
	db := memory.New(memory.Options{})
	defer db.Close()
	var log strings.Builder
	q, other := open(t, db, Options{}), open(t, db, Options{})
	s, version, err := other.Settings(ctx)
	noError(t, err)
	if s != defaultSettings || version != 0 {
		t.Fatalf("settings of a new queue: %+v, version %d", s, version)
	}
	want := Settings{Lease: time.Minute, MaxAttempts: 1, Keep: time.Hour}
	noError(t, q.Configure(ctx, want))
	s, version, err = other.Settings(ctx)
	noError(t, err)
	if complete, _ := want.Complete(); s != complete || version != 1 {
		t.Fatalf("settings: %+v, version %d", s, version)
	}
	id, err := other.Put(ctx, "v")
	noError(t, err)
	l, err := other.ReserveWait(ctx)
	noError(t, err)
	if left := time.Until(l.Deadline()); left < 50*time.Second {
		t.Errorf("a lease of %v", left)
	}
	noError(t, l.Fail(ctx, errors.New("x")))
	info, err := q.Get(ctx, id)
	noError(t, err)
	if info.State != Dead || info.MaxAttempts != 1 {
		t.Errorf("after its only attempt: %v of %d attempts", info.State, info.MaxAttempts)
	}
	if _, err := other.ConfigureFrom(ctx, Settings{}, 0); !errors.Is(err, ErrChanged) {
		t.Errorf("a change of an old version: %v", err)
	}
	if version, err := other.ConfigureFrom(ctx, want, 1); err != nil || version != 1 {
		t.Errorf("the same again: version %d, %v", version, err)
	}
	noError(t, q.Pause(ctx))
	for range 2 { // it declares the same again, and nothing changes
		third := open(t, db, Options{Settings: &Settings{Lease: time.Hour}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		_, version, err = third.Settings(ctx)
		noError(t, err)
		if stats, err := third.Stats(ctx); err != nil || version != 2 || !stats.Paused {
			t.Errorf("version %d, paused %v (%v)", version, stats.Paused, err)
		}
	}
	if n := strings.Count(log.String(), "settings of a work queue changed"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
}

// A limit that is raised lets in the jobs that it held up.
func TestRaisedLimits(t *testing.T) {
	ctx := t.Context()
	db := memory.New(memory.Options{})
	defer db.Close()
	q, other := open(t, db, Options{}), open(t, db, Options{})
	for range 40 {
		_, err := q.Put(ctx, "v", Job{Key: "k"})
		noError(t, err)
	}
	reserve := func(want int) {
		t.Helper()
		n := 0
		for {
			got, err := ready(q)(ctx, 100)
			noError(t, err)
			if n += len(got); len(got) == 0 {
				break
			}
		}
		if n != want {
			t.Fatalf("%d jobs were leased, want %d", n, want)
		}
	}
	reserve(1)
	noError(t, other.Configure(ctx, Settings{KeyLimit: 3}))
	reserve(2)
	noError(t, other.Configure(ctx, Settings{KeyLimit: 50, Concurrency: 5}))
	reserve(2)
	noError(t, other.Configure(ctx, Settings{KeyLimit: 50}))
	reserve(35)
}

// A worker that waits learns of a raised limit.
func TestConfigureWakes(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	db := memory.New(memory.Options{})
	defer db.Close()
	q, other := open(t, db, Options{Settings: &Settings{Rate: Rate{N: 1, Per: time.Hour}}}), open(t, db, Options{})
	for range 2 {
		_, err := q.Put(ctx, "v")
		noError(t, err)
	}
	_, err := q.ReserveWait(ctx)
	noError(t, err)
	reserved := make(chan error)
	go func() {
		_, err := q.ReserveWait(ctx)
		reserved <- err
	}()
	noError(t, other.Configure(ctx, Settings{}))
	noError(t, <-reserved)
}

// A dead job has its unique text no longer, unless the settings say so.
func TestUniqueWhileDead(t *testing.T) {
	ctx := t.Context()
	for _, held := range []bool{false, true} {
		db := memory.New(memory.Options{})
		defer db.Close()
		q := open(t, db, Options{Settings: &Settings{UniqueWhileDead: held}})
		for _, die := range []func(ID) error{
			func(id ID) error { return q.Cancel(ctx, id) },
			func(id ID) error { return q.Bury(ctx, id, "") },
			func(id ID) error {
				l, err := q.reserveID(ctx, id, ReserveOptions{})
				noError(t, err)
				return l.Bury(ctx, "")
			},
		} {
			id, err := q.Put(ctx, "first", Job{Unique: "u"})
			noError(t, err)
			noError(t, die(id))
			second, err := q.Put(ctx, "second", Job{Unique: "u"})
			if held {
				isError(t, err, ErrDuplicate)
				noError(t, q.Kick(ctx, id))
				noError(t, q.Delete(ctx, id))
				continue
			}
			noError(t, err)
			isError(t, q.Kick(ctx, id), ErrDuplicate)
			_, err = q.reserveID(ctx, id, ReserveOptions{})
			isError(t, err, ErrDuplicate)
			n, err := q.KickAll(ctx, Filter{State: Dead}, nil)
			noError(t, err)
			first, err := q.kickFirst(ctx, 5)
			noError(t, err)
			if n != 0 || first != 0 {
				t.Errorf("kicked %d and %d jobs whose text others have", n, first)
			}
			noError(t, q.Delete(ctx, id)) // leaves the other one's
			_, err = q.Put(ctx, "third", Job{Unique: "u"})
			isError(t, err, ErrDuplicate)
			noError(t, q.Cancel(ctx, second))
			noError(t, q.Kick(ctx, second)) // nobody has it
			_, err = q.Put(ctx, "third", Job{Unique: "u"})
			isError(t, err, ErrDuplicate)
			noError(t, q.Delete(ctx, second))
		}
		sound(t, q)
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		of       Backoff
		attempts []time.Duration
	}{
		{Backoff{Kind: Constant, Base: 3 * time.Second}, []time.Duration{3 * time.Second, 3 * time.Second, 3 * time.Second}},
		{Backoff{Kind: Exponential, Base: time.Second, Max: 3 * time.Second}, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}},
		{Backoff{Power: 2}, []time.Duration{time.Second, 4 * time.Second, 9 * time.Second}},
	} {
		s, err := Settings{Backoff: c.of}.Complete()
		noError(t, err)
		b := s.jobs().Backoff
		for i, want := range c.attempts {
			if got := span(b.After(int64(i + 1))); got != want {
				t.Errorf("%v, attempt %d: %v, want %v", s.Backoff, i+1, got, want)
			}
		}
		if got := b.After(1 << 40); got > b.Max || got < 0 {
			t.Errorf("%v in the end: %d", s.Backoff, got)
		}
	}
	b := jobs.DefaultSettings.Backoff
	for range 100 {
		if got := b.After(2); got < 16e6*9/10 || got > 16e6*11/10 {
			t.Errorf("with jitter: %d", got)
		}
	}
}
