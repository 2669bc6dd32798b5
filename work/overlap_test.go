package work

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
)

// What a tick does while the job of the last one is there.
func TestOverlap(t *testing.T) {
	for name, c := range map[string]struct {
		o    EveryOptions
		jobs int // after ten ticks of a paused queue
	}{
		"run": {EveryOptions{}, 10}, "skip": {EveryOptions{Overlap: Skip}, 1}, "replace": {EveryOptions{Overlap: Replace}, 1},
		"unique": {EveryOptions{Job: Job{Unique: "u", UniqueFor: time.Millisecond, Meta: map[string]string{"a": "b"}, Timeout: time.Hour}}, 1},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { overlaps10(t, c.o, c.jobs) }) })
	}
}

func overlaps10(t *testing.T, o EveryOptions, want int) {
	ctx := t.Context()
	q := open(t, store(t), Options{})
	noError(t, q.Pause(ctx))
	noError(t, q.Every(ctx, "p", "@every 60s", "v", o))
	ticks := func(n int) (infos []*Info[string]) {
		for range n {
			time.Sleep(time.Minute) // of the bubble's clock
			_, err := ready(q)(ctx, 1)
			noError(t, err)
		}
		infos, _, err := q.Page(ctx, Filter{}, nil, 100)
		noError(t, err)
		return infos
	}
	got := ticks(10)
	if len(got) != want || got[0].Unique != o.Unique || got[0].Meta["a"] != o.Meta["a"] || got[0].Timeout != o.Timeout {
		t.Fatalf("after ten ticks there are %d jobs, want %d: %+v", len(got), want, got[0])
	}
	if o.Overlap == Replace && time.Since(got[0].Created) > 30*time.Second {
		t.Errorf("the job is of %v, not of the last tick", got[0].Created)
	}
	noError(t, q.Every(ctx, "p", "@every 60s", "v", o)) // the last job is known all the same
	all, err := q.Periodics(ctx)
	noError(t, err)
	if len(all) != 1 || all[0].Overlap != o.Overlap || all[0].Unique != o.Unique {
		t.Errorf("periodic jobs: %+v", all)
	}
	noError(t, q.Resume(ctx))
	l, err := q.ReserveWait(ctx)
	noError(t, err)
	noError(t, l.Extend(ctx, time.Hour))
	noError(t, q.Pause(ctx))
	beside := map[Overlap]int{RunToo: 11, Skip: 1, Replace: 2}[o.Overlap]
	if o.Unique != "" {
		beside = 1
	}
	if n := len(ticks(1)); n != beside {
		t.Errorf("beside a leased one there are %d jobs, want %d", n, beside)
	}
	if info, err := q.Get(ctx, l.ID); err != nil || info.Cancelled != (o.Overlap == Replace) {
		t.Errorf("the leased one: %+v (%v)", info, err)
	}
	noError(t, l.Bury(ctx, "dead ones are not there"))
	if n := len(ticks(1)); o.Overlap == Skip && n != 2 {
		t.Errorf("beside a dead one there are %d jobs", n)
	}
	if id, err := q.RunPeriodic(ctx, "p"); o.Unique != "" {
		isError(t, err, ErrDuplicate)
	} else if err != nil || id == 0 {
		t.Errorf("one more now: %v", err)
	}
	sound(t, q)
}

func TestBadEvery(t *testing.T) {
	q := open(t, store(t), Options{})
	for name, o := range map[string]EveryOptions{
		"Delay": {Job: Job{Delay: 1}}, "At": {Job: Job{At: time.Now()}}, "Overlap": {Overlap: 3}, "Unique": {Overlap: Replace, Job: Job{Unique: "u"}},
		"MaxLate": {MaxLate: -1}, "Timeout": {Job: Job{Timeout: 1}},
	} {
		if err := q.Every(t.Context(), "p", "@daily", "v", o); err == nil {
			t.Errorf("%s is not refused", name)
		} else {
			isError(t, err, kv.ErrInvalid)
		}
	}
	for o := RunToo; o <= Replace; o++ {
		if again, err := ParseOverlap(o.String()); err != nil || again != o {
			t.Errorf("%v is read as %v: %v", o, again, err)
		}
	}
	_, err := ParseOverlap("never")
	isError(t, err, kv.ErrInvalid)
}
