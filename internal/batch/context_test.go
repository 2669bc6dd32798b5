package batch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/batch"
)

func callsOf(contexts ...context.Context) (calls []*call) {
	for _, ctx := range contexts {
		calls = append(calls, &call{Context: ctx})
	}
	return calls
}

// The context of several calls ends with the last of theirs, in whichever order
// they end.
func TestContext(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		synctest.Test(t, func(t *testing.T) {
			var contexts []context.Context
			var cancels []context.CancelCauseFunc
			causes := []error{errors.New("0"), errors.New("1"), errors.New("2")}
			for range 3 {
				ctx, cancel := context.WithCancelCause(t.Context())
				contexts, cancels = append(contexts, ctx), append(cancels, cancel)
			}
			ctx, cancel := batch.Context(callsOf(contexts...))
			defer cancel()
			for _, i := range order {
				synctest.Wait()
				equal(t, "error before", ctx.Err(), nil)
				cancels[i](causes[i])
			}
			<-ctx.Done()
			equal(t, "error", ctx.Err(), context.Canceled)
			equal(t, "cause", context.Cause(ctx).Error(), "2")
		})
	}
}

// It ends at the last deadline, and shows none.
func TestContextDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		long, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ctx, cancel := batch.Context(callsOf(short, long, short))
		defer cancel()
		_, has := ctx.Deadline()
		equal(t, "has a deadline", has, false)
		<-ctx.Done()
		equal(t, "time that passed", time.Since(begin), time.Minute)
		equal(t, "cause", context.Cause(ctx), error(context.DeadlineExceeded))
	})
}

// With calls that have all ended it has ended from the start.
func TestContextEnded(t *testing.T) {
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errMine)
	ctx, stop := batch.Context(callsOf(ended, ended))
	defer stop()
	equal(t, "error", ctx.Err(), context.Canceled)
	equal(t, "cause", context.Cause(ctx), errMine)
}

// One call's context is taken as it is; among several, one that never ends is
// enough for the whole.
func TestContextCheap(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ctx, stop := batch.Context(callsOf(ended))
	stop()
	equal(t, "context of one call is its own", ctx == ended, true)
	ctx, stop = batch.Context(callsOf(ended, context.Background(), ended))
	stop()
	equal(t, "may end", ctx.Done() != nil, false)
}

// After cancel nothing is left behind: the context has ended, and nobody waits for
// those of the calls.
func TestContextCancel(t *testing.T) {
	first, second := watch(t.Context()), watch(t.Context())
	ctx, cancel := batch.Context(callsOf(first, second))
	equal(t, "waits", [2]int{first.waits, second.waits}, [2]int{1, 0})
	cancel()
	equal(t, "waits", [2]int{first.waits, second.waits}, [2]int{0, 0})
	equal(t, "cause", context.Cause(ctx), context.Canceled)
	cancel()
	equal(t, "waits", [2]int{first.waits, second.waits}, [2]int{0, 0})
}

// Not even if a call's context ends in that moment.
func TestContextCancelThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			first, second := watch(t.Context()), watch(t.Context())
			_, cancel := batch.Context(callsOf(first, second))
			first.err = errMine
			first.f() // runs in a goroutine of its own
			cancel()
			synctest.Wait()
			equal(t, "waits for the second", second.waits, 0)
		}
	})
}

// watched is a context that counts who waits for it.
type watched struct {
	context.Context
	done  chan struct{}
	err   error
	waits int
	f     func() // what the last of them has called then
}

func watch(ctx context.Context) *watched {
	return &watched{Context: ctx, done: make(chan struct{})}
}

func (w *watched) Done() <-chan struct{} { return w.done }
func (w *watched) Err() error            { return w.err }

func (w *watched) AfterFunc(f func()) (stop func() bool) {
	w.waits++
	w.f = f
	waits := true
	return func() bool {
		stopped := waits
		if waits {
			waits = false
			w.waits--
		}
		return stopped
	}
}
