// Package waiting has callers wait for items of a queue, in order of their
// arrival, with one look at the queue for all of them.
//
// The caller that has waited longest leads: it takes items for itself and the callers
// behind it, and while there are none waits for news of the queue. When it has
// got its own, or gives up, the next one leads. So any number of callers costs
// one watch, and nothing while nothing happens; and there are no goroutines but
// the callers'.
package waiting

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/gather"
	"github.com/conq-go/conq/internal/linked"
)

// Options are the choices of a List.
type Options[V any] struct {
	// Take takes items for the callers of a batch, in the order of b.Wants, and returns what
	// each of the first ones gets. If none gets anything, news is closed, or delivers
	// something, when there may be items again, and misses nothing that comes after Take has
	// looked. An error is for callers that got nothing, and means that nothing was taken for
	// them, except as Lost tells.
	//
	// ctx has the leader's values. It ends when all those callers have given up, and
	// when news is not needed any more.
	Take func(ctx context.Context, b *Batch[V]) (got [][]V, news <-chan error, err error)

	// Left is called when a caller returns, or panics in Take, and no other one waits: in its
	// goroutine, with a stamp between those of the callers before and after that moment.
	// Default: nothing is called.
	Left func(stamp int64)

	// Stamp returns the time of arrival of a caller, in whatever measure. Each must be
	// larger than the one before; calls don't overlap. Default: 0 for all.
	Stamp func() int64

	// Lost tells that after this error of Take items of any caller may be gone: then all of
	// them get it, and otherwise only the leader. Default: after no error.
	Lost func(error) bool

	// Max is how many callers one Take serves. Default: 1,000.
	Max int

	// Poll is how often the leader looks without news. Default: never.
	Poll time.Duration

	// Lasting tells that a look that found nothing holds until its news comes, also for the
	// next leaders. Default: each leader looks.
	Lasting bool

	// Observe is called with how many callers wait, after each change. Default: nothing is called.
	Observe func(waiting int)
}

// List is the callers that wait for items of one queue. It is safe for concurrent use.
//
//   - Order: callers get items in the order in which they came. One enqueued item
//     wakes the caller that gets it, and the next leader.
//   - Cancellation: a context ends its own call only. A caller for which items are
//     being taken leaves when Take asks for Batch.Wants again, or returns, unless it
//     has got items by then. When all callers of the batch have given up, Take's
//     context ends, but for what Softly says.
//   - Errors: of Take go to the leader; the next one tries again.
//   - Items that are at hand can be given to callers without a look: see Hold.
type List[V any] struct {
	o    Options[V]
	done chan struct{} // closed by Close

	mu      sync.Mutex
	closed  error
	drained chan struct{}          // closed when no caller waits any more after Close
	waiting linked.List[waiter[V]] // in order of arrival; the first one leads

	present atomic.Int64 // how many wait

	lastHeld int           // in the last batch
	lastTook time.Duration // likewise
	news     <-chan error  // of the last look, if nothing was there

	// While items are being taken for a batch, or handed to it:
	busy    bool
	staying int // how many callers of it have not given up
	giveUp  context.CancelCauseFunc
	forget  func() // ends what keeps Take's context though all have given up; nil if nothing does
}

type waiter[V any] struct {
	want   int
	note   any
	stamp  int64
	got    []V
	held   bool          // items are being taken for it
	leaves bool          // its context has ended meanwhile
	lost   error         // its items may be lost
	woken  chan struct{} // holds one: it has got items, or leads, or may leave

	place linked.Place[waiter[V]] // in the list
}

// Init makes r, a zero List, an empty one.
func (r *List[V]) Init(o Options[V]) {
	if o.Max == 0 {
		o.Max = 1000
	}
	if o.Lost == nil {
		o.Lost = func(error) bool { return false }
	}
	if o.Observe == nil {
		o.Observe = func(int) {}
	}
	if o.Stamp == nil {
		o.Stamp = func() int64 { return 0 }
	}
	r.o, r.done, r.drained = o, make(chan struct{}), make(chan struct{})
}

// Close has all calls of Wait return err, also later ones. Items that are being taken are
// still delivered. Only the first Close counts.
func (r *List[V]) Close(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed == nil {
		r.closed = err
		close(r.done) // the leader returns, and so does each that leads after it
		r.changed()
	}
}

// Drained returns when no caller waits any more after Close, or with ctx's cause.
func (r *List[V]) Drained(ctx context.Context) error {
	select {
	case <-r.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// changed is to be called when r.waiting or r.closed has changed, under the lock, and when all
// that follows from that is done: Observe may panic.
func (r *List[V]) changed() {
	r.count()
	r.o.Observe(r.waiting.Len())
}

// count is changed without Observe.
func (r *List[V]) count() {
	r.present.Store(int64(r.waiting.Len()))
	if r.closed == nil || r.waiting.Len() > 0 {
		return
	}
	select {
	case <-r.drained:
	default:
		close(r.drained)
	}
}

// Waiting returns how many callers wait.
func (r *List[V]) Waiting() int { return int(r.present.Load()) }

// Wait returns up to want items, at least one, or an error: the cause of ctx, or
// Take's.
func (r *List[V]) Wait(ctx context.Context, want int) ([]V, error) {
	return r.WaitNoted(ctx, want, nil)
}

// WaitNoted is Wait with something of the caller's that Take learns from Batch.Notes.
func (r *List[V]) WaitNoted(ctx context.Context, want int, note any) ([]V, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r.o.Left != nil {
		defer func() { // also with items: other callers may have left while these were taken
			if stamp, empty := r.empty(); empty {
				r.o.Left(stamp)
			}
		}()
	}
	return r.wait(ctx, want, note)
}

// empty tells whether no caller waits, and returns a stamp of that moment.
func (r *List[V]) empty() (stamp int64, empty bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting.Len() > 0 {
		return 0, false
	}
	return r.o.Stamp(), true
}

func (r *List[V]) wait(ctx context.Context, want int, note any) (got []V, err error) {
	w := &waiter[V]{want: want, note: note, woken: make(chan struct{}, 1)}
	returns := false
	defer func() {
		if !returns {
			r.abandon(w)
		}
	}()
	got, err = r.waitAs(ctx, w)
	returns = true
	return got, err
}

func (r *List[V]) waitAs(ctx context.Context, w *waiter[V]) ([]V, error) {
	leads, err := r.enter(w)
	if err != nil {
		return nil, err
	}
	if !leads {
		select {
		case <-w.woken:
		case <-ctx.Done():
			if r.leave(ctx, w) {
				return nil, context.Cause(ctx)
			}
			r.released(w)
		}
		switch got, lost, leaves := r.result(w); {
		case got != nil || lost != nil:
			return got, lost
		case leaves:
			return nil, context.Cause(ctx)
		}
	}
	got, err := r.lead(ctx, w)
	if err == nil || r.leave(ctx, w) {
		return got, err
	}
	r.released(w)
	if got, lost, _ := r.result(w); got != nil || lost != nil {
		return got, lost
	}
	return nil, err
}

// result is what w has got, and whether it may leave.
func (r *List[V]) result(w *waiter[V]) (got []V, lost error, leaves bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return w.got, w.lost, w.leaves
}

// released returns when w is not held any more.
func (r *List[V]) released(w *waiter[V]) {
	for r.holds(w) {
		<-w.woken // also by what came before
	}
}

func (r *List[V]) holds(w *waiter[V]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return w.held
}

// enter adds w and tells whether it leads.
func (r *List[V]) enter(w *waiter[V]) (leads bool, closed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != nil {
		return false, r.closed
	}
	w.stamp = r.o.Stamp()
	r.waiting.Add(&w.place, w)
	r.changed()
	return r.waiting.First() == w, nil
}

// leave removes w unless it is held or gone, and passes the lead on. It tells
// whether w need not wait to be woken any more.
func (r *List[V]) leave(ctx context.Context, w *waiter[V]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.held {
		r.wantsToLeave(ctx, w)
		return false
	}
	leads := r.waiting.First() == w
	if !r.waiting.Remove(&w.place) {
		return false
	}
	if leads {
		r.passLead()
	}
	r.changed()
	return true
}

// wantsToLeave notes that w, which is held, has given up. If all of its batch have, so does Take.
func (r *List[V]) wantsToLeave(ctx context.Context, w *waiter[V]) {
	if w.leaves {
		return
	}
	w.leaves = true
	if r.staying--; r.staying > 0 {
		return
	}
	if late, ok := ctx.Value(softly{}).(softly); ok {
		r.forget = late.giveUp(context.Cause(ctx), r.giveUp)
		return
	}
	r.giveUp(context.Cause(ctx))
}

func (r *List[V]) passLead() {
	if r.waiting.First() != nil {
		r.waiting.First().woken <- struct{}{}
	}
}

// lead takes items until w has got some.
func (r *List[V]) lead(ctx context.Context, w *waiter[V]) ([]V, error) {
	for {
		err := r.isClosed()
		if err == nil && ctx.Err() == nil {
			err = r.look(ctx, w)
		}
		switch got, lost, _ := r.result(w); {
		case got != nil || lost != nil:
			return got, lost
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, err
		}
	}
}

// isClosed returns the error of Close, if it was called.
func (r *List[V]) isClosed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// look takes items once. If there are none it waits until it is time to look again.
func (r *List[V]) look(ctx context.Context, w *waiter[V]) error {
	if news := r.quiet(); news != nil {
		r.await(ctx, w, news, nil)
		return nil
	}
	all, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	r.gather()
	p := r.holdBehind(w, end)
	if p == nil {
		r.released(w) // it may be handed items
		return nil
	}
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if w.held {
			r.wantsToLeave(ctx, w)
		}
	})
	defer stop()
	news, err := r.take(all, p)
	if got, _, _ := r.result(w); err != nil || got != nil {
		return err
	}
	r.await(ctx, w, news, p.Near)
	return nil
}

// quiet returns the news to wait for if there is nothing to look for since the last look.
func (r *List[V]) quiet() <-chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.news:
		r.news = nil
	default:
	}
	return r.news
}

// gather lets callers come first that the last batch has let go, if there were several.
func (r *List[V]) gather() {
	r.mu.Lock()
	held, took := r.lastHeld, r.lastTook
	r.mu.Unlock()
	if held > 1 {
		gather.For(took, func() bool { return r.Waiting() >= held })
	}
}

// await returns when it is time to look again, ctx ends, or w may have been handed items.
func (r *List[V]) await(ctx context.Context, w *waiter[V], news, near <-chan error) {
	var poll <-chan time.Time
	if r.o.Poll > 0 {
		timer := time.NewTimer(r.o.Poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-near:
	case <-news: // an error of a watch is a reason to look, which will tell what it is
	case <-poll:
	case <-w.woken:
	case <-r.done:
	case <-ctx.Done():
	}
}

// take takes items for a batch, and lets go of its callers, also when Take panics.
func (r *List[V]) take(ctx context.Context, p *Batch[V]) (news <-chan error, err error) {
	var got [][]V
	finished := false
	began := time.Now()
	defer func() {
		if !finished {
			r.abandon(p.held[0]) // the leader, which does not come back
		}
		r.took(time.Since(began), got, news)
		r.deliver(p.held, got, err)
	}()
	got, news, err = r.o.Take(ctx, p)
	finished = true
	switch {
	case err != nil:
		news = nil // there may be items: the next leader is to look
	case len(got) == 0 && news == nil:
		err = errors.New("waiting: Take has returned nothing and no news to wait for")
	}
	return news, err
}

// abandon has a caller leave that does not come back, as Take or Observe has panicked or ended its
// goroutine: at once, or when it is not held any more.
func (r *List[V]) abandon(w *waiter[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.leaves = true
	leads := r.waiting.First() == w
	if w.held || !r.waiting.Remove(&w.place) {
		return
	}
	r.count()
	if leads {
		r.passLead()
	}
}

// took notes what is to be known about the last look before another one leads.
func (r *List[V]) took(time time.Duration, got [][]V, news <-chan error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastTook = time
	if r.o.Lasting && len(got) == 0 {
		r.news = news // none after an error
	}
}

// deliver gives the first callers what they got, and lets callers leave that have given up
// meanwhile. The first one is the leader itself, which needs no waking.
func (r *List[V]) deliver(held []*waiter[V], got [][]V, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	if r.forget != nil {
		r.forget()
		r.forget = nil
	}
	if err != nil && !r.o.Lost(err) {
		err = nil
	}
	goes := func(w *waiter[V]) bool { return w.got != nil || w.lost != nil || w.leaves }
	for i, w := range held {
		w.held = false
		if i < len(got) {
			w.got = got[i]
		} else {
			w.lost = err
		}
		if !goes(w) {
			continue
		}
		if r.waiting.Remove(&w.place); i > 0 {
			w.woken <- struct{}{}
		}
	}
	if goes(held[0]) {
		r.passLead()
	}
	r.changed()
}
