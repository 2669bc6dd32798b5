package retry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
)

// script returns an attempt that fails with each of errs in turn, then
// succeeds, and counts its calls.
func script(calls *int, errs ...error) func() error {
	return func() error {
		*calls++
		if *calls <= len(errs) {
			return errs[*calls-1]
		}
		return nil
	}
}

func TestDoAnswersErrors(t *testing.T) {
	own := errors.New("own")
	unknown := errors.Join(kv.ErrCommitUnknown, kv.ErrConflict)
	wrapped := fmt.Errorf("reading: %w", kv.ErrConflict)
	old := fmt.Errorf("reading: %w", kv.ErrTooOld)
	for _, c := range []struct {
		name  string
		errs  []error
		want  error
		calls int
	}{
		{"success is not repeated", nil, nil, 1},
		{"a conflict is retried", []error{kv.ErrConflict}, nil, 2},
		{"a wrapped conflict is retried", []error{wrapped, wrapped}, nil, 3},
		{"an own error is returned as it is", []error{own}, own, 1},
		{"an own error after a conflict is returned as it is", []error{kv.ErrConflict, own}, own, 2},
		{"an unknown outcome is not retried", []error{unknown}, unknown, 1},
		{"too old is retried", []error{old, old}, nil, kv.MaxTooOld + 1},
		{"too old is retried so often only", []error{old, old, old}, old, kv.MaxTooOld + 1},
		{"conflicts do not add retries of too old", []error{old, kv.ErrConflict, old, old}, old, kv.MaxTooOld + 2},
		{"closed is not retried", []error{kv.ErrClosed}, kv.ErrClosed, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls := 0
			if err := Do(t.Context(), script(&calls, c.errs...)); err != c.want {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if calls != c.calls {
				t.Errorf("%d attempts, want %d", calls, c.calls)
			}
		})
	}
}

func TestDoStopsWithTheContext(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		name     string
		cancelAt int   // the call that cancels
		err      error // what that call returns
		conflict bool
		calls    int
	}{
		{"before the first attempt", 0, nil, false, 0},
		{"between attempts", 2, kv.ErrConflict, true, 2},
		{"between attempts of a transaction that gets too old", 1, kv.ErrTooOld, false, 1},
		{"inside of the first attempt", 1, fmt.Errorf("get: %w", cause), false, 1},
		{"inside of a later attempt", 3, fmt.Errorf("get: %w", cause), true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			if c.cancelAt == 0 {
				cancel(cause)
			}
			calls := 0
			err := Do(ctx, func() error {
				if calls++; calls < c.cancelAt {
					return kv.ErrConflict
				}
				cancel(cause)
				return c.err
			})
			if !errors.Is(err, cause) || errors.Is(err, kv.ErrConflict) != c.conflict {
				t.Errorf("error %v: want the cause, with a conflict: %v", err, c.conflict)
			}
			if calls != c.calls {
				t.Errorf("%d attempts, want %d", calls, c.calls)
			}
		})
	}
}

func TestDoCommitsThoughTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := Do(ctx, func() error { cancel(); return nil }); err != nil {
		t.Errorf("error %v from an attempt that committed", err)
	}
}

func TestPausesDoubleUpToTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pauses []time.Duration
		full := func(limit time.Duration) time.Duration {
			pauses = append(pauses, limit)
			return limit
		}
		calls, start := 0, time.Now()
		conflicts := slices.Repeat([]error{kv.ErrConflict}, 100)
		if err := DoAfter(t.Context(), script(&calls, conflicts...), spread(full)); err != nil {
			t.Fatal(err)
		}
		if got, want := len(pauses), 100-immediate; got != want {
			t.Fatalf("%d pauses after 100 conflicts, want %d", got, want)
		}
		total, want := time.Duration(0), firstPause
		for i, got := range pauses {
			if got != want {
				t.Errorf("pause %d is up to %v, want %v", i, got, want)
			}
			total += got
			want = min(2*want, lastPause)
		}
		if got := time.Since(start); got != total {
			t.Errorf("waited %v in all, want %v", got, total)
		}
	})
}

func TestFirstRetriesDoNotPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls, start := 0, time.Now()
		err := DoAfter(t.Context(), script(&calls, slices.Repeat([]error{kv.ErrConflict}, immediate)...),
			spread(func(time.Duration) time.Duration { return time.Hour }))
		if err != nil || time.Since(start) != 0 {
			t.Errorf("error %v after %v, want none at once", err, time.Since(start))
		}
	})
}

func TestPauseEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		err := DoAfter(ctx, func() error { return kv.ErrConflict },
			func(int) time.Duration { return time.Hour })
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, kv.ErrConflict) {
			t.Errorf("error %v, want the context's and the conflict", err)
		}
		if got := time.Since(start); got != time.Minute {
			t.Errorf("returned after %v, want when the context ended", got)
		}
	})
}

func TestJitterStaysWithinThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		start, calls := time.Now(), 0
		if err := Do(t.Context(), script(&calls, slices.Repeat([]error{kv.ErrConflict}, n)...)); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(start); got <= 0 || got > n*lastPause {
			t.Errorf("waited %v for %d retries, want more than nothing and at most %v", got, n, n*lastPause)
		}
	})
}
