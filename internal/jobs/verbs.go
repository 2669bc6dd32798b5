package jobs

import (
	"cmp"
	"fmt"

	"github.com/conq-go/conq/kv"
)

// held returns the job of a lease, or ErrLeaseLost.
func (q *Queue) held(r kv.Reader, id, token, now int64) (*Job, error) {
	j, err := q.Load(r, id)
	switch {
	case err == ErrNotFound:
		return nil, fmt.Errorf("%w: job %d is gone", ErrLeaseLost, id)
	case err != nil:
		return nil, err
	case j.State != Leased:
		return nil, fmt.Errorf("%w: job %d is %v by now", ErrLeaseLost, id, j.State)
	case j.Token != token:
		return nil, fmt.Errorf("%w: job %d has been leased again", ErrLeaseLost, id)
	case j.Time <= now:
		return nil, fmt.Errorf("%w: the lease of job %d is over", ErrLeaseLost, id)
	}
	return j, nil
}

// Held returns ErrLeaseLost if a lease is lost, and tells whether its job was cancelled.
func (q *Queue) Held(r kv.Reader, id, token, now int64) (cancelled bool, err error) {
	j, err := q.held(r, id, token, now)
	return err == nil && j.Cancelled, err
}

// AllRecalled is in place of an id when the leases of all jobs are recalled.
const AllRecalled = 0

// recall tells holders in this process that the lease of a job is lost to them, if it has one, or that it was cancelled.
func (q *Queue) recall(tx kv.Tx, j *Job) {
	if j.State == Leased && q.config.Recalled != nil {
		id := j.ID
		tx.OnCommit(func() { q.config.Recalled(id) })
	}
}

// Ack ends a job that is done. Where jobs that are done are kept, result is, too, unless it is nil.
func (q *Queue) Ack(tx kv.Tx, id, token, now int64, result []byte) error {
	j, err := q.held(tx, id, token, now)
	if err != nil {
		return err
	}
	if q.config.Keep <= 0 {
		return q.remove(tx, j, now)
	}
	return q.finish(tx, j, now, result)
}

// Extend makes a lease end at another time, and tells whether the job was cancelled.
func (q *Queue) Extend(tx kv.Tx, id, token, now, until int64) (cancelled bool, err error) {
	j, err := q.held(tx, id, token, now)
	if err != nil {
		return false, err
	}
	q.move(tx, j, Leased, func() { j.Token, j.Time = token, until })
	return j.Cancelled, nil
}

// Release gives a job back: it is ready in its old place, at once or at a time. The attempt does
// not count, but it has started, as far as rates are concerned. A priority other than nil is its new one; then its place is behind those of that priority, or
// the old one.
func (q *Queue) Release(tx kv.Tx, id, token, now, at int64, as *NewPriority) error {
	j, err := q.held(tx, id, token, now)
	if err != nil {
		return err
	}
	if j.Cancelled {
		j.fail(now, cancelledText)
		return q.bury(tx, j, now)
	}
	j.Attempts--
	place := j.Place
	if as != nil && as.Priority != j.Priority && !as.OldPlace {
		if place, err = q.Places().next(tx, as.Priority, now); err != nil {
			return err
		}
	}
	q.leave(tx, j)
	if as != nil {
		j.Priority, j.Place = as.Priority, place
	}
	j.Time = now
	j.Releases, j.Delay = j.Releases+1, max(0, at-now)
	return q.admitAt(tx, j, now, at)
}

// GiveBack is Release at once of a job that nobody has begun, also when its lease is over, as long as no other has the job.
func (q *Queue) GiveBack(tx kv.Tx, id, token, now int64) error {
	j, err := q.Load(tx, id)
	if err == nil && j.State == Leased && j.Token == token {
		now = min(now, j.Time-1) // as if it was given back in time
	}
	return q.Release(tx, id, token, now, 0, nil)
}

// NewPriority is a priority that a job gets as its lease ends.
type NewPriority struct {
	Priority int64
	OldPlace bool // it keeps its place, which is the time when it was put: older jobs are first
}

// again makes a job ready in its old place, at once or at a time.
func (q *Queue) again(tx kv.Tx, j *Job, now, at int64) error {
	q.leave(tx, j)
	j.Time = now
	return q.admitAt(tx, j, now, at)
}

// admitAt is admit, at once or at a time.
func (q *Queue) admitAt(tx kv.Tx, j *Job, now, at int64) error {
	if at > now {
		j.State, j.Time = Scheduled, at
		q.enter(tx, j)
		return nil
	}
	return q.admit(tx, j, now)
}

// Attempts returns after how many attempts a job is dead; 0 is without end.
func (q *Queue) Attempts(j *Job) int64 {
	if j.MaxAttempts == 0 {
		return q.config.MaxAttempts
	}
	return max(0, j.MaxAttempts)
}

// Timeout returns how long an attempt of a job may run; 0 is without limit.
func (q *Queue) Timeout(j *Job) int64 { return max(0, cmp.Or(j.Timeout, q.config.Timeout)) }

// NoTimeout is the Timeout of a job without a limit.
const NoTimeout = -1

// wasLast tells whether the attempt under way is the last one.
func (q *Queue) wasLast(j *Job) bool {
	most := q.Attempts(j)
	return most > 0 && j.Attempts >= most
}

// allowAttempt lets a job have at least one more attempt.
func (q *Queue) allowAttempt(j *Job) {
	if q.wasLast(j) {
		j.MaxAttempts = j.Attempts + 1
	}
}

// ByBackoff is the time of the next attempt that the queue's backoff says.
const ByBackoff = -1

// Fail ends an attempt with an error: the job is tried again at a time, which may be ByBackoff, or is dead after its last attempt.
func (q *Queue) Fail(tx kv.Tx, id, token, now, at int64, reason string) (dead bool, err error) {
	j, err := q.held(tx, id, token, now)
	if err != nil {
		return false, err
	}
	j.fail(now, reason)
	if j.Cancelled || q.wasLast(j) {
		return true, q.bury(tx, j, now)
	}
	if at == ByBackoff {
		at = now + q.config.Backoff.After(j.Attempts)
	}
	return false, q.again(tx, j, now, at)
}

// Bury makes a leased job dead. A priority other than nil is what it has when it is kicked, in its old place.
func (q *Queue) Bury(tx kv.Tx, id, token, now int64, reason string, priority *int64) error {
	j, err := q.held(tx, id, token, now)
	if err != nil {
		return err
	}
	j.fail(now, reason)
	if priority != nil {
		j.Priority = *priority // no entry of a leased job has it
	}
	return q.bury(tx, j, now)
}

const cancelledText = "cancelled"

// Kick makes a dead or scheduled job ready. A dead one has at least one more attempt.
func (q *Queue) Kick(tx kv.Tx, id, now int64) error {
	j, err := q.Load(tx, id)
	if err != nil {
		return err
	}
	if j.State != Dead && j.State != Scheduled {
		return fmt.Errorf("%w: job %d is %v: only a dead or a scheduled one can be made ready", ErrState, id, j.State)
	}
	if err := q.mayRevive(tx, j, now); err != nil {
		return err
	}
	q.revive(tx, j)
	q.allowAttempt(j)
	j.Kicks++
	return q.again(tx, j, now, 0)
}

// Usable returns an queue.ErrCorrupt if a verb on a job would come upon what can't be read, beside the job and its claim, or nil.
func (q *Queue) Usable(r kv.Reader, j *Job) error {
	if j.Key == "" {
		return nil
	}
	_, err := q.loadSlots(r, j.Key)
	return err
}

// PassOver tells of a job of which something can't be read, and whether an error is of that.
func (q *Queue) PassOver(id int64, err error) bool { return q.aside(withInts(q.headers, id), err) }

// KickFirst kicks up to n jobs of a state, which is dead or scheduled, in the order of that, as many as the transaction has
// room for, and returns how many.
func (q *Queue) KickFirst(tx kv.Tx, state State, now int64, n int) (kicked int, err error) {
	var first []*Job
	const looked = 2000
	r := tx.Snapshot()
	_, _, err = q.List(r, Filter{State: state}, nil, max(n, looked), func(j *Job) (bool, error) {
		err := q.Usable(r, j)
		if err == nil {
			err = q.mayRevive(r, j, now)
		}
		switch {
		case err == nil:
			first = append(first, j)
		case isDuplicate(err) || q.PassOver(j.ID, err):
			err = nil
		}
		return len(first) < n, err
	})
	if err != nil {
		return 0, err
	}
	ids := make([]int64, len(first))
	for i, j := range first {
		ids[i] = j.ID
	}
	ids = ids[:min(len(ids), q.most(len(ids)+1))]
	q.expect(tx, ids, 0)
	if q, err = q.Having(tx, ids); err != nil {
		return 0, err
	}
	for i, j := range first {
		if i > 0 && !q.Fits(tx) {
			break
		}
		err := q.Kick(tx, j.ID, now)
		switch {
		case err == nil:
			kicked++
		case !isDuplicate(err): // of one that was kicked before it
			return 0, err
		}
	}
	return kicked, nil
}

// Delete removes a job in any state. Its holder has lost its lease.
func (q *Queue) Delete(tx kv.Tx, id, now int64) error {
	j, err := q.Load(tx, id)
	if err != nil {
		return err
	}
	q.recall(tx, j)
	return q.remove(tx, j, now)
}

// DeleteFree is Delete for a job that nobody has leased.
func (q *Queue) DeleteFree(tx kv.Tx, id, now int64) error {
	j, err := q.Load(tx, id)
	if err == nil && j.State == Leased {
		err = fmt.Errorf("%w: job %d is leased", ErrState, id)
	}
	if err != nil {
		return err
	}
	return q.remove(tx, j, now)
}

// Cancel makes a job dead; one that is leased, when its attempt ends without an acknowledgement. Its
// holder learns of that when it extends the lease. A job that is dead or done stays what it is.
func (q *Queue) Cancel(tx kv.Tx, id, now int64) error {
	j, err := q.Load(tx, id)
	switch {
	case err != nil:
		return err
	case j.State == Dead || j.State == Done || j.Cancelled:
		return nil
	case j.State == Leased:
		j.Cancelled = true
		q.recall(tx, j)
		q.save(tx, j)
		return nil
	}
	j.fail(now, cancelledText)
	return q.bury(tx, j, now)
}

// BuryAny makes a job dead that is in any state but done. A holder has lost its lease.
func (q *Queue) BuryAny(tx kv.Tx, id, now int64, reason string) error {
	j, err := q.Load(tx, id)
	switch {
	case err != nil:
		return err
	case j.State == Dead:
		return nil
	case j.State == Done:
		return fmt.Errorf("%w: job %d is done", ErrState, id)
	}
	q.recall(tx, j)
	j.fail(now, reason)
	return q.bury(tx, j, now)
}

// Reprioritise gives a job another priority, and the last place of it. A leased one has
// it from its next attempt on.
func (q *Queue) Reprioritise(tx kv.Tx, id, now, priority int64) error {
	j, err := q.Load(tx, id)
	if err != nil || j.Priority == priority {
		return err
	}
	if j.State == Done {
		return fmt.Errorf("%w: job %d is done", ErrState, id)
	}
	place, err := q.Places().next(tx, priority, now)
	if err != nil {
		return err
	}
	token := j.Token
	q.move(tx, j, j.State, func() { j.Token, j.Priority, j.Place = token, priority, place })
	return nil
}
