package waiting

import (
	"context"
	"slices"
)

// Party is the callers for whom a leader takes items, or somebody has some. It is for Take
// alone, or the caller of Hold, and not safe for concurrent use.
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
	if slices.ContainsFunc(p.held, leaves) {
		p.held = slices.DeleteFunc(p.held, func(w *waiter[V]) bool {
			if !w.leaves {
				return false
			}
			r.waiting.Remove(&w.place)
			w.held = false
			w.woken <- struct{}{}
			return true
		})
		r.changed()
	}
	wants = make([]int, len(p.held))
	for i, w := range p.held {
		wants[i] = w.want
	}
	return wants
}

// Staying tells whether none of those whom Wants returned last wants to go.
func (p *Party[V]) Staying() bool {
	p.room.mu.Lock()
	defer p.room.mu.Unlock()
	return !slices.ContainsFunc(p.held, leaves)
}

func leaves[V any](w *waiter[V]) bool { return w.leaves }

// Next returns when the caller came who is the first one when so many have got
// items, and false if nobody waits then.
func (p *Party[V]) Next(served int) (stamp int64, ok bool) {
	r := p.room
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.waiting.First()
	for ; w != nil && served > 0; served-- {
		w = w.place.Next()
	}
	if w == nil {
		return 0, false
	}
	return w.stamp, true
}

// Hold returns the first callers for somebody who has n items for them, no more than n, and
// keeps them from leaving until Deliver is called, which must be. It returns nil if nobody
// waits, or items are being taken for them, or handed to them, at this moment.
func (r *Room[V]) Hold(n int) *Party[V] {
	if r.present.Load() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hold(n, func(error) {})
}

// Free returns how many callers Hold would return at this moment, at most.
func (r *Room[V]) Free() int {
	if r.present.Load() == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy {
		return 0
	}
	return min(r.waiting.Len(), r.o.Max)
}

// Deliver gives each of the first of those whom Wants returned last what it gets. The others
// wait on, but those for whom items may be lost by err, as Options.Lost tells.
func (p *Party[V]) Deliver(got [][]V, err error) {
	defer func() { // also if Observe panics
		select {
		case p.held[0].woken <- struct{}{}: // the leader waits for nothing else now
		default:
		}
	}()
	p.room.deliver(p.held, got, err)
}

// holdBehind is hold for the leader w and those behind it. It returns nil, too, if somebody has
// handed w items, so that another one leads.
func (r *Room[V]) holdBehind(w *waiter[V], giveUp context.CancelCauseFunc) *Party[V] {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting.First() != w {
		return nil
	}
	p := r.hold(r.o.Max, giveUp)
	if p != nil {
		r.lastHeld = len(p.held)
	}
	return p
}

// hold keeps the first n callers from leaving while items are taken for them, or handed to
// them. It returns nil if that is so already, or nobody is there. The lock is held.
func (r *Room[V]) hold(n int, giveUp context.CancelCauseFunc) *Party[V] {
	if r.busy || r.waiting.Len() == 0 {
		return nil
	}
	r.busy = true
	held := make([]*waiter[V], 0, min(n, r.waiting.Len(), r.o.Max))
	for w := r.waiting.First(); len(held) < cap(held); w = w.place.Next() {
		w.held = true
		held = append(held, w)
	}
	r.staying, r.giveUp = len(held), giveUp
	return &Party[V]{r, held}
}
