package jobs

import (
	"bytes"
	"slices"

	"github.com/conq-go/conq/kv"
)

// Flight is a reservation that may be under way at the same time as others of its handle: each takes the jobs behind those that
// the ones before it are taking.
type Flight struct {
	of     *crowd
	n      int       // how many jobs it wants
	before []*Flight // those that were under way when its attempt began
	last   []byte    // the last ready entry that it is taking, once it knows that
	ended  bool
	back   bool // it takes the first ones after all, as there were none behind others
}

// Flies tells whether reservations of a handle may be under way at the same time.
func (q *Queue) Flies() bool {
	c := &q.Latest().config
	return q.limits.Shared && !c.Strict && !c.Relaxed
}

// Begin notes that a reservation of n jobs begins. It needs one of End.
func (q *Queue) Begin(n int) *Flight { return &Flight{of: q.crowd, n: n} }

// End notes that the reservation has ended.
func (f *Flight) End() {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.leave()
	f.ended, f.before = true, nil
}

func (f *Flight) leave() {
	f.of.flights = slices.DeleteFunc(f.of.flights, func(o *Flight) bool { return o == f })
}

// attempt notes that an attempt begins, and tells whether there are others behind which it may begin.
func (f *Flight) attempt() (follows bool) {
	if f == nil {
		return false
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.leave()
	f.before, f.last, f.back = slices.Clone(f.of.flights), nil, false
	f.of.flights = append(f.of.flights, f) // behind those that have begun since its last attempt, too
	return len(f.before) > 0
}

// start returns a Start behind what the others are taking.
func (f *Flight) start() Start {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	s := Start{flight: f}
	for _, o := range f.before {
		switch {
		case o.last == nil:
			s.behind += o.n
		case bytes.Compare(o.last, s.entry) >= 0:
			s.entry = kv.After(o.last)
		}
	}
	return s
}

// skip returns how many of the entries that an attempt has read others are taking: by now it may be known which these are.
func (f *Flight) skip(entries [][]byte) (n int) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	behind := 0
	for _, o := range f.before {
		if o.last == nil && !o.ended {
			behind += o.n
		}
		for o.last != nil && n < len(entries) && bytes.Compare(entries[n], o.last) <= 0 {
			n++
		}
	}
	return min(n+behind, len(entries))
}

// turnBack has the flight take the first jobs, although others may be taking them: if they do, it is made again.
func (f *Flight) turnBack() Start {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.back, f.before = true, nil
	return Start{flight: f}
}

// collides tells whether it is others than those of its handle with which an attempt may have collided.
func (f *Flight) collides() bool {
	if f == nil {
		return true
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	return !f.back
}

// takes notes which entries the flight is taking.
func (f *Flight) takes(entries [][]byte) {
	if f == nil || len(entries) == 0 {
		return
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.last = entries[len(entries)-1]
}
