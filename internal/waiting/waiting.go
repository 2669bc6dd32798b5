// Package waiting has callers wait for items of a queue, in order of their
// arrival, with one look at the queue for all of them.
//
// The caller who has waited longest leads: it takes items for itself and those
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

// Options are the choices of a Room.
type Options[V any] struct {
	// Take takes items for the callers of a party, and returns what each of the first
	// of them gets: of those whom p.Wants returned last. If nobody gets anything, news
	// is closed, or delivers something, when there may be items again; nothing that
	// comes after Take has looked may be missed. An error is of those who got
	// nothing, and means that nothing was taken for them, except as Lost tells.
	//
	// ctx has the leader's values. It ends when all those callers have given up, and
	// when news is not needed any more.
	Take func(ctx context.Context, p *Party[V]) (got [][]V, news <-chan error, err error)

	// Left is called when a caller returns, or panics in Take, and nobody waits any more: in
	// its goroutine, with a stamp that is larger than those of all who came before and smaller
	// than those of all who come later. Default: nothing is called.
	Left func(stamp int64)

	// Stamp returns the time of arrival of a caller, in whatever measure. Each must be
	// larger than the one before; calls don't overlap. Default: 0 for all.
	Stamp func() int64

	// Lost tells that after this error of Take items may be gone that were for any of
	// the callers: then all of them get it, and otherwise only the leader. Default:
	// none is such.
	Lost func(error) bool

	// Max is how many callers one Take serves. Default: 1,000.
	Max int

	// Poll is how often the leader looks without news. Default: never.
	Poll time.Duration

	// Lasting tells that after a look that found nothing there is nothing until its news
	// comes, so that those who lead next need not look before. Default: each of them looks.
	Lasting bool

	// Observe is told how many wait, after each change. Default: nobody is told.
	Observe func(waiting int)
}

// Room is where callers wait. It is safe for concurrent use.
//
//   - Order: callers get items in the order in which they came. One enqueued item
//     wakes the caller who gets it, and the one who leads next.
//   - Cancellation: a context ends its own call only. A caller for whom items are
//     being taken at that moment waits until Take asks for Party.Wants again, or
//     returns; then it leaves, or has got items. When all for whom they are taken
//     have given up, Take's context ends.
//   - Errors: of Take go to the caller who leads; the next one tries again.
//   - Items that are at hand can be given to waiters without a look: see Hold.
type Room[V any] struct {
	o    Options[V]
	done chan struct{} // closed by Close

	mu      sync.Mutex
	closed  error
	drained chan struct{}          // closed when nobody waits any more after Close
	waiting linked.List[waiter[V]] // in order of arrival; the first one leads

	present atomic.Int64 // how many wait

	lastHeld int           // of the last party that took items
	lastTook time.Duration // likewise
	news     <-chan error  // of the last look, if nothing was there

	// While items are being taken, or handed to those who wait:
	busy    bool
	staying int // how many of those who are held have not given up
	giveUp  context.CancelCauseFunc
}

type waiter[V any] struct {
	want   int
	stamp  int64
	got    []V
	held   bool          // items are being taken for it
	leaves bool          // its context has ended meanwhile
	lost   error         // its items may be lost
	woken  chan struct{} // holds one: it has got items, or leads, or may leave

	place linked.Place[waiter[V]] // among those who wait
}

// Init makes r, a zero Room, an empty room.
func (r *Room[V]) Init(o Options[V]) {
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

// Close has all who wait, and all who come later, return err. Items that are being
// taken are still delivered to those for whom they are. Only the first Close counts.
func (r *Room[V]) Close(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed == nil {
		r.closed = err
		close(r.done) // the leader goes, and so does each that leads after it
		r.changed()
	}
}

// Drained returns when nobody waits any more after Close, or with ctx's cause.
func (r *Room[V]) Drained(ctx context.Context) error {
	select {
	case <-r.drained:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// changed is to be called when r.waiting or r.closed has changed, under the lock, and when all
// that follows from that is done: Observe may panic.
func (r *Room[V]) changed() {
	r.count()
	r.o.Observe(r.waiting.Len())
}

// count is changed without Observe.
func (r *Room[V]) count() {
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
func (r *Room[V]) Waiting() int { return int(r.present.Load()) }

// Wait returns up to want items, at least one, or an error: the cause of ctx, or
// Take's.
func (r *Room[V]) Wait(ctx context.Context, want int) ([]V, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r.o.Left != nil {
		defer func() { // also with items: others may have left while these were taken
			if stamp, empty := r.empty(); empty {
				r.o.Left(stamp)
			}
		}()
	}
	return r.wait(ctx, want)
}

// empty tells whether nobody waits, and returns a stamp of that moment.
func (r *Room[V]) empty() (stamp int64, empty bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting.Len() > 0 {
		return 0, false
	}
	return r.o.Stamp(), true
}

func (r *Room[V]) wait(ctx context.Context, want int) (got []V, err error) {
	w := &waiter[V]{want: want, woken: make(chan struct{}, 1)}
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

func (r *Room[V]) waitAs(ctx context.Context, w *waiter[V]) ([]V, error) {
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

// result is what w has got, and whether it may leave. Others may be about to hand it
// something.
func (r *Room[V]) result(w *waiter[V]) (got []V, lost error, leaves bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return w.got, w.lost, w.leaves
}

// released returns when w is not held any more.
func (r *Room[V]) released(w *waiter[V]) {
	for r.holds(w) {
		<-w.woken // also by what came before
	}
}

func (r *Room[V]) holds(w *waiter[V]) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return w.held
}

// enter adds w and tells whether it leads.
func (r *Room[V]) enter(w *waiter[V]) (leads bool, closed error) {
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
func (r *Room[V]) leave(ctx context.Context, w *waiter[V]) bool {
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

// wantsToLeave notes that w, which is held, has given up. If all have, there is
// nobody left to take items for.
func (r *Room[V]) wantsToLeave(ctx context.Context, w *waiter[V]) {
	if w.leaves {
		return
	}
	w.leaves = true
	if r.staying--; r.staying == 0 {
		r.giveUp(context.Cause(ctx))
	}
}

func (r *Room[V]) passLead() {
	if r.waiting.First() != nil {
		r.waiting.First().woken <- struct{}{}
	}
}

// lead takes items until w has got some.
func (r *Room[V]) lead(ctx context.Context, w *waiter[V]) ([]V, error) {
	for {
		err := r.isClosed()
		if err == nil && ctx.Err() == nil {
			err = r.turn(ctx, w)
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
func (r *Room[V]) isClosed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// turn takes items once. If there are none it waits until it is time to look again.
func (r *Room[V]) turn(ctx context.Context, w *waiter[V]) error {
	if news := r.quiet(); news != nil {
		r.await(ctx, w, news)
		return nil
	}
	all, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	r.gather()
	p := r.holdBehind(w, end)
	if p == nil {
		r.released(w) // somebody has items for it, perhaps
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
	r.await(ctx, w, news)
	return nil
}

// quiet returns the news to wait for if there is nothing to look for since the last look.
func (r *Room[V]) quiet() <-chan error {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.news:
		r.news = nil
	default:
	}
	return r.news
}

// gather lets callers come first that the last party has let go, if there were several.
func (r *Room[V]) gather() {
	r.mu.Lock()
	held, took := r.lastHeld, r.lastTook
	r.mu.Unlock()
	if held > 1 {
		gather.For(took, func() bool { return r.Waiting() >= held })
	}
}

// await returns when it is time to look again, ctx ends, or w may have been handed items.
func (r *Room[V]) await(ctx context.Context, w *waiter[V], news <-chan error) {
	var poll <-chan time.Time
	if r.o.Poll > 0 {
		timer := time.NewTimer(r.o.Poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-news: // an error of a watch is a reason to look, which will tell what it is
	case <-poll:
	case <-w.woken:
	case <-r.done:
	case <-ctx.Done():
	}
}

// take takes items for those who are held, and lets go of them, also when Take
// panics.
func (r *Room[V]) take(ctx context.Context, p *Party[V]) (news <-chan error, err error) {
	var got [][]V
	finished := false
	began := time.Now()
	defer func() {
		if !finished {
			r.abandon(p.held[0]) // the leader, who does not come back
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
func (r *Room[V]) abandon(w *waiter[V]) {
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
func (r *Room[V]) took(time time.Duration, got [][]V, news <-chan error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastTook = time
	if r.o.Lasting && len(got) == 0 {
		r.news = news // none after an error
	}
}

// deliver gives the first callers what they got, and lets those go who wanted to
// meanwhile. The first one is the leader itself, which needs no waking.
func (r *Room[V]) deliver(held []*waiter[V], got [][]V, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
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
