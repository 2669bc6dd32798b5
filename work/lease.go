package work

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
)

// Lease is a job that a worker holds, until its deadline or until the worker ends the lease. When the lease is over its
// methods return ErrLeaseLost, and change nothing. It is safe for concurrent use.
type Lease[T any] struct {
	ID       ID
	Value    T
	Priority int64
	Attempt  int // of this lease; the first is 1
	Created  time.Time
	Key      string
	Meta     map[string]string
	Payload  []byte    // what Value was decoded from
	Failures []Failure // of earlier attempts

	// Timeout is how long the attempt may run; 0 is without limit. Run sees to it; who reserves by itself is not held to it.
	Timeout time.Duration

	queue  *Queue[T] // nil for a lease of a server
	remote *remote
	token  int64
	length time.Duration
	keyed  bool                      // its end may free a slot, although Key is not known
	over   atomic.Pointer[time.Time] // when it is, with a reading of the monotonic clock
	ended  atomic.Bool               // by a verb that has succeeded
}

func (q *Queue[T]) leaseOf(r jobs.Reserved) *Lease[T] {
	l := &Lease[T]{
		ID: ID(r.ID), Priority: r.Priority, Attempt: int(r.Attempts), Created: timeOf(r.Created), Key: r.Key, Meta: r.Meta,
		Payload: r.Payload, Failures: failures(r.Job),
		queue: q, token: r.Token, length: span(r.Length), Timeout: span(r.Timeout),
	}
	l.over.Store(&r.End)
	return l
}

// Queue returns the name of the job's queue, or "" if the lease was taken by a client of a server.
func (l *Lease[T]) Queue() string {
	if l.queue == nil {
		return ""
	}
	return l.queue.name
}

// Deadline returns when the lease is over, or the zero time if that is not known. It goes by the monotonic clock of this process,
// which nobody sets, and is never later than what the store has: it counts from before the lease was taken or extended.
func (l *Lease[T]) Deadline() time.Time {
	if t := l.over.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

// endsIn returns how long from now a handler may go on: it is to end a moment before its lease does. Until others have the
// job, Skew has passed, too, but that is for clocks that differ.
func (l *Lease[T]) endsIn() time.Duration {
	spare := 100 * time.Millisecond
	if l.queue != nil {
		spare = max(spare, l.queue.options.Skew)
	}
	return time.Until(l.Deadline()) - min(spare, l.length/4)
}

// of returns the queue. That of a Lease which nobody has reserved refuses all verbs.
func (l *Lease[T]) of() *Queue[T] {
	if l.queue == nil {
		return new(Queue[T])
	}
	return l.queue
}

// verb runs a verb on the job.
func (l *Lease[T]) verb(ctx context.Context, kind EventKind, announce bool, do func(q *jobs.Queue, tx kv.Tx, now int64) error) error {
	return l.of().verb(ctx, l.verbOf(kind, announce, do))
}

// verbOf returns a verb on the job. Where the end of a lease may free a slot, callers that wait are told.
func (l *Lease[T]) verbOf(kind EventKind, announce bool, do func(q *jobs.Queue, tx kv.Tx, now int64) error) verb {
	return verb{do: do, announce: announce || l.frees(), kind: kind, id: l.ID, loads: []int64{int64(l.ID)}, key: l.Key}
}

func (l *Lease[T]) frees() bool { return l.keyed || l.Key != "" }

// end notes that a verb has ended the lease, unless that failed.
func (l *Lease[T]) end(err error) error {
	if err == nil {
		l.ended.Store(true)
	}
	return err
}

// Ack acknowledges the job: it is done, and removed or kept for Settings.Keep.
func (l *Lease[T]) Ack(ctx context.Context) error { return l.AckResult(ctx, nil) }

// AckResult is Ack with a result, which is kept with the job for Settings.Keep; see Queue.Result. One that is too large to be
// kept on the engine is kv.ErrTooLarge, and the lease stays.
func (l *Lease[T]) AckResult(ctx context.Context, result []byte) error {
	if l.remote != nil {
		return l.end(l.remote.keeper.Ack(ctx, l.ID, l.remote.token, result))
	}
	err := l.verb(ctx, EventAcked, false, func(q *jobs.Queue, tx kv.Tx, now int64) error {
		return q.Ack(tx, int64(l.ID), l.token, now, result)
	})
	return l.end(err)
}

// Extend makes the lease end d from now; if d is 0, its original length from now. If the job was cancelled the error is
// ErrCancelled, and the lease is extended all the same, so that the worker can clean up.
func (l *Lease[T]) Extend(ctx context.Context, d time.Duration) error {
	if d == 0 {
		d = l.length
	}
	if err := checkLease(d); err != nil {
		return l.wrap(invalid("%w", err))
	}
	if l.remote != nil {
		until, err := l.remote.keeper.Extend(ctx, l.ID, l.remote.token, d)
		if err == nil || errors.Is(err, ErrCancelled) {
			l.setDeadline(until)
		}
		return err
	}
	until := time.Now().Add(d)
	cancelled := false
	v := l.verbOf(EventEnded, false, func(q *jobs.Queue, tx kv.Tx, now int64) (err error) {
		cancelled, err = q.Extend(tx, int64(l.ID), l.token, now, now+d.Microseconds())
		return err
	})
	v.noSync = true
	if err := l.of().verb(ctx, v); err != nil {
		return err
	}
	l.over.Store(&until)
	if cancelled {
		return ErrCancelled
	}
	return nil
}

// setDeadline notes when the lease is over.
func (l *Lease[T]) setDeadline(at time.Time) {
	now := time.Now()
	at = now.Add(at.Sub(now)) // with a monotonic clock, also if at has none
	l.over.Store(&at)
}

// giveBack is Release of a job that was not begun, also when its lease is over, as long as no other worker has the job.
func (l *Lease[T]) giveBack(ctx context.Context) error {
	if l.remote != nil {
		return l.Release(ctx, 0)
	}
	err := l.verb(ctx, EventEnded, true, func(q *jobs.Queue, tx kv.Tx, now int64) error {
		return q.GiveBack(tx, int64(l.ID), l.token, now)
	})
	return l.end(err)
}

// fatal ends the attempt with an error after which no other one can succeed: the job is dead.
func (l *Lease[T]) fatal(ctx context.Context, reason error) error {
	if l.remote != nil {
		return l.Bury(ctx, reason.Error())
	}
	v := l.verbOf(EventFailed, false, func(q *jobs.Queue, tx kv.Tx, now int64) error {
		return q.Bury(tx, int64(l.ID), l.token, now, reason.Error(), nil)
	})
	dead := true
	v.dead = &dead
	return l.end(l.of().verb(ctx, v))
}

// Release gives the job back. It is ready again in its old place, after a delay. The attempt does not count.
func (l *Lease[T]) Release(ctx context.Context, delay time.Duration) error {
	return l.release(ctx, delay, nil)
}

// ReleaseAs is Release with a new priority. The job comes behind those that have that priority.
func (l *Lease[T]) ReleaseAs(ctx context.Context, delay time.Duration, priority int64) error {
	return l.release(ctx, delay, &jobs.NewPriority{Priority: priority})
}

func (l *Lease[T]) release(ctx context.Context, delay time.Duration, as *jobs.NewPriority) error {
	if err := checkDelay(delay); err != nil {
		return l.wrap(err)
	}
	if l.remote != nil {
		return l.end(l.remote.release(ctx, l.ID, delay, as))
	}
	err := l.verb(ctx, EventEnded, true, func(q *jobs.Queue, tx kv.Tx, now int64) error {
		return q.Release(tx, int64(l.ID), l.token, now, later(now, delay), as)
	})
	return l.end(err)
}

func checkDelay(d time.Duration) error {
	if d < 0 {
		return invalid("a delay of %v: it can't be negative", d)
	}
	return nil
}

// later is a time from now, or 0 for now.
func later(now int64, delay time.Duration) int64 {
	if delay <= 0 {
		return 0
	}
	return now + delay.Microseconds()
}

// Fail ends the attempt with an error. The job is retried after the queue's backoff, or dead if this was its last attempt.
// The text of the error is kept.
func (l *Lease[T]) Fail(ctx context.Context, reason error) error {
	if l.remote != nil {
		return l.end(l.remote.keeper.Fail(ctx, l.ID, l.remote.token, nil, textOf(reason)))
	}
	return l.failAt(ctx, func(now int64) int64 { return l.queue.byBackoff(now, l.Attempt) }, reason)
}

// byBackoff is when the next attempt is: the handle may have a function for that.
func (e *engine) byBackoff(now int64, attempt int) int64 {
	if e.options.Backoff == nil {
		return jobs.ByBackoff
	}
	return later(now, e.options.Backoff(attempt))
}

// FailAfter is Fail with a delay in place of the backoff.
func (l *Lease[T]) FailAfter(ctx context.Context, delay time.Duration, reason error) error {
	if err := checkDelay(delay); err != nil {
		return l.wrap(err)
	}
	if l.remote != nil {
		return l.end(l.remote.keeper.Fail(ctx, l.ID, l.remote.token, &delay, textOf(reason)))
	}
	return l.failAt(ctx, func(now int64) int64 { return later(now, delay) }, reason)
}

func (l *Lease[T]) failAt(ctx context.Context, next func(now int64) int64, reason error) error {
	dead := false
	v := l.verbOf(EventFailed, true, func(q *jobs.Queue, tx kv.Tx, now int64) (err error) {
		dead, err = q.Fail(tx, int64(l.ID), l.token, now, next(now), textOf(reason))
		return err
	})
	v.dead = &dead
	return l.end(l.of().verb(ctx, v))
}

func textOf(reason error) string {
	if reason == nil {
		return "failed"
	}
	return reason.Error()
}

// Bury makes the job dead: it is not tried again, unless somebody kicks it.
func (l *Lease[T]) Bury(ctx context.Context, reason string) error {
	if l.remote != nil {
		return l.end(l.remote.keeper.Bury(ctx, l.ID, l.remote.token, reason))
	}
	return l.bury(ctx, reason, nil)
}

func (l *Lease[T]) bury(ctx context.Context, reason string, priority *int64) error {
	err := l.verb(ctx, EventEnded, false, func(q *jobs.Queue, tx kv.Tx, now int64) error {
		return q.Bury(tx, int64(l.ID), l.token, now, reason, priority)
	})
	return l.end(err)
}

// In returns the methods of the lease as a part of a transaction: what the worker writes in it and the end of the lease
// both happen, or neither. So the effects of a job happen exactly once.
func (l *Lease[T]) In(tx kv.Tx) LeaseTx[T] { return LeaseTx[T]{l, tx} }

// LeaseTx is a Lease within a transaction. It is valid until the transaction ends, and not safe for concurrent use. The
// function that is given to Transact must return the errors of its methods. Only ErrLeaseLost may be passed over: nothing
// was changed then, which allows to acknowledge many jobs in one transaction.
type LeaseTx[T any] struct {
	lease *Lease[T]
	tx    kv.Tx
}

func (l LeaseTx[T]) do(do func(q *jobs.Queue, now int64) error) error {
	q := l.lease.queue
	if q == nil {
		return invalid("the lease of job %d is of a server, which has no transactions for its clients", l.lease.ID)
	}
	if err := q.readyIn(l.tx); err != nil {
		return err
	}
	q.recipe.Expect(l.tx, []int64{int64(l.lease.ID)}, []string{l.lease.Key})
	at, err := q.recipe.At(l.tx)
	if err != nil {
		return q.wrap(err)
	}
	if err = do(at, micros(q.now())); err == nil {
		q.announce(l.tx)
		l.tx.OnCommit(func() { l.lease.ended.Store(true) })
	}
	return q.wrap(err)
}

// Ack is Lease.Ack within the transaction.
func (l LeaseTx[T]) Ack() error { return l.AckResult(nil) }

// AckResult is Lease.AckResult within the transaction.
func (l LeaseTx[T]) AckResult(result []byte) error {
	return l.do(func(q *jobs.Queue, now int64) error {
		return q.Ack(l.tx, int64(l.lease.ID), l.lease.token, now, result)
	})
}

// Release is Lease.Release within the transaction.
func (l LeaseTx[T]) Release(delay time.Duration) error {
	if err := checkDelay(delay); err != nil {
		return l.lease.wrap(err)
	}
	return l.do(func(q *jobs.Queue, now int64) error {
		return q.Release(l.tx, int64(l.lease.ID), l.lease.token, now, later(now, delay), nil)
	})
}

// Fail is Lease.Fail within the transaction.
func (l LeaseTx[T]) Fail(reason error) error {
	return l.do(func(q *jobs.Queue, now int64) error {
		_, err := q.Fail(l.tx, int64(l.lease.ID), l.lease.token, now, l.lease.queue.byBackoff(now, l.lease.Attempt), textOf(reason))
		return err
	})
}

// Bury is Lease.Bury within the transaction.
func (l LeaseTx[T]) Bury(reason string) error {
	return l.do(func(q *jobs.Queue, now int64) error {
		return q.Bury(l.tx, int64(l.lease.ID), l.lease.token, now, reason, nil)
	})
}
