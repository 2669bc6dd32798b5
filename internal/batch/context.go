package batch

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Context returns a context for work that is done for all calls. It ends when the contexts of all of them have ended,
// with the cause of the last one in calls, or when cancel is called, which must be. It has no deadline and no values, unless
// all contexts end as one, as those of workers who share one do: then it is that of the first call.
//
// It costs the same for any number of calls, as it waits for one context after the other, and nothing if they end as one or
// one of them can never end.
func Context[Q, R any](calls []*Call[Q, R]) (ctx context.Context, cancel context.CancelFunc) {
	first := calls[0].Context
	differs := func(c *Call[Q, R]) bool { return c.Context.Done() != first.Done() }
	if _, soft := first.Value(softly{}).(softly); !soft && !slices.ContainsFunc(calls[1:], differs) {
		return first, nothing
	}
	rest := make([]context.Context, len(calls))
	for i, c := range calls {
		if c.Context.Done() == nil {
			return context.Background(), nothing
		}
		rest[i] = c.Context
	}
	ctx, end := context.WithCancelCause(context.Background())
	v := &vigil{rest: rest, end: end}
	v.next()
	return ctx, v.stop
}

func nothing() {}

// vigil waits for the contexts of rest, one at a time.
type vigil struct {
	mu     sync.Mutex
	rest   []context.Context
	end    context.CancelCauseFunc
	forget func() bool        // ends the wait for rest[0]
	late   context.CancelFunc // frees rest[0] if it is the late end of a soft one; or nil
}

// next drops what has ended from the front, and waits for the first that has not.
func (v *vigil) next() {
	v.mu.Lock()
	defer v.mu.Unlock()
	var cause error
	for len(v.rest) > 0 && v.rest[0].Err() != nil {
		cause = context.Cause(v.rest[0])
		v.free()
		if s, soft := v.rest[0].Value(softly{}).(softly); soft {
			v.rest[0], v.late = context.WithTimeoutCause(s.hard, s.most, cause)
		} else {
			v.rest = v.rest[1:]
		}
	}
	switch {
	case len(v.rest) > 0:
		v.forget = context.AfterFunc(v.rest[0], v.next)
	default:
		v.end(cause) // nothing new if stop came first
	}
}

func (v *vigil) free() {
	if v.late != nil {
		v.late()
		v.late = nil
	}
}

func (v *vigil) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rest = nil
	if v.forget != nil {
		v.forget()
	}
	v.free()
	v.end(context.Canceled)
}

type softly struct {
	hard context.Context
	most time.Duration
}

// Softly returns a context for a call that gives up when soft ends, but waits for a batch that it is in then, for so long at
// most and until hard ends. To break that off would leave unknown whether something was taken.
func Softly(soft, hard context.Context, most time.Duration) context.Context {
	return context.WithValue(soft, softly{}, softly{hard, most})
}
