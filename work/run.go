package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Handler does a job. If it returns nil, the job is acknowledged; after an error it is tried again, after Options.Backoff.
// A panic counts as an error, and is kept with its stack. The context ends when the lease is lost, or is about to be over as it
// could not be extended (with cause ErrLeaseLost), the job is cancelled (ErrCancelled), the attempt has run for the job's Timeout
// (ErrTimeout), or the runner has waited for Grace.
//
// An attempt that has timed out has failed, whatever the handler returns then. Its lease is not extended any longer. A handler that
// has not returned after Grace, or shortly before the lease is over, loses the job, and its worker is not free until it returns.
//
// A handler may end the lease itself, with a result by [Lease.AckResult], or in a transaction by [Lease.In]. The runner then
// leaves the job alone, and passes an error that the handler returns to OnError only.
type Handler[T any] func(ctx context.Context, job *Lease[T]) error

// RunOptions configure Run.
type RunOptions struct {
	// Workers is how many jobs run at once, up to 1,000,000. Default: 1.
	Workers int

	// Grace is how long handlers may go on after the runner's context has ended. Default: 30 s.
	Grace time.Duration

	// Drain has Run end when no job is left that it could do: when none is ready, with what is due done, nor leased by any worker,
	// which might give it back; or when the queue is paused. Jobs that are scheduled or tried again later are not waited for.
	Drain bool

	// OnError is called for each job that is not handed to the handler, as it does not decode or its lease came too late, after each failed attempt, once its end is stored, and with each error that kept Run from extending
	// or ending a lease. With the job 0 it is called when the store does not answer who reserves, which Run tries again. Default: the
	// queue's Options.Logger gets these errors.
	OnError func(job ID, err error)
}

// maxWorkers bounds the workers of a runner: it counts those that are free one by one.
const maxWorkers = 1_000_000

// errGrace is the cause of a handler's context at the end of Grace.
var errGrace = errors.New("the runner has stopped")

type cancelError struct{ error }

func (c cancelError) Unwrap() error { return c.error }

// Cancel returns an error with which a handler makes its job dead at once, even if it has attempts left. A nil err is ErrCancelled.
func Cancel(err error) error { return cancelError{cmp.Or(err, ErrCancelled)} }

type snoozeError time.Duration

func (s snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", time.Duration(s)) }

// Snoozed returns for how long the job is put off.
func (s snoozeError) Snoozed() time.Duration { return time.Duration(s) }

// Snooze returns an error with which a handler puts its job off for d. The attempt does not count.
func Snooze(d time.Duration) error { return snoozeError(d) }

// Run runs the handler for each job of a Queue, of a Union, or of a server's queue, until ctx ends. It returns nil then, or
// the error of the store that made it stop. That it does not answer does not: Run goes on when it does, however long that takes.
//
// It leases no more jobs than it has free workers. While a handler runs, Run extends its lease at each third of it, and where
// other processes may recall it, looks after it each 5 s. If the
// store does not let it, the handler's context ends before the lease is over: by Skew, at least 100 ms, and at most by a
// quarter of the lease. That goes by the monotonic clock, which counts from before the lease was asked for. A job of which less
// than half of its lease is left when it comes is given back, and its attempt does not count. When ctx ends, Run leases nothing more and lets handlers go on for Grace; then it ends
// their contexts, and releases the jobs of those that return. If a handler does not return even then, its job comes back
// when its lease is over. So it does when the process is killed; but where one process has the store, at once when the queue is opened again.
func Run[T any](ctx context.Context, q Source[T], h Handler[T], opts ...RunOptions) error {
	if q == nil {
		return invalid("queue is nil")
	}
	o, err := options.Only(opts)
	if err != nil {
		return fmt.Errorf("work queue %q: %w", q.Name(), err)
	}
	setDefault(&o.Workers, 1)
	setDefault(&o.Grace, 30*time.Second)
	switch {
	case h == nil:
		return invalid("work queue %q: handler is nil", q.Name())
	case o.Workers < 1 || o.Workers > maxWorkers || o.Grace < 0:
		return invalid("work queue %q: %d workers, grace %v: there can be 1 to %d workers, and grace can't be negative", q.Name(), o.Workers, o.Grace, maxWorkers)
	}
	if err := contextError(ctx); err != nil {
		return err
	}
	r := &runner[T]{queue: q, handler: h, options: o, free: make(chan struct{}, o.Workers)}
	return r.run(ctx)
}

type runner[T any] struct {
	queue   Source[T]
	handler Handler[T]
	options RunOptions
	free    chan struct{} // has one for each worker that does something
	running sync.WaitGroup
}

func (r *runner[T]) run(ctx context.Context) error {
	handlers, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(errGrace)
	var failed error
	var leases []*Lease[T]
	reserving := context.WithValue(ctx, inRunner{}, true)
	if tell := r.options.OnError; tell != nil {
		reserving = context.WithValue(reserving, teller{}, tell)
	}
	for ctx.Err() == nil && failed == nil {
		n := r.occupy(ctx, len(leases))
		if n == 0 {
			break
		}
		if leases, failed = r.reserve(reserving, n); failed != nil && ctx.Err() == nil && isOutage(failed) {
			r.outlast(ctx, failed)
			failed = nil
		}
		for range n - len(leases) {
			<-r.free
		}
		for _, l := range leases {
			r.running.Go(func() {
				defer func() { <-r.free }()
				r.work(handlers, l)
			})
		}
		if ctx.Err() != nil || errors.Is(failed, errDrained) {
			failed = nil
			break
		}
	}
	r.wait(stop)
	return failed
}

// outageRest is how long a runner rests when the store did not answer, which mostly has taken long itself.
const outageRest = time.Second

// isOutage tells whether a reservation has failed as the store, or its server, does not answer. What it may have leased comes back.
func isOutage(err error) bool {
	return errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrCommitUnknown) || errors.Is(err, context.DeadlineExceeded)
}

// outlast tells of an outage, and rests.
func (r *runner[T]) outlast(ctx context.Context, err error) {
	err = fmt.Errorf("no jobs can be reserved, which is tried again: %w", err)
	if r.options.OnError != nil {
		r.options.OnError(0, err)
	} else if q, ok := r.queue.(interface{ tell(ID, error) }); ok {
		q.tell(0, err)
	}
	timer := time.NewTimer(outageRest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// errDrained ends a runner that drains.
var errDrained = errors.New("there is no job that could be done")

// drainEvery is how often a runner that drains looks, while workers have jobs, or limits hold them back.
const drainEvery = 100 * time.Millisecond

// reserve leases up to n jobs, for as many workers, and at least one.
func (r *runner[T]) reserve(ctx context.Context, n int) ([]*Lease[T], error) {
	if !r.options.Drain {
		return r.queue.ReserveWaitN(ctx, n)
	}
	for {
		leases, err := r.queue.ReserveN(ctx, n)
		if !errors.Is(err, queue.ErrEmpty) {
			return leases, err
		}
		idle := len(r.free) == n
		switch drained, err := r.queue.Drained(ctx); {
		case err != nil:
			return nil, err
		case idle && drained:
			return nil, errDrained
		}
		timer := time.NewTimer(drainEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// occupy waits for a free worker, and takes all that are free. As many as began together last mostly end together, too: it
// waits for them for a moment, as one transaction for all of them is less work than several.
func (r *runner[T]) occupy(ctx context.Context, last int) (n int) {
	select {
	case r.free <- struct{}{}:
		n++
	case <-ctx.Done():
		return 0
	}
	all := func() bool {
		for {
			select {
			case r.free <- struct{}{}:
				n++
			default:
				return n >= last
			}
		}
	}
	batch.Gather(batch.ForCallers, all)
	return n
}

// wait waits for handlers, up to Grace; then it ends their contexts, and waits for as long again.
func (r *runner[T]) wait(stop context.CancelCauseFunc) {
	done := make(chan struct{})
	go func() {
		r.running.Wait()
		close(done)
	}()
	for _, then := range []func(){func() { stop(errGrace) }, func() {}} {
		timer := time.NewTimer(r.options.Grace)
		select {
		case <-done:
			timer.Stop()
			return
		case <-timer.C:
			then()
		}
	}
}

// work does one job: it runs the handler while it extends the lease.
func (r *runner[T]) work(ctx context.Context, l *Lease[T]) {
	if left := time.Until(l.Deadline()); left < l.length/2 {
		r.giveBack(l, left)
		return
	}
	ctx, end := context.WithCancelCause(ctx)
	returned, beats := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(beats)
		r.heartbeat(ctx, l, end, returned)
	}()
	err := errors.New("the handler ended its goroutine")
	defer func() { // as that would otherwise be the end of this one, with a lease that is extended for ever
		cause := context.Cause(ctx)
		end(nil)
		close(returned)
		if errors.Is(cause, ErrTimeout) {
			<-beats // it may be ending the attempt
		}
		r.ended(l, err, cause)
	}()
	err = r.call(ctx, l)
}

// giveBack gives back a job that came too late to begin with it.
func (r *runner[T]) giveBack(l *Lease[T], left time.Duration) {
	r.tell(l, fmt.Errorf("it is given back, as its lease of %v had %v left when it came", l.length, max(0, left)))
	ctx, cancel := context.WithTimeout(context.Background(), l.length)
	defer cancel()
	if err := l.giveBack(ctx); err != nil {
		r.tell(l, fmt.Errorf("it could not be given back: %w", err))
	}
}

// ended sees to a lease whose handler has ended.
func (r *runner[T]) ended(l *Lease[T], err, cause error) {
	switch {
	case l.ended.Load():
		if err != nil {
			r.tell(l, err)
		}
	case errors.Is(cause, ErrLeaseLost):
		r.tell(l, fmt.Errorf("%w while its handler ran", cause))
	default:
		r.finish(l, err, cause)
	}
}

// call runs the handler, and makes an error of a panic, also of one in its error's text, as of a nil pointer.
func (r *runner[T]) call(ctx context.Context, l *Lease[T]) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	if err = r.handler(ctx, l); err != nil {
		_ = err.Error()
	}
	return err
}

// recalledWithin is how long it takes at most until a runner learns that a lease was recalled through another process.
const recalledWithin = 5 * time.Second

// lookEvery is how often a runner looks after a lease. Where this process has the store, it is told of all that happens to it.
func (l *Lease[T]) lookEvery(third time.Duration) time.Duration {
	if l.queue != nil && l.queue.signals != nil {
		return third
	}
	return min(third, recalledWithin)
}

// heartbeat extends the lease at each third of it, and looks after it as soon as it is recalled. An error of the store does not end it: the
// lease may hold until the next one. It ends the handler's context in time if it can't, whatever the store does, and when the attempt has
// run for its Timeout.
func (r *runner[T]) heartbeat(ctx context.Context, l *Lease[T], end context.CancelCauseFunc, returned <-chan struct{}) {
	var timeout <-chan time.Time
	if l.Timeout > 0 {
		timer := time.NewTimer(l.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	recalled, forget := l.recalled()
	defer forget()
	third := max(l.length/3, time.Millisecond)
	every := l.lookEvery(third)
	beat, over := time.NewTimer(min(every, max(0, time.Until(l.Deadline())-2*third))), time.NewTimer(l.endsIn())
	defer beat.Stop()
	defer over.Stop()
	failed := errors.New("no attempt was made")
	var attended chan error // while an attempt is under way
	attend := func() {
		extends := l.queue == nil || time.Until(l.Deadline()) <= 2*third+every/2
		attended = make(chan error, 1)
		go func(told chan<- error) { told <- r.attend(ctx, l, third, extends) }(attended)
	}
	again := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-recalled:
			if again = attended != nil; !again {
				attend()
			}
		case <-beat.C:
			beat.Reset(every)
			if attended == nil {
				attend()
			}
		case <-timeout:
			if end(ErrTimeout); context.Cause(ctx) == ErrTimeout {
				r.timedOut(l, returned)
			}
			return
		case <-over.C:
			if left := l.endsIn(); left > 0 {
				over.Reset(left)
			} else if !l.ended.Load() {
				end(fmt.Errorf("%w: it could not be extended: %w", ErrLeaseLost, failed))
				return
			}
		case err := <-attended:
			attended = nil
			switch {
			case ctx.Err() != nil || l.ended.Load():
				return
			case errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrCancelled):
				end(err)
				return
			case l.queue != nil && errors.Is(err, kv.ErrClosed): // for good
				end(fmt.Errorf("%w: it can't be extended any more: %w", ErrLeaseLost, err))
				return
			case err != nil:
				failed = err
				r.tell(l, fmt.Errorf("its lease could not be extended: %w", err))
			}
			if again {
				again = false
				attend()
			}
		}
	}
}

// timedOut ends the attempt of a handler that does not return soon after it has timed out. Who kills what it runs after Grace has a
// second to tell how that ended.
func (r *runner[T]) timedOut(l *Lease[T], returned <-chan struct{}) {
	timer := time.NewTimer(min(r.options.Grace+time.Second, l.endsIn()))
	defer timer.Stop()
	select {
	case <-returned:
	case <-timer.C:
		if !l.ended.Load() {
			r.finish(l, errors.New("the handler has not returned"), ErrTimeout)
		}
	}
}

// attend extends a lease, or looks whether it is held still, and gives up after some time: the next attempt may come through.
func (r *runner[T]) attend(ctx context.Context, l *Lease[T], within time.Duration, extends bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the store did not answer within %v", within))
	defer cancel()
	if extends {
		return l.Extend(ctx, 0)
	}
	err := l.look(ctx)
	if errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrCancelled) || errors.Is(err, kv.ErrClosed) {
		return err
	}
	return nil // it was not to be extended yet
}

// finish ends the attempt as the handler wants, or as its context says. It does not wait for longer than the lease is held.
func (r *runner[T]) finish(l *Lease[T], err, cause error) {
	ctx, cancel := context.WithDeadlineCause(context.Background(), l.Deadline(), errors.New("the store did not answer before the lease was over"))
	defer cancel()
	var snooze snoozeError
	var verb func(context.Context) error
	told := err
	switch {
	case errors.Is(cause, ErrTimeout):
		if told = ErrTimeout; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ErrTimeout) {
			told = fmt.Errorf("%w: %w", ErrTimeout, err)
		}
		verb = func(ctx context.Context) error { return l.Fail(ctx, told) }
	case err == nil:
		verb = l.Ack
	case errors.Is(cause, errGrace):
		verb, told = func(ctx context.Context) error { return l.Release(ctx, 0) }, nil // the attempt has not failed
	case errors.As(err, &snooze):
		verb, told = func(ctx context.Context) error { return l.Release(ctx, max(0, time.Duration(snooze))) }, nil
	case errors.As(err, new(cancelError)) || errors.Is(cause, ErrCancelled):
		verb = func(ctx context.Context) error { return l.Bury(ctx, err.Error()) }
	default:
		verb = func(ctx context.Context) error { return l.Fail(ctx, err) }
	}
	ended := make(chan error, 1)
	go func() { ended <- verb(ctx) }() // it may share a transaction with verbs that wait for longer
	var failed error
	select {
	case failed = <-ended:
	case <-ctx.Done():
		failed = context.Cause(ctx)
	}
	if told != nil {
		r.tell(l, told)
	}
	if failed != nil {
		r.tell(l, fmt.Errorf("its end could not be stored: %w", failed))
	}
}

func (r *runner[T]) tell(l *Lease[T], err error) {
	if r.options.OnError != nil {
		r.options.OnError(l.ID, err)
	} else if l.queue != nil {
		l.queue.tell(l.ID, err)
	}
}

// tell logs what went wrong with a job, or with none.
func (e *engine) tell(id ID, err error) {
	switch {
	case e.options.Logger == nil:
	case id == 0:
		e.options.Logger.Warn("store", "queue", e.name, "error", err)
	default:
		e.options.Logger.Warn("job", "queue", e.name, "id", int64(id), "error", err)
	}
}
