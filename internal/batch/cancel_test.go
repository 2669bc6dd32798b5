package batch_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/batch"
)

// A call that waits leaves when its context ends, with the cause, and only that.
func TestCancelWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, which := range []int{0, 1, 2} { // first, middle and last of those that wait
			g := gate(batch.Options[int, int]{})
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

// hooked is a context that calls a function whenever a Batcher looks at it: when the
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
			g := gate(batch.Options[int, int]{})
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
// leads: here all but one end in the same instant in which the batch before does. If all do, the Batcher is idle.
func TestCancelThenLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for i := range 200 {
			g := gate(batch.Options[int, int]{})
			g.start(t.Context(), 9)
			ctx, cancel := context.WithCancelCause(t.Context())
			waiting, other := g.startAll(ctx, 1, 2, 3, 4), (<-chan outcome)(nil)
			if i%2 == 0 {
				other = g.start(t.Context(), 5)
			}
			g.batch(t, func([]*call) { cancel(errMine) }, 9)
			for _, c := range waiting {
				returns(t, c, 0, errMine)
			}
			if other == nil {
				g.idle(t)
				other = g.start(t.Context(), 5)
			}
			g.batch(t, double, 5)
			returns(t, other, 10, nil)
			g.idle(t)
		}
	})
}

// A call in a batch that runs returns when Run is done with it, though its context
// ends before.
func TestCancelRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(batch.Options[int, int]{})
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

// Calls with one context leave together, though those before them that had it are in a
// batch by then.
func TestCancelRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(batch.Options[int, int]{MaxCalls: 2})
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

// A panic reaches the caller who leads the batch, the others get an error, and
// what Run had let go keeps its result. The Batcher goes on.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(batch.Options[int, int]{})
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
			calls[1].Finish()
			panic("bad luck")
		}, 1, 2, 3)
		equal(t, "panic", <-panicked, any("bad luck"))
		returns(t, others[0], 4, nil)
		got := <-others[1]
		if !errors.Is(got.err, batch.ErrPanicked) || !strings.Contains(got.err.Error(), "bad luck") {
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
		g := gate(batch.Options[int, int]{})
		g.start(t.Context(), 9)
		calls := g.startAll(t.Context(), 1, 2)
		g.batch(t, double, 9)
		after := g.start(t.Context(), 3)
		g.batch(t, func([]*call) { runtime.Goexit() }, 1, 2)
		pending(t, calls[0])
		got := <-calls[1]
		if !errors.Is(got.err, batch.ErrPanicked) || !strings.Contains(got.err.Error(), "its goroutine was ended") {
			t.Errorf("the other call returned %v", got.err)
		}
		g.batch(t, double, 3)
		returns(t, after, 6, nil)
	})
}

// A panic of Size does not stop the Batcher either.
func TestPanicHooks(t *testing.T) {
	l := batch.New(batch.Options[int, int]{
		Run: double,
		Size: func(q int) int {
			if q == 1 {
				panic("size")
			}
			return q
		},
	})
	for i, want := range []any{nil, "size", nil} {
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
		g := gate(batch.Options[int, int]{})
		g.start(t.Context(), 9)
		running := g.startAll(t.Context(), 1, 2)
		g.batch(t, double, 9)
		waiting := g.startAll(t.Context(), 3, 4)
		g.Close(errMine)
		g.Close(errors.New("too late"))
		for _, w := range waiting {
			returns(t, w, 0, errMine)
		}
		returns(t, g.start(t.Context(), 5), 0, errMine)
		pending(t, running...)
		g.batch(t, double, 1, 2)
		returns(t, running[0], 2, nil)
		returns(t, running[1], 4, nil)
		returns(t, g.start(t.Context(), 6), 0, errMine)
		g.idle(t)
	})
}

// One that was chosen to lead, but has not taken a batch, is closed too, and so is
// a lone one.
func TestCloseThenTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gate(batch.Options[int, int]{})
		g.start(t.Context(), 9)
		leader := g.start(hooked{context.Background(), func() { g.Close(errMine) }}, 1)
		other := g.start(t.Context(), 2)
		g.batch(t, double, 9)
		returns(t, leader, 0, errMine)
		returns(t, other, 0, errMine)
		g.idle(t)

		g = gate(batch.Options[int, int]{})
		lone := g.start(hooked{context.Background(), func() { g.Close(errMine) }}, 1)
		returns(t, lone, 0, errMine)
		g.idle(t)
	})
}
