// Package waitroom has callers wait for items of a queue, in order of their
// arrival, with one look at the queue for all of them.
//
// The caller who has waited longest leads: it takes items for itself and those
// behind it, and while there are none waits for news of the queue. When it has
// got its own, or gives up, the next one leads. So any number of callers costs
// one watch, and nothing while nothing happens; and there are no goroutines but
// the callers'.
package waitroom

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
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

	// Left is called when somebody leaves with an error and nobody waits any more, in
	// his goroutine, with a stamp that is larger than those of all who came before that
	// and smaller than those of all who come after. Default: nothing is called.
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

	// Observe is told how many wait, after each change. Default: nobody is told.
	Observe func(waiting int)
}

// Room is where callers wait. It is safe for concurrent use.
//
//   - Order: callers get items in the order in which they came. One enqueued item
//     wakes the caller who gets it, and the one who leads next.
//   - Cancellation: a context ends its own call only. A caller for whom items are
//     being taken at that moment waits until Take asks for Party.Wants again, or
//     returns; then he leaves, or has got items. When all for whom they are taken
//     have given up, Take's context ends.
//   - Errors: of Take go to the caller who leads; the next one tries again.
type Room[V any] struct {
	o    Options[V]
	done chan struct{} // closed by Close

	mu      sync.Mutex
	closed  error
	drained chan struct{} // closed when nobody waits any more after Close
	waiting []*waiter[V]  // in order of arrival; the first one leads

	// Of the last party; the leader's.
	lastHeld int
	lastTook time.Duration

	// While items are being taken:
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
}

// New returns an empty room.
func New[V any](o Options[V]) *Room[V] {
	if o.Max == 0 {
		o.Max = 1000
	}
	if o.Lost == nil {
		o.Lost = func(error) bool { return false }
	}
	if o.Observe == nil {
		o.Observe = func(int) {}
	}
	if o.Left == nil {
		o.Left = func(int64) {}
	}
	if o.Stamp == nil {
		o.Stamp = func() int64 { return 0 }
	}
	return &Room[V]{o: o, done: make(chan struct{}), drained: make(chan struct{})}
}

// Close has all who wait, and all who come later, return err. Items that are being
// taken are still delivered to those for whom they are. Only the first Close counts.
func (r *Room[V]) Close(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed == nil {
		r.closed = err
		close(r.done) // the leader goes, and so does each who leads after him
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

// changed is to be called when r.waiting or r.closed has changed, under the lock.
func (r *Room[V]) changed() {
	r.o.Observe(len(r.waiting))
	if r.closed == nil || len(r.waiting) > 0 {
		return
	}
	select {
	case <-r.drained:
	default:
		close(r.drained)
	}
}

// Waiting returns how many callers wait.
func (r *Room[V]) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// Wait returns up to want items, at least one, or an error: the cause of ctx, or
// Take's.
func (r *Room[V]) Wait(ctx context.Context, want int) ([]V, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	got, err := r.wait(ctx, want)
	if err != nil {
		if stamp, empty := r.empty(); empty {
			r.o.Left(stamp)
		}
	}
	return got, err
}

// empty tells whether nobody waits, and returns a stamp of that moment.
func (r *Room[V]) empty() (stamp int64, empty bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) > 0 {
		return 0, false
	}
	return r.o.Stamp(), true
}

func (r *Room[V]) wait(ctx context.Context, want int) ([]V, error) {
	w := &waiter[V]{want: want, woken: make(chan struct{}, 1)}
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
			<-w.woken
		}
		switch {
		case w.got != nil || w.lost != nil:
			return w.got, w.lost
		case w.leaves:
			return nil, context.Cause(ctx)
		}
	}
	defer r.leave(ctx, w)
	return r.lead(ctx, w)
}

// enter adds w and tells whether it leads.
func (r *Room[V]) enter(w *waiter[V]) (leads bool, closed error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed != nil {
		return false, r.closed
	}
	w.stamp = r.o.Stamp()
	r.waiting = append(r.waiting, w)
	r.changed()
	return len(r.waiting) == 1, nil
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
	i := slices.Index(r.waiting, w)
	if i < 0 {
		return false
	}
	r.waiting = slices.Delete(r.waiting, i, i+1)
	r.changed()
	if i == 0 {
		r.passLead()
	}
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
	if len(r.waiting) > 0 {
		r.waiting[0].woken <- struct{}{}
	}
}

// lead takes items until w has got some.
func (r *Room[V]) lead(ctx context.Context, w *waiter[V]) ([]V, error) {
	for {
		err := r.isClosed()
		if err == nil && ctx.Err() == nil {
			err = r.turn(ctx, w)
		}
		switch {
		case w.got != nil || w.lost != nil:
			return w.got, w.lost
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
	all, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	r.gather()
	p := r.hold(end)
	r.lastHeld = len(p.held)
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if w.held {
			r.wantsToLeave(ctx, w)
		}
	})
	defer stop()
	news, err := r.take(all, p)
	if err == nil && w.got == nil {
		r.await(ctx, news)
	}
	return err
}

// gather lets callers come first whom the last party has let go, as lane.Lane does:
// else parties alternate between half of the callers and the other half.
func (r *Room[V]) gather() {
	if r.lastHeld < 2 {
		return
	}
	const tries, part, longest = 2000, 2, 80 * time.Microsecond
	limit := min(r.lastTook/part, longest)
	began := time.Now()
	for range tries {
		if r.Waiting() >= r.lastHeld || time.Since(began) > limit {
			return
		}
		runtime.Gosched()
	}
}

// await returns when it is time to look again, or ctx ends.
func (r *Room[V]) await(ctx context.Context, news <-chan error) {
	var poll <-chan time.Time
	if r.o.Poll > 0 {
		timer := time.NewTimer(r.o.Poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-news: // an error of a watch is a reason to look, which will tell what it is
	case <-poll:
	case <-r.done:
	case <-ctx.Done():
	}
}

// Party is the callers for whom a leader takes items. It is for Take alone, and
// not safe for concurrent use.
type Party[V any] struct {
	room *Room[V]
	held []*waiter[V] // the first is the leader; they are the first of those who wait
}

// Wants returns how many items each of those wants at most who are still there, in
// order, and lets the others go. It returns nil if the leader wants to go: then Take
// has to return an error, and have taken nothing; the next one will lead. Take calls
// it before each attempt, but not between one whose outcome is unknown and the look
// at whether it took effect.
func (p *Party[V]) Wants() (wants []int) {
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.held[0].leaves {
		return nil
	}
	gone := func(w *waiter[V]) bool { return w.held && w.leaves }
	if slices.ContainsFunc(p.held, gone) {
		r.waiting = slices.DeleteFunc(r.waiting, gone)
		p.held = slices.DeleteFunc(p.held, func(w *waiter[V]) bool {
			if !gone(w) {
				return false
			}
			w.held = false
			w.woken <- struct{}{}
			return true
		})
		r.changed()
	}
	for _, w := range p.held {
		wants = append(wants, w.want)
	}
	return wants
}

// Staying tells whether none of those whom Wants returned last wants to go.
func (p *Party[V]) Staying() bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	return !slices.ContainsFunc(p.held, func(w *waiter[V]) bool { return w.leaves })
}

// Next returns when the caller came who is the first one when so many have got
// items, and false if nobody waits then.
func (p *Party[V]) Next(served int) (stamp int64, ok bool) {
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	if served >= len(r.waiting) {
		return 0, false
	}
	return r.waiting[served].stamp, true
}

// hold keeps the first callers from leaving while items are taken for them.
func (r *Room[V]) hold(giveUp context.CancelCauseFunc) *Party[V] {
	r.mu.Lock()
	defer r.mu.Unlock()
	held := slices.Clone(r.waiting[:min(len(r.waiting), r.o.Max)])
	for _, w := range held {
		w.held = true
	}
	r.staying, r.giveUp = len(held), giveUp
	return &Party[V]{r, held}
}

// take takes items for those who are held, and lets go of them, also when Take
// panics.
func (r *Room[V]) take(ctx context.Context, p *Party[V]) (news <-chan error, err error) {
	var got [][]V
	began := time.Now()
	defer func() {
		r.lastTook = time.Since(began) // before another one leads
		r.deliver(p.held, got, err)
	}()
	got, news, err = r.o.Take(ctx, p)
	if err == nil && len(got) == 0 && news == nil {
		err = errors.New("waitroom: Take has returned nothing and no news to wait for")
	}
	return news, err
}

// deliver gives the first callers what they got, and lets those go who wanted to
// meanwhile. The first one is the leader itself, which needs no waking.
func (r *Room[V]) deliver(held []*waiter[V], got [][]V, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
		if i > 0 && goes(w) {
			w.woken <- struct{}{}
		}
	}
	r.waiting = slices.DeleteFunc(r.waiting, goes)
	r.changed()
	if goes(held[0]) {
		r.passLead()
	}
}
