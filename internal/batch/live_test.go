package batch_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/batch"
)

// Run can let a call go before the others, whichever call leads.
func TestWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for which := range 3 {
			g := gate(batch.Options[int, int]{})
			g.start(t.Context(), 9)
			ctx, cancel := context.WithCancelCause(t.Context())
			var waiting []<-chan outcome
			for i := range 3 {
				of := t.Context()
				if i == which {
					of = ctx
				}
				waiting = append(waiting, g.start(of, i))
			}
			g.batch(t, double, 9)
			again := make(chan bool)
			g.batch(t, func(calls []*call) {
				equal(t, "wanted", requests(batch.Unended(calls)), []int{0, 1, 2})
				cancel(errMine)
				wanted := batch.Unended(calls)
				<-again
				double(wanted)
				equal(t, "wanted again", requests(batch.Unended(wanted)), requests(wanted))
			}, 0, 1, 2)
			if which == 0 {
				pending(t, waiting...) // it leads
			} else {
				returns(t, waiting[which], 0, errMine)
			}
			again <- true
			for i, c := range waiting {
				switch {
				case i != which:
					returns(t, c, 2*i, nil)
				case i == 0:
					returns(t, c, 0, errMine)
				}
			}
			g.idle(t)
		}
	})
}

// What Run set before Finish is what the caller gets, once.
func TestFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(batch.Options[int, int]{})
		first := g.start(t.Context(), 1)
		waiting := g.startAll(t.Context(), 2, 3)
		g.batch(t, func(calls []*call) { calls[0].Err = errMine; calls[0].Finish() }, 1)
		returns(t, first, 0, errMine)
		again := make(chan bool)
		g.batch(t, func(calls []*call) {
			calls[1].Result = 30
			calls[1].Finish()
			calls[1].Finish()
			<-again
			calls[0].Result = 20
		}, 2, 3)
		returns(t, waiting[1], 30, nil)
		pending(t, waiting[0])
		again <- true
		returns(t, waiting[0], 20, nil)
		g.idle(t)
	})
}

// stays is a Run that asks for its live calls again and again: at each step it waits
// until it is told to go on, or to be done.
type stays struct {
	steps chan bool
	seen  chan []int
}

func (s stays) run(calls []*call) {
	for {
		calls = batch.Live(calls)
		var requests []int
		for _, c := range calls {
			requests = append(requests, c.Request)
		}
		s.seen <- requests
		if len(calls) == 0 {
			return
		}
		if done := <-s.steps; done {
			double(calls)
			return
		}
	}
}

// A call in a batch under way leaves when Run asks for live calls next, with its context's
// cause: also the one who leads. Then another one leads, and the order stays.
func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for which := range 4 {
			s := stays{make(chan bool), make(chan []int, 10)}
			l := gated{Batcher: batch.New(batch.Options[int, int]{Run: s.run})}
			gate := l.start(t.Context(), 9)
			var calls []<-chan outcome
			var cancels []context.CancelCauseFunc
			for i := range 4 {
				ctx, cancel := context.WithCancelCause(t.Context())
				calls, cancels = append(calls, l.start(ctx, i)), append(cancels, cancel)
			}
			s.steps <- true // the gate's
			returns(t, gate, 18, nil)
			synctest.Wait()
			late := l.start(t.Context(), 7) // comes after them
			cancels[which](errMine)
			synctest.Wait()
			equal(t, "returned while Run does not look", len(calls[which]), 0)
			s.steps <- false
			synctest.Wait()
			returns(t, calls[which], 0, errMine)
			s.steps <- true
			if synctest.Wait(); which > 0 {
				s.steps <- true
			}
			for i, c := range calls {
				if i != which {
					returns(t, c, 2*i, nil)
				}
				cancels[i](nil)
			}
			returns(t, late, 14, nil)
			var seen [][]int
			for len(s.seen) > 0 {
				seen = append(seen, <-s.seen)
			}
			want := map[int]string{
				0: "[[9] [0 1 2 3] [] [1 2 3 7]]", 1: "[[9] [0 1 2 3] [0 2 3] [7]]",
				2: "[[9] [0 1 2 3] [0 1 3] [7]]", 3: "[[9] [0 1 2 3] [0 1 2] [7]]",
			}[which]
			equal(t, "served", fmt.Sprint(seen), want)
		}
	})
}

// Calls that are requeued when the Batcher was closed meanwhile get its error; one
// whose context ends while it waits again leaves at once.
func TestLiveClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, closes := range []bool{true, false} {
			s := stays{make(chan bool), make(chan []int, 10)}
			l := gated{Batcher: batch.New(batch.Options[int, int]{Run: s.run})}
			gate := l.start(t.Context(), 9)
			ctx, cancel := context.WithCancelCause(t.Context())
			leads, other := l.start(ctx, 1), l.start(t.Context(), 2)
			s.steps <- true
			returns(t, gate, 18, nil)
			synctest.Wait()
			cancel(errMine)
			if closes {
				l.Close(errOther)
			}
			s.steps <- false
			synctest.Wait()
			returns(t, leads, 0, errMine)
			if closes {
				returns(t, other, 0, errOther)
				continue
			}
			s.steps <- true
			returns(t, other, 4, nil)
		}
	})
}
