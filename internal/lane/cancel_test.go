package lane_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/lane"
)

// A call that waits leaves when its context ends, with the cause, and only that.
func TestCancelWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, which := range []int{0, 1, 2} { // first, middle and last of those that wait
			g := gate(lane.Options[int, int]{})
			first := g.start(t.Context(), 9)
			var waiting []<-chan outcome
			var cancels []context.CancelCauseFunc
			for i := range 3 {
				ctx, cancel := context.WithCancelCause(t.Context())
				waiting, cancels = append(waiting, g.start(ctx, i)), append(cancels, cancel)
			}
			cancels[which](errMine)
			returns(t, waiting[which], 0, errMine)
			pending(t, first)
			g.batch(t, double, 9)
			rest := []int{0, 1, 2}
			g.batch(t, double, append(rest[:which:which], rest[which+1:]...)...)
			for i, c := range waiting {
				if i != which {
					returns(t, c, 2*i, nil)
				}
			}
			g.idle(t)
		}
	})
}

// A deadline is one, too.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(lane.Options[int, int]{})
		g.start(t.Context(), 9)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err := g.Do(ctx, 1)
		equal(t, "error", err, error(context.DeadlineExceeded))
		equal(t, "time that passed", time.Since(begin), time.Second)
		g.batch(t, double, 9)
		g.idle(t)
	})
}

// hooked is a context that calls a function whenever a lane looks at it: when the
// call was chosen to lead, and again when it is in a batch.
type hooked struct {
	context.Context
	look func()
}

func (h hooked) Err() error {
	h.look()
	return h.Context.Err()
}

// A call whose context ended before the batch was taken is not run, even if its
// goroutine had no time to leave: here all end when the leader is about to take it.
func TestCancelThenTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			g := gate(lane.Options[int, int]{})
			g.start(t.Context(), 9)
			ctx, cancel := context.WithCancelCause(t.Context())
			leader := g.start(hooked{context.Background(), func() { cancel(errMine) }}, 5)
			waiting := g.startAll(ctx, 1, 2, 3, 4)
			g.batch(t, double, 9)
			for _, c := range waiting {
				returns(t, c, 0, errMine)
			}
			g.batch(t, double, 5)
			returns(t, leader, 10, nil)
			g.idle(t)
		}
	})
}

// One that was chosen to lead when its context ends leaves at once, and another
// leads: here all but one end in the same instant in which the batch before does.
func TestCancelThenLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			g := gate(lane.Options[int, int]{})
			g.start(t.Context(), 9)
			ctx, cancel := context.WithCancelCause(t.Context())
			waiting := g.startAll(ctx, 1, 2, 3, 4)
			other := g.start(t.Context(), 5)
			g.batch(t, func([]*call) { cancel(errMine) }, 9)
			for _, c := range waiting {
				returns(t, c, 0, errMine)
			}
			g.batch(t, double, 5)
			returns(t, other, 10, nil)
			g.idle(t)
		}
	})
}

// The lane is idle again when all that waited have left in that instant.
func TestCancelAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			g := gate(lane.Options[int, int]{})
			g.start(t.Context(), 9)
			ctx, cancel := context.WithCancelCause(t.Context())
			waiting := g.startAll(ctx, 1, 2, 3)
			g.batch(t, func([]*call) { cancel(errMine) }, 9)
			for _, c := range waiting {
				returns(t, c, 0, errMine)
			}
			g.idle(t)
			last := g.start(t.Context(), 7)
			g.batch(t, double, 7)
			returns(t, last, 14, nil)
		}
	})
}

// A call in a batch that runs returns when Run is done with it, though its context
// ends before.
func TestCancelRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(lane.Options[int, int]{})
		ctx, cancel := context.WithCancelCause(t.Context())
		first := g.start(ctx, 1)
		waiting := g.startAll(ctx, 2, 3)
		g.batch(t, double, 1)
		returns(t, first, 2, nil)
		cancel(errMine)
		pending(t, waiting...)
		g.batch(t, func(calls []*call) {
			for _, c := range calls {
				equal(t, "context's error", c.Context.Err(), error(context.Canceled))
			}
			double(calls)
		}, 2, 3)
		returns(t, waiting[0], 4, nil)
		returns(t, waiting[1], 6, nil)
	})
}

// A call that was let go is not used again while its batch goes on, though it lies in the memory
// that is the lane's own.
func TestReturnOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(lane.Options[int, int]{MaxCalls: 2})
		g.start(t.Context(), 1) // in that memory
		g.startAll(t.Context(), 2, 3, 4)
		g.batch(t, double, 1)
		early := g.start(t.Context(), 5) // in it again
		g.batch(t, double, 2, 3)
		next := g.start(t.Context(), 6)
		goOn := make(chan struct{})
		g.batch(t, func(calls []*call) {
			calls[1].Return()
			<-goOn
		}, 4, 5)
		returns(t, early, 0, nil)
		last := g.start(t.Context(), 7)
		close(goOn)
		g.batch(t, double, 6, 7)
		returns(t, next, 12, nil)
		returns(t, last, 14, nil)
	})
}

// Calls with one context leave together, though those before them that had it are in a
// batch by then.
func TestCancelRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(lane.Options[int, int]{MaxCalls: 2})
		g.start(t.Context(), 9)
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting := g.startAll(ctx, 1, 2, 3, 4)
		other := g.start(t.Context(), 5)
		last := g.start(context.WithValue(ctx, &errMine, 0), 6)
		g.batch(t, double, 9)
		again := make(chan bool)
		g.batch(t, func(calls []*call) { <-again; double(calls) }, 1, 2)
		pending(t, waiting...)
		cancel(errMine)
		for _, c := range append(waiting[2:], last) {
			returns(t, c, 0, errMine)
		}
		pending(t, waiting[0], waiting[1], other)
		again <- true
		returns(t, waiting[0], 2, nil)
		returns(t, waiting[1], 4, nil)
		g.batch(t, double, 5)
		returns(t, other, 10, nil)
		g.idle(t)
	})
}

// Run can let a call go before the others, whichever call leads.
func TestWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for which := range 3 {
			g := gate(lane.Options[int, int]{})
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
				equal(t, "wanted", requests(lane.Wanted(calls)), []int{0, 1, 2})
				cancel(errMine)
				wanted := lane.Wanted(calls)
				<-again
				double(wanted)
				equal(t, "wanted again", requests(lane.Wanted(wanted)), requests(wanted))
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

// What Run set before Return is what the caller gets, once.
func TestReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(lane.Options[int, int]{})
		first := g.start(t.Context(), 1)
		waiting := g.startAll(t.Context(), 2, 3)
		g.batch(t, func(calls []*call) { calls[0].Err = errMine; calls[0].Return() }, 1)
		returns(t, first, 0, errMine)
		again := make(chan bool)
		g.batch(t, func(calls []*call) {
			calls[1].Result = 30
			calls[1].Return()
			calls[1].Return()
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

// A panic reaches the caller who leads the batch, the others get an error, and
// what Run had let go keeps its result. The lane goes on.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(lane.Options[int, int]{})
		g.start(t.Context(), 9)
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			_, err := g.Do(t.Context(), 1)
			t.Errorf("the leader's call returned %v", err)
		}()
		synctest.Wait()
		others := g.startAll(t.Context(), 2, 3)
		g.batch(t, double, 9)
		after := g.start(t.Context(), 4)
		g.batch(t, func(calls []*call) {
			double(calls)
			calls[1].Return()
			panic("bad luck")
		}, 1, 2, 3)
		equal(t, "panic", <-panicked, any("bad luck"))
		returns(t, others[0], 4, nil)
		got := <-others[1]
		if !errors.Is(got.err, lane.ErrPanicked) || !strings.Contains(got.err.Error(), "bad luck") {
			t.Errorf("the other call returned %v", got.err)
		}
		g.batch(t, double, 4)
		returns(t, after, 8, nil)
		g.idle(t)
	})
}

// So it is when Run ends its goroutine, whose caller never returns.
func TestGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(lane.Options[int, int]{})
		g.start(t.Context(), 9)
		calls := g.startAll(t.Context(), 1, 2)
		g.batch(t, double, 9)
		after := g.start(t.Context(), 3)
		g.batch(t, func([]*call) { runtime.Goexit() }, 1, 2)
		pending(t, calls[0])
		returns(t, calls[1], 0, lane.ErrPanicked)
		g.batch(t, double, 3)
		returns(t, after, 6, nil)
	})
}

// Panics of the other functions do not stop the lane either.
func TestPanicHooks(t *testing.T) {
	l := lane.New(lane.Options[int, int]{
		Run: double,
		Size: func(q int) int {
			if q == 1 {
				panic("size")
			}
			return q
		},
		Observe: func(_, bytes int) {
			if bytes == 2 {
				panic("observe")
			}
		},
	})
	for i, want := range []any{nil, "size", "observe", nil} {
		func() {
			defer func() { equal(t, "panic", recover(), want) }()
			r, err := l.Do(t.Context(), i)
			equal(t, "outcome", outcome{r, err}, outcome{2 * i, nil})
		}()
	}
}

// Close sends away what waits and what comes; what runs is finished.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ given, want error }{{errMine, errMine}, {nil, lane.ErrClosed}} {
			g := gate(lane.Options[int, int]{})
			g.start(t.Context(), 9)
			running := g.startAll(t.Context(), 1, 2)
			g.batch(t, double, 9)
			waiting := g.startAll(t.Context(), 3, 4)
			g.Close(c.given)
			g.Close(errors.New("too late"))
			for _, w := range waiting {
				returns(t, w, 0, c.want)
			}
			returns(t, g.start(t.Context(), 5), 0, c.want)
			pending(t, running...)
			g.batch(t, double, 1, 2)
			returns(t, running[0], 2, nil)
			returns(t, running[1], 4, nil)
			returns(t, g.start(t.Context(), 6), 0, c.want)
			g.idle(t)
		}
	})
}

// One that was chosen to lead, but has not taken a batch, is closed too, and so is
// a lone one.
func TestCloseThenTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(lane.Options[int, int]{})
		g.start(t.Context(), 9)
		leader := g.start(hooked{context.Background(), func() { g.Close(errMine) }}, 1)
		other := g.start(t.Context(), 2)
		g.batch(t, double, 9)
		returns(t, leader, 0, errMine)
		returns(t, other, 0, errMine)
		g.idle(t)

		g = gate(lane.Options[int, int]{})
		lone := g.start(hooked{context.Background(), func() { g.Close(errMine) }}, 1)
		returns(t, lone, 0, errMine)
		g.idle(t)
	})
}

// stays is a Run that attends to its calls again and again: at each step it waits
// until it is told to go on, or to be done.
type stays struct {
	steps chan bool
	seen  chan []int
}

func (s stays) run(calls []*call) {
	for {
		calls = lane.Attend(calls)
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

// A call in a batch under way leaves when Run attends to it next, with its context's
// cause: also the one who leads. Then another one leads, and the order stays.
func TestAttend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for which := range 4 {
			s := stays{make(chan bool), make(chan []int, 10)}
			l := lane.New(lane.Options[int, int]{Run: s.run})
			start := func(ctx context.Context, n int) <-chan outcome {
				c := make(chan outcome, 1)
				go func() {
					result, err := l.Do(ctx, n)
					c <- outcome{result, err}
				}()
				synctest.Wait()
				return c
			}
			gate := start(t.Context(), 9)
			var calls []<-chan outcome
			var cancels []context.CancelCauseFunc
			for i := range 4 {
				ctx, cancel := context.WithCancelCause(t.Context())
				calls, cancels = append(calls, start(ctx, i)), append(cancels, cancel)
			}
			s.steps <- true // the gate's
			returns(t, gate, 18, nil)
			synctest.Wait()
			late := start(t.Context(), 7) // comes after them
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

// Calls that are postponed when the lane was closed meanwhile get its error; one
// whose context ends while it waits again leaves at once.
func TestAttendClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, closes := range []bool{true, false} {
			s := stays{make(chan bool), make(chan []int, 10)}
			l := lane.New(lane.Options[int, int]{Run: s.run})
			start := func(ctx context.Context, n int) <-chan outcome {
				c := make(chan outcome, 1)
				go func() {
					result, err := l.Do(ctx, n)
					c <- outcome{result, err}
				}()
				synctest.Wait()
				return c
			}
			gate := start(t.Context(), 9)
			ctx, cancel := context.WithCancelCause(t.Context())
			leads, other := start(ctx, 1), start(t.Context(), 2)
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
