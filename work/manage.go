package work

import (
	"context"
	"errors"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
)

// Kick makes a dead or scheduled job ready now. A dead job gets at least one more attempt.
func (q *Queue[T]) Kick(ctx context.Context, id ID) error { return q.one(ctx, id, kick) }

// Delete removes a job in any state. A worker that holds it loses its lease.
func (q *Queue[T]) Delete(ctx context.Context, id ID) error { return q.one(ctx, id, remove) }

// deleteFree removes a job that no worker holds. The error is ErrState if the job is leased.
func (q *Queue[T]) deleteFree(ctx context.Context, id ID) error { return q.one(ctx, id, removeFree) }

// Bury makes a job dead, in any state but done. A worker that holds it loses its lease.
func (q *Queue[T]) Bury(ctx context.Context, id ID, reason string) error {
	return q.one(ctx, id, bury(reason))
}

// Cancel makes a job dead. If it is leased, its handler's context ends: at once if it runs in this process, and within 5 s in
// another one. The job is dead when the
// lease ends, unless its worker acknowledges it all the same.
func (q *Queue[T]) Cancel(ctx context.Context, id ID) error { return q.one(ctx, id, cancel) }

// Reprioritise gives a job a new priority. It comes behind the jobs that have that priority.
func (q *Queue[T]) Reprioritise(ctx context.Context, id ID, priority int64) error {
	return q.one(ctx, id, reprioritise(priority))
}

// EndLease ends the lease of a job as if it had expired: the job is ready again, or dead if this was its last attempt.
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
	cancel     = change{do: (*jobs.Queue).Cancel, done: func(j *jobs.Job) bool { return j.State == jobs.Dead || j.State == jobs.Done || j.Cancelled }}
)

func bury(reason string) change {
	return change{
		do:   func(q *jobs.Queue, tx kv.Tx, id, now int64) error { return q.BuryAny(tx, id, now, reason) },
		done: func(j *jobs.Job) bool { return j.State == jobs.Dead },
	}
}

func reprioritise(priority int64) change {
	return change{
		do:   func(q *jobs.Queue, tx kv.Tx, id, now int64) error { return q.Reprioritise(tx, id, now, priority) },
		done: func(j *jobs.Job) bool { return j.Priority == priority },
	}
}

func (q *Queue[T]) one(ctx context.Context, id ID, c change) error {
	q.fresh(ctx) // a job whose lease is over is leased no more
	return q.verb(ctx, verb{
		do:       func(q *jobs.Queue, tx kv.Tx, now int64) error { return c.do(q, tx, int64(id), now) },
		announce: true,
		loads:    []int64{int64(id)},
	})
}

// KickAll is Kick for all jobs that match and were there when the call began. It returns how many jobs it has changed, and
// calls progress, if that is not nil, with the number so far. It changes some jobs in each transaction: after an error those
// that were changed stay so.
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
	if err := q.ready(ctx); err != nil {
		return 0, err
	}
	q.fresh(ctx)
	began := micros(q.now())
	var after []byte
	for {
		var some []*jobs.Job
		var next []byte
		err := q.view(ctx, func(r kv.Reader) (err error) {
			some = nil
			next, _, err = q.matching(r, f, f.jobs(), after, scanned, func(j *jobs.Job) (bool, error) {
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

// changeEach changes those of some jobs, in as many transactions as that takes, that match still, and were there when
// the call began: else a job that fails and is kicked again and again would keep it from ending.
func (q *Queue[T]) changeEach(ctx context.Context, some []*jobs.Job, f jobs.Filter, began int64, c change) (total int, err error) {
	for len(some) > 0 {
		seen, changed, part := 0, 0, some
		err := q.verb(ctx, verb{announce: true, loads: idsOfJobs(some), do: func(at *jobs.Queue, tx kv.Tx, now int64) error {
			seen, changed = 0, 0
			for _, j := range part {
				if seen > 0 && !at.Fits(tx) {
					break
				}
				did, err := changeOne(at, tx, j.ID, f, began, now, c)
				if err != nil {
					return err
				}
				if seen++; did {
					changed++
				}
			}
			return nil
		}})
		if err != nil {
			return total, err
		}
		total += changed
		some = some[seen:]
	}
	return total, nil
}

func idsOfJobs(some []*jobs.Job) (ids []int64) {
	for _, j := range some {
		ids = append(ids, j.ID)
	}
	return ids
}

func changeOne(q *jobs.Queue, tx kv.Tx, id int64, f jobs.Filter, began, now int64, c change) (bool, error) {
	j, err := q.Load(tx, id)
	if errors.Is(err, ErrNotFound) || q.PassOver(id, err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	matches, err := q.Matches(tx, j, f)
	if err == nil && matches {
		err = q.Usable(tx, j)
	}
	if q.PassOver(id, err) {
		return false, nil
	}
	if err != nil || !matches || j.Created > began || j.State == jobs.Dead && j.Time > began || c.done != nil && c.done(j) {
		return false, err
	}
	err = c.do(q, tx, id, now)
	if errors.Is(err, ErrState) || errors.Is(err, ErrDuplicate) || q.PassOver(id, err) {
		return false, nil
	}
	return err == nil, err
}

// kickFirst kicks the first n dead jobs, or, if there are none, the first n scheduled jobs. It returns how many.
func (q *Queue[T]) kickFirst(ctx context.Context, n int) (kicked int, err error) {
	if n < 0 {
		return 0, q.wrap(invalid("%d jobs to kick: it can't be negative", n))
	}
	q.fresh(ctx)
	for _, state := range []State{Dead, Scheduled} {
		for more := true; more && kicked < n; {
			want := min(n-kicked, pageSize)
			got := 0
			err := q.verb(ctx, verb{announce: true, do: func(q *jobs.Queue, tx kv.Tx, now int64) (err error) {
				got, err = q.KickFirst(tx, jobs.State(state), now, want)
				return err
			}})
			if err != nil {
				return kicked, err
			}
			kicked += got
			more = got > 0
		}
		if kicked > 0 {
			break
		}
	}
	return kicked, nil
}

// Clear removes all jobs, in any state, in one transaction. Workers lose their leases. Periodic jobs stay. It conflicts with
// all other methods. If its jobs are findable it first deletes the jobs in as many transactions as that takes; of a job
// that is put meanwhile, the key that tells Find of it stays behind, and conq check --repair removes that.
func (q *Queue[T]) Clear(ctx context.Context) error {
	if q.options.findable {
		if _, err := q.DeleteAll(ctx, Filter{}, nil); err != nil {
			return err
		}
	}
	return q.verb(ctx, verb{do: func(q *jobs.Queue, tx kv.Tx, _ int64) error {
		q.Clear(tx)
		return nil
	}})
}

// Len returns how many jobs there are, in all states together.
func (q *Queue[T]) Len(ctx context.Context) (int, error) {
	s, err := q.Stats(ctx)
	return int(s.Ready + s.Scheduled + s.Leased + s.Blocked + s.Dead + s.Done), err
}

// Sweep does what is due: it ends leases that are over, and makes scheduled jobs ready whose time has come. Handles that
// reserve do that by themselves, as does Keep, and what reads a queue does it first; Sweep is for programs that want it done.
func (q *Queue[T]) Sweep(ctx context.Context) error {
	if err := q.ready(ctx); err != nil {
		return err
	}
	return q.wrap(q.doDue(ctx))
}

// Pause stops Reserve in all processes from leasing jobs until Resume. Leases under way go on.
func (q *Queue[T]) Pause(ctx context.Context) error { return q.pause(ctx, true) }

// Resume ends Pause.
func (q *Queue[T]) Resume(ctx context.Context) error { return q.pause(ctx, false) }

func (q *Queue[T]) pause(ctx context.Context, paused bool) error {
	return q.verb(ctx, verb{announce: !paused, do: func(at *jobs.Queue, tx kv.Tx, _ int64) error {
		if err := at.Pause(tx, paused); err != nil {
			return err
		}
		return q.entry.Enlist(tx)
	}})
}

// Count returns how many jobs match. It reads them a page at a time, and calls progress, if that is not nil, with the number
// so far. To count all jobs of a state, Stats is quicker.
func (q *Queue[T]) Count(ctx context.Context, f Filter, progress func(int)) (n int, err error) {
	q.fresh(ctx)
	var after []byte
	for {
		some := 0
		var next []byte
		err := q.view(ctx, func(r kv.Reader) (err error) {
			some = 0
			next, _, err = q.matching(r, f, f.jobs(), after, scanned, func(*jobs.Job) (bool, error) {
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
