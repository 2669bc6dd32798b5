package work

import (
	"context"
	"errors"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
)

// Kick makes a dead or scheduled job ready now. A dead one has at least one more attempt.
func (q *Queue[T]) Kick(ctx context.Context, id ID) error { return q.one(ctx, id, kick) }

// Delete removes a job in any state. A worker that holds it has lost its lease.
func (q *Queue[T]) Delete(ctx context.Context, id ID) error { return q.one(ctx, id, remove) }

// DeleteFree is Delete for a job that no worker holds. Of one that is leased, the error is an ErrState.
func (q *Queue[T]) DeleteFree(ctx context.Context, id ID) error { return q.one(ctx, id, removeFree) }

// Bury makes a job dead that is in any state but done. A worker that holds it has lost its lease.
func (q *Queue[T]) Bury(ctx context.Context, id ID, reason string) error {
	return q.one(ctx, id, bury(reason))
}

// Cancel makes a job dead. Of one that is leased, the handler's context ends at its next heartbeat, and
// the job is dead unless it is acknowledged all the same.
func (q *Queue[T]) Cancel(ctx context.Context, id ID) error { return q.one(ctx, id, cancel) }

// Reprioritise gives a job another priority; its place is behind those that have it.
func (q *Queue[T]) Reprioritise(ctx context.Context, id ID, priority int64) error {
	return q.one(ctx, id, reprioritise(priority))
}

// EndLease ends the lease of a job as if it had run out: the job is ready again, or dead after its last attempt.
func (q *Queue[T]) EndLease(ctx context.Context, id ID) error { return q.one(ctx, id, endLease) }

// change is what an operator does to a job.
type change struct {
	do   func(q *jobs.Queue, tx kv.Tx, id, now int64) error
	done func(j *jobs.Job) bool // it is so already; nil if that can't be
}

var (
	kick       = change{do: (*jobs.Queue).Kick}
	remove     = change{do: (*jobs.Queue).Delete}
	endLease   = change{do: (*jobs.Queue).EndLease}
	removeFree = change{do: (*jobs.Queue).DeleteFree}
	cancel     = change{do: (*jobs.Queue).Cancel, done: func(j *jobs.Job) bool { return j.State == Dead || j.State == Done || j.Cancelled }}
)

func bury(reason string) change {
	return change{
		do:   func(q *jobs.Queue, tx kv.Tx, id, now int64) error { return q.BuryAny(tx, id, now, reason) },
		done: func(j *jobs.Job) bool { return j.State == Dead },
	}
}

func reprioritise(priority int64) change {
	return change{
		do:   func(q *jobs.Queue, tx kv.Tx, id, now int64) error { return q.Reprioritise(tx, id, now, priority) },
		done: func(j *jobs.Job) bool { return j.Priority == priority },
	}
}

func (q *Queue[T]) one(ctx context.Context, id ID, c change) error {
	_, err := q.verb(ctx, verb{
		do:       func(tx kv.Tx, now int64) (any, error) { return nil, c.do(q.recipe, tx, int64(id), now) },
		announce: true,
	})
	return err
}

// KickAll, DeleteAll, CancelAll and ReprioritiseAll do the same to all jobs that match and were there when
// the call began, some in each transaction, and return how many. progress, if not nil, is told the number so far. After an
// error what was done stays.
func (q *Queue[T]) KickAll(ctx context.Context, f Filter, progress func(int)) (int, error) {
	return q.all(ctx, f, kick, progress)
}

// DeleteAll is Delete for all jobs that match; see KickAll.
func (q *Queue[T]) DeleteAll(ctx context.Context, f Filter, progress func(int)) (int, error) {
	return q.all(ctx, f, remove, progress)
}

// EndLeases is EndLease for all jobs that match; see KickAll.
func (q *Queue[T]) EndLeases(ctx context.Context, f Filter, progress func(int)) (int, error) {
	return q.all(ctx, f, endLease, progress)
}

// BuryAll is Bury for all jobs that match; see KickAll.
func (q *Queue[T]) BuryAll(ctx context.Context, f Filter, reason string, progress func(int)) (int, error) {
	return q.all(ctx, f, bury(reason), progress)
}

// CancelAll is Cancel for all jobs that match; see KickAll.
func (q *Queue[T]) CancelAll(ctx context.Context, f Filter, progress func(int)) (int, error) {
	return q.all(ctx, f, cancel, progress)
}

// ReprioritiseAll is Reprioritise for all jobs that match; see KickAll.
func (q *Queue[T]) ReprioritiseAll(ctx context.Context, f Filter, priority int64, progress func(int)) (int, error) {
	return q.all(ctx, f, reprioritise(priority), progress)
}

func (q *Queue[T]) all(ctx context.Context, f Filter, c change, progress func(int)) (total int, err error) {
	began := micros(q.now())
	var after []byte
	for {
		var some []*jobs.Job
		var next []byte
		err := q.view(ctx, func(r kv.Reader) (err error) {
			some = nil
			next, _, err = q.recipe.List(r, f.jobs(), after, scanned, func(j *jobs.Job) (bool, error) {
				some = append(some, j)
				return len(some) < pageSize, nil
			})
			return err
		})
		if err != nil {
			return total, err
		}
		n, err := q.changeEach(ctx, some, f.jobs(), began, c)
		if total += n; err != nil {
			return total, err
		}
		if progress != nil && n > 0 {
			progress(total)
		}
		if after = next; after == nil {
			return total, nil
		}
	}
}

// changeEach changes those of some jobs, in one transaction, that match still, and were there when the call
// began: else a job that fails and is kicked again and again would keep it from ending.
func (q *Queue[T]) changeEach(ctx context.Context, some []*jobs.Job, f jobs.Filter, began int64, c change) (int, error) {
	if len(some) == 0 {
		return 0, nil
	}
	n, err := q.verb(ctx, verb{announce: true, do: func(tx kv.Tx, now int64) (any, error) {
		n := 0
		for _, j := range some {
			changed, err := q.changeOne(tx, j.ID, f, began, now, c)
			if err != nil {
				return nil, err
			}
			if changed {
				n++
			}
		}
		return n, nil
	}})
	if err != nil {
		return 0, err
	}
	return n.(int), nil
}

func (q *Queue[T]) changeOne(tx kv.Tx, id int64, f jobs.Filter, began, now int64, c change) (bool, error) {
	j, err := q.recipe.Load(tx, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	matches, err := q.recipe.Matches(tx, j, f)
	if err != nil || !matches || j.Created > began || j.State == Dead && j.Time > began || c.done != nil && c.done(j) {
		return false, err
	}
	err = c.do(q.recipe, tx, id, now)
	if errors.Is(err, ErrState) {
		return false, nil
	}
	return err == nil, err
}

// KickFirst kicks the first n dead jobs, or if there are none, the first n scheduled ones, and returns how many.
func (q *Queue[T]) KickFirst(ctx context.Context, n int) (kicked int, err error) {
	for _, state := range []State{Dead, Scheduled} {
		for more := true; more && kicked < n; {
			want := min(n-kicked, q.callsPerTransaction(), pageSize)
			got, err := q.verb(ctx, verb{announce: true, do: func(tx kv.Tx, now int64) (any, error) {
				return q.recipe.KickFirst(tx, state, now, want)
			}})
			if err != nil {
				return kicked, err
			}
			kicked += got.(int)
			more = got.(int) == want
		}
		if kicked > 0 {
			break
		}
	}
	return kicked, nil
}

// Clear removes all jobs in any state, in one transaction. Workers have lost their leases. Periodic
// jobs stay. It conflicts with all verbs. What makes jobs findable is removed before that, in as many transactions as
// it takes, with Options.Findable; of jobs that are put meanwhile it is left behind, and conq check removes it.
func (q *Queue[T]) Clear(ctx context.Context) error {
	if q.options.Findable {
		if _, err := q.DeleteAll(ctx, Filter{}, nil); err != nil {
			return err
		}
	}
	_, err := q.verb(ctx, verb{do: func(tx kv.Tx, _ int64) (any, error) {
		q.recipe.Clear(tx)
		return nil, nil
	}})
	return err
}

// Len returns how many jobs there are in all states.
func (q *Queue[T]) Len(ctx context.Context) (int, error) {
	s, err := q.Stats(ctx)
	return int(s.Ready + s.Scheduled + s.Leased + s.Blocked + s.Dead + s.Done), err
}

// Reclaim does what is due: leases that are over end, and scheduled jobs are ready. Workers do so by
// themselves; it is for programs that only look.
func (q *Queue[T]) Reclaim(ctx context.Context) error {
	for {
		ready, err := q.verb(ctx, verb{do: func(tx kv.Tx, now int64) (any, error) { return q.dueIn(tx, now) }})
		if err != nil || ready.(int) < q.duePerTransaction() {
			return err
		}
	}
}

// Pause has the queue give out nothing until Resume, in all processes. Leases under way go on.
func (q *Queue[T]) Pause(ctx context.Context) error { return q.pause(ctx, true) }

// Resume ends Pause.
func (q *Queue[T]) Resume(ctx context.Context) error { return q.pause(ctx, false) }

func (q *Queue[T]) pause(ctx context.Context, paused bool) error {
	_, err := q.verb(ctx, verb{announce: !paused, do: func(tx kv.Tx, _ int64) (any, error) {
		q.recipe.Pause(tx, paused)
		return nil, nil
	}})
	return err
}

// Count returns how many jobs match, as it reads them a part at a time. progress, if not nil, is told the number so far. For jobs of one
// state alone Stats has it.
func (q *Queue[T]) Count(ctx context.Context, f Filter, progress func(int)) (n int, err error) {
	var after []byte
	for {
		some := 0
		var next []byte
		err := q.view(ctx, func(r kv.Reader) (err error) {
			some = 0
			next, _, err = q.recipe.List(r, f.jobs(), after, scanned, func(*jobs.Job) (bool, error) {
				some++
				return true, nil
			})
			return err
		})
		if err != nil {
			return n, err
		}
		if n += some; progress != nil {
			progress(n)
		}
		if after = next; after == nil {
			return n, nil
		}
	}
}
