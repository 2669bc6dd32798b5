package batch

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/kv"
)

// WaitOptions are the choices of Waiters.
type WaitOptions[Q, V any] struct {
	// Take takes items for the waiters of a batch, as w.Requests returns them, and returns what each of the first ones gets. If
	// none gets anything, watch ends when there may be items again: it is closed, or delivers something. It misses nothing
	// that comes after Take has begun. An error is for the leader, and means that nothing was taken for the waiters that
	// got nothing; but a kv.ErrCommitUnknown is for all of these, as their items may be gone. Required.
	//
	// ctx ends when all those callers have given up, and when watch is not needed any more.
	Take func(ctx context.Context, w *Waiting[Q, V]) (got [][]V, watch <-chan error, err error)

	// Left is called when a caller returns, or panics in Take, and no other one waits: in its goroutine, with a stamp between
	// those of the callers before and after that moment. Default: nothing is called.
	Left func(stamp int64)

	// Stamp returns the time of arrival of a caller, in whatever measure. Each must be larger than the one before; calls don't
	// overlap. Default: 0 for all.
	Stamp func() int64

	// Max is how many waiters one Take serves. Default: 1,000.
	Max int

	// Poll is how often the leader calls Take again before its watch ends. Default: never.
	Poll time.Duration

	// Lasting tells that what Take has found out, that there is nothing, holds until its watch ends, also for the next
	// leaders. Default: each leader calls Take.
	Lasting bool

	// Observe is called with how many callers wait, after each change. Default: nothing is called.
	Observe func(waiting int)
}

// Waiters are callers that wait for items, in one line. The leader takes items for itself and those behind it. While there
// are none it watches for them. So any number of callers costs one watch, and nothing while nothing happens. It is
// safe for concurrent use.
//
//   - Order: callers get items in the order in which they came. One item wakes the caller that gets it, and the next
//     leader.
//   - Cancellation: a context ends its own call only. A caller for which items are being taken leaves when Take calls Requests
//     again, or returns, unless it has got items by then. When all callers of the batch have given up, Take's context
//     ends, but for what Softly says.
//   - Errors: of Take go to the leader; the next one tries again.
//   - Others can serve the first waiters, while nothing is being taken for them: see Claim.
type Waiters[Q, V any] struct {
	o       WaitOptions[Q, V]
	batches Batcher[Q, []V]
	drained chan struct{} // closed when no caller waits any more after Close
	present atomic.Int64  // how many wait
	watch   <-chan error  // if Lasting: of the last Take that found nothing; guarded by the Batcher's lock
}

// Init makes w, a zero Waiters, an empty line.
func (w *Waiters[Q, V]) Init(o WaitOptions[Q, V]) {
	w.o, w.drained = o, make(chan struct{})
	w.batches.Init(Options[Q, []V]{Run: w.run, MaxCalls: o.Max})
	w.batches.changed, w.batches.stamp = w.changed, o.Stamp
}

// Close has all calls of Wait return err, also later ones. Items that are being taken are still delivered. Only the first
// Close counts.
func (w *Waiters[Q, V]) Close(err error) { w.batches.Close(err) }

// Drained returns when no caller waits any more after Close, or with ctx's cause.
func (w *Waiters[Q, V]) Drained(ctx context.Context) error {
	select {
	case <-w.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// changed is called when callers have come or gone, or after Close. The lock is held.
func (w *Waiters[Q, V]) changed() {
	n := w.count()
	w.present.Store(int64(n))
	if w.batches.closed != nil && n == 0 {
		select {
		case <-w.drained:
		default:
			close(w.drained)
		}
	}
	if w.o.Observe != nil {
		w.o.Observe(n)
	}
}

// count returns how many callers wait. The lock is held.
func (w *Waiters[Q, V]) count() int {
	return w.batches.line.Len() + w.batches.running - w.batches.dropped
}

// Len returns how many callers wait.
func (w *Waiters[Q, V]) Len() int { return int(w.present.Load()) }

// Wait returns what Take has got for request: at least one item. Otherwise the error is the cause of ctx, or Take's.
func (w *Waiters[Q, V]) Wait(ctx context.Context, request Q) ([]V, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if w.o.Left != nil {
		defer w.tellLeft() // also with items: other callers may have left while these were taken
	}
	c := &Call[Q, []V]{Context: ctx, Request: request, wake: make(chan struct{}, 1)}
	defer func() {
		if !c.is(done) {
			w.batches.abandon(c)
			w.batches.mu.Lock()
			defer w.batches.mu.Unlock()
			w.present.Store(int64(w.count()))
		}
	}()
	for w.batches.enter(c); !c.is(done); {
		if c.is(leading) {
			w.lead(c)
		} else {
			w.batches.wait(c)
		}
	}
	w.batches.mu.Lock() // until Observe has been told
	defer w.batches.mu.Unlock()
	return c.Result, c.Err
}

// tellLeft calls Left if no caller waits.
func (w *Waiters[Q, V]) tellLeft() {
	w.batches.mu.Lock()
	if w.count() > 0 {
		w.batches.mu.Unlock()
		return
	}
	var stamp int64
	if w.o.Stamp != nil {
		stamp = w.o.Stamp()
	}
	w.batches.mu.Unlock()
	w.o.Left(stamp)
}

// lead takes items for c and those behind it. If there are none for it, it returns when it is time to try again.
func (w *Waiters[Q, V]) lead(c *Call[Q, []V]) {
	if watch := w.quiet(); watch != nil {
		w.await(c, watch, nil)
		return
	}
	w.batches.lead(c)
	if c.idle == nil {
		return
	}
	i := *c.idle
	c.idle = nil
	defer i.end()
	if c.is(leading) {
		w.await(c, i.watch, i.local)
	}
}

// quiet returns the watch of the last Take if that has found nothing, and nothing has come since.
func (w *Waiters[Q, V]) quiet() <-chan error {
	w.batches.mu.Lock()
	defer w.batches.mu.Unlock()
	select {
	case <-w.watch:
		w.watch = nil
	default:
	}
	return w.watch
}

// await returns when there may be items, when c is to leave, or when something has become of it.
func (w *Waiters[Q, V]) await(c *Call[Q, []V], watch, local <-chan error) {
	var poll <-chan time.Time
	if w.o.Poll > 0 {
		timer := time.NewTimer(w.o.Poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-local:
	case <-watch: // also an error of a watch, as Take will tell what that is
	case <-poll:
	case <-c.wake: // it does not lead any more, or has been told to lead again
		if c.is(leading) {
			w.await(c, watch, local)
		}
		return
	case <-c.Context.Done():
		w.batches.leave(c)
		return
	}
	w.batches.mu.Lock()
	defer w.batches.mu.Unlock()
	if w.watch == watch {
		w.watch = nil
	}
}

var errNoWatch = errors.New("batch: Take has returned nothing and no watch to wait for")

// idle is what a leader has from a Take that found nothing for it.
type idle struct {
	watch, local <-chan error
	end          context.CancelFunc // of Take's context
}

// run is the Run of the batches.
func (w *Waiters[Q, V]) run(calls []*Call[Q, []V]) {
	leader := calls[0].leader
	all, cancel := Context(calls)
	ctx, cancelWatch := context.WithCancel(all)
	end := func() { cancelWatch(); cancel() }
	b := &Waiting[Q, V]{of: w, calls: calls}
	returned := false
	defer func() {
		if !returned { // the others try without the leader
			end()
			b.calls = slices.DeleteFunc(slices.Clone(b.calls), func(c *Call[Q, []V]) bool { return c == leader })
			b.settle(nil, nil)
		}
	}()
	b.live(len(calls))
	got, watch, err := w.o.Take(ctx, b)
	returned = true
	if err == nil && len(got) == 0 && watch == nil {
		err = errNoWatch
	}
	if b.settle(got, err); !leader.is(requeued) {
		end()
		return
	}
	leader.idle = &idle{watch, b.Local, end}
	if w.o.Lasting {
		w.batches.mu.Lock()
		defer w.batches.mu.Unlock()
		w.watch = watch
	}
}

// Waiting is the first waiters of the line, for which a leader takes items, or somebody else has claimed them. It is not
// safe for concurrent use.
type Waiting[Q, V any] struct {
	// Local, which Take may set, is closed when callers of this process have made items, since before Take has looked. It
	// is sooner than a watch.
	Local <-chan error

	of    *Waiters[Q, V]
	calls []*Call[Q, []V] // in the order of their arrival
	all   []*Call[Q, []V] // that were claimed, if they were
}

// Requests returns what each waiter wants, in order, and lets callers leave that have given up. It returns nil if the leader
// has: then Take must return an error, and have taken nothing; the next one will lead. See Live for when to call it.
func (b *Waiting[Q, V]) Requests() []Q {
	before := b.calls
	if b.calls = Live(before); len(b.calls) < len(before) {
		live := 0
		for _, c := range before {
			if !c.is(done) {
				live++
			}
		}
		b.live(live)
	}
	if len(b.calls) == 0 {
		return nil
	}
	return Requests(b.calls)
}

// live notes how many of the batch wait on.
func (b *Waiting[Q, V]) live(n int) {
	w := &b.of.batches
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone := w.running - n; gone != w.dropped {
		w.dropped = gone
		w.changed()
	}
}

// Next returns the stamp of the waiter behind the first so many, and false if there is none.
func (b *Waiting[Q, V]) Next(served int) (stamp int64, ok bool) {
	if served < len(b.calls) {
		return b.calls[served].stamp, true
	}
	w := &b.of.batches
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.line.First()
	for served -= len(b.calls); c != nil && served > 0; served-- {
		c = c.place.Next()
	}
	if c == nil {
		return 0, false
	}
	return c.stamp, true
}

// settle gives each of the first waiters what it gets. The others wait on, unless err is theirs.
func (b *Waiting[Q, V]) settle(got [][]V, err error) {
	for i, c := range b.calls {
		switch {
		case i < len(got):
			c.Result = got[i]
		case errors.Is(err, kv.ErrCommitUnknown):
			c.Err = err
		case err != nil && c == c.leader:
			c.Fail(err)
		default:
			c.state.Store(requeued)
		}
	}
}

// Claim returns the first waiters, n at most, for a caller that has items for them, and keeps them from leaving until it calls
// Deliver, which it must. It returns nil if nobody waits, or items are being taken for them, or they are claimed already.
func (w *Waiters[Q, V]) Claim(n int) *Waiting[Q, V] {
	if w.Len() == 0 {
		return nil
	}
	w.batches.mu.Lock()
	defer w.batches.mu.Unlock()
	if n = min(n, w.claimable()); n < 1 {
		return nil
	}
	calls := make([]*Call[Q, []V], 0, n)
	for len(calls) < n {
		c := w.batches.line.First()
		c.leader = nil
		calls = w.batches.take(calls, c)
	}
	w.batches.begin(calls)
	return &Waiting[Q, V]{of: w, calls: calls, all: calls}
}

// Claimable returns how many waiters Claim would return at this moment, at most.
func (w *Waiters[Q, V]) Claimable() int {
	if w.Len() == 0 {
		return 0
	}
	w.batches.mu.Lock()
	defer w.batches.mu.Unlock()
	return w.claimable()
}

func (w *Waiters[Q, V]) claimable() int {
	if w.batches.batches > 0 {
		return 0
	}
	return min(w.batches.line.Len(), w.batches.options.MaxCalls)
}

// Deliver gives each of the first claimed waiters what it gets. The others wait on; but a kv.ErrCommitUnknown is theirs, as
// their items may be gone.
func (b *Waiting[Q, V]) Deliver(got [][]V, err error) {
	b.settle(got, err)
	b.of.batches.mu.Lock()
	b.of.batches.end(b.all)
}
