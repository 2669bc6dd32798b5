package waiting

import (
	"context"
	"time"
)

type softly struct {
	hard context.Context
	most time.Duration
}

// Softly returns a context for a Wait that gives up when soft ends, but waits for what is being taken for it then, for so long at most
// and until hard ends: where that is broken off it may not be known whether something was taken.
func Softly(soft, hard context.Context, most time.Duration) context.Context {
	return context.WithValue(soft, softly{}, softly{hard, most})
}

// giveUp gives up later, unless the caller calls forget, which it must when there is nothing to give up any more.
func (s softly) giveUp(cause error, give context.CancelCauseFunc) (forget func()) {
	until, end := context.WithTimeoutCause(s.hard, s.most, cause)
	stop := context.AfterFunc(until, func() { give(context.Cause(until)) })
	return func() {
		stop()
		end()
	}
}
