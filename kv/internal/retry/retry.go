// Package retry is the loop around one attempt of a transaction that engines
// share, so that all of them answer conflicts and ended contexts alike.
//
// A conflict is usually with a transaction that has just finished, so the first
// retries are made at once. If they fail too, many are after the same keys, and
// spreading them over time (full jitter: a uniformly random part of a pause that
// doubles) lets more of them through than trying harder.
package retry

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/conq-go/conq/kv"
)

const (
	immediate  = 3                     // retries without a pause
	firstPause = 20 * time.Microsecond // longest pause before the next retry
	lastPause  = 20 * time.Millisecond // to which it doubles
)

// Do calls attempt, which runs and commits one transaction, as kv.DB.Transact
// promises:
//
//   - after a kv.ErrConflict again, until ctx ends;
//   - after a kv.ErrTooOld again, kv.MaxTooOld times;
//   - any other error, kv.ErrCommitUnknown included, it returns as it is.
//
// When ctx ends, the error wraps its cause and, if an attempt had conflicted,
// kv.ErrConflict. Do does not call attempt once ctx has ended, nor if it is nil.
func Do(ctx context.Context, attempt func() error) error {
	return DoAfter(ctx, attempt, spread(func(limit time.Duration) time.Duration { return rand.N(limit + 1) }))
}

// Ready returns the error with which a transaction of f must not begin: kv.ErrInvalid if ctx
// or f is nil, and the cause of ctx if it has ended; or nil.
func Ready[T any](ctx context.Context, f func(T) error) error {
	if f == nil {
		return fmt.Errorf("%w: nil function", kv.ErrInvalid)
	}
	return Ended(ctx)
}

// Ended returns the cause with which ctx has ended, kv.ErrInvalid if it is nil, or nil.
func Ended(ctx context.Context) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: nil context", kv.ErrInvalid)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return nil
}

// spread returns the pauses of Do, given the source of jitter, which picks one from 0 to limit.
func spread(jitter func(limit time.Duration) time.Duration) func(conflicts int) time.Duration {
	return func(conflicts int) time.Duration {
		if conflicts <= immediate {
			return 0
		}
		return jitter(longest(conflicts))
	}
}

// DoAfter is Do with pauses of the engine's own: how long to wait after so many conflicts.
func DoAfter(ctx context.Context, attempt func() error, pause func(conflicts int) time.Duration) error {
	var conflicts, tooOld int
	for {
		if err := Ended(ctx); err != nil {
			return stopped(err, conflicts)
		}
		err := attempt()
		switch {
		case err == nil, errors.Is(err, kv.ErrCommitUnknown):
			return err
		case errors.Is(err, kv.ErrConflict):
			conflicts++
			Sleep(ctx, pause(conflicts))
		case errors.Is(err, kv.ErrTooOld) && tooOld < kv.MaxTooOld:
			tooOld++
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return stopped(err, conflicts)
		default:
			return err
		}
	}
}

// stopped adds to the error of an ended context that conflicts had kept the
// transaction from committing.
func stopped(err error, conflicts int) error {
	if conflicts == 0 {
		return err
	}
	return fmt.Errorf("%w, after %d times: %w", kv.ErrConflict, conflicts, err)
}

// Sleep waits for d, or until ctx ends. Without a d it lets others run.
func Sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		runtime.Gosched()
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// longest is the longest pause after so many conflicts.
func longest(conflicts int) time.Duration {
	doublings := min(conflicts-immediate-1, 30)
	return min(firstPause<<doublings, lastPause)
}
