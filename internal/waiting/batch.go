package waiting

import (
	"context"
	"slices"
)

// Batch is the callers for which a leader takes items, or Hold's caller has some. It is for
// Take alone, or the caller of Hold, and not safe for concurrent use.
type Batch[V any] struct {
	// Near, which Take may set, is closed at news of this process since before it has looked: besides
	// the news that it returns, and sooner.
	Near <-chan error

	list *List[V]
	held []*waiter[V] // the first ones of the list; the first of all is the leader
}

// Wants returns how many items each caller wants at most, in order, and lets callers leave
// that have given up. It returns nil if the leader has: then Take has to return an error, and
// have taken nothing; the next one will lead. Take calls it before each attempt, but not
// between one whose outcome is unknown and the look at whether it took effect.
func (p *Batch[V]) Wants() (wants []int) {
	r := p.list
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
	wants = make([]int, 0, len(p.held))
	for _, w := range p.held {
		wants = append(wants, w.want)
	}
	return wants
}

// Notes returns the notes of the callers that Wants has returned last, in order.
func (p *Batch[V]) Notes() (notes []any) {
	for _, w := range p.held {
		notes = append(notes, w.note)
	}
	return notes
}

func leaves[V any](w *waiter[V]) bool { return w.leaves }

// Next returns the stamp of the caller behind the first so many, and false if there is none.
func (p *Batch[V]) Next(served int) (stamp int64, ok bool) {
	r := p.list
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

// Hold returns the first callers, n at most, for a caller of Hold that has items for them, and
// keeps them from leaving until Deliver is called, which must be. It returns nil if no caller
// waits, or items are being taken for them, or handed to them, at this moment.
func (r *List[V]) Hold(n int) *Batch[V] {
	if r.present.Load() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hold(n, ignored)
}

func ignored(error) {}

// Free returns how many callers Hold would return at this moment, at most.
func (r *List[V]) Free() int {
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

// Deliver gives each of the first callers of Wants what it gets. The others wait on, unless
// err means that items of theirs may be lost, as Options.Lost tells.
func (p *Batch[V]) Deliver(got [][]V, err error) {
	defer func() { // also if Observe panics
		select {
		case p.held[0].woken <- struct{}{}: // the leader waits for nothing else now
		default:
		}
	}()
	p.list.deliver(p.held, got, err)
}

// holdBehind is hold for the leader w and the callers behind it. It returns nil, too, if w was
// handed items, so that another one leads.
func (r *List[V]) holdBehind(w *waiter[V], giveUp context.CancelCauseFunc) *Batch[V] {
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
// them. It returns nil if that is so already, or no caller waits. The lock is held.
func (r *List[V]) hold(n int, giveUp context.CancelCauseFunc) *Batch[V] {
	if r.busy || r.waiting.Len() == 0 {
		return nil
	}
	r.busy = true
	n = min(n, r.waiting.Len(), r.o.Max)
	p := &Batch[V]{list: r, held: make([]*waiter[V], 0, n)}
	for w := r.waiting.First(); len(p.held) < n; w = w.place.Next() {
		w.held = true
		p.held = append(p.held, w)
	}
	r.staying, r.giveUp = n, giveUp
	return p
}
