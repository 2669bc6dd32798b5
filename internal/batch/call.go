package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/conq-go/conq/internal/linked"
	"github.com/conq-go/conq/kv"
)

// Call is one caller's part of a batch. Context and Request are the caller's. Run sets Result and Err, and the caller gets
// them when Run returns, or when it calls Finish.
type Call[Q, R any] struct {
	Context context.Context // ends when the caller does not want the result any more
	Request Q
	Result  R
	Err     error

	size   int
	stamp  int64 // of its arrival, for Waiters
	state  atomic.Int32
	wake   chan struct{} // holds one; nil for a call that leads from the start
	leader *Call[Q, R]   // of its batch; nil if the leader is not one of the calls
	idle   *idle         // of a leader of Waiters, whose caller alone sees it

	place     linked.Place[Call[Q, R]] // in line; this and what follows is guarded by the Batcher's lock
	leaves    bool                     // its caller is to be woken when it is in line again
	abandoned bool                     // its caller is gone for good
}

// The states of a call.
const (
	inLine   = iota
	leading  // in line, and forms the next batch
	running  // in a batch
	requeued // in a batch, and in line again when that is over
	done
)

func (c *Call[Q, R]) is(state int32) bool { return c.state.Load() == state }

// become changes the state, and has the caller look at it.
func (c *Call[Q, R]) become(state int32) {
	c.state.Store(state)
	c.wakeUp()
}

func (c *Call[Q, R]) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default: // it is about to look, or nobody waits
	}
}

// Finish lets the caller go now, with Result and Err as they are, while Run goes on with the others. Run must not touch the
// call afterwards. The leader's caller runs the batch, so it returns only after that; see Live.
func (c *Call[Q, R]) Finish() {
	if c.is(running) {
		c.become(done)
	}
}

// Fail sets the error of a transaction that was run for several calls. If the call's own context has ended, it is the cause of
// that; after an unknown commit it is both.
func (c *Call[Q, R]) Fail(err error) {
	switch {
	case err == nil || c.Context.Err() == nil:
		c.Err = err
	case errors.Is(err, kv.ErrCommitUnknown):
		c.Err = fmt.Errorf("%w: %w", kv.ErrCommitUnknown, context.Cause(c.Context))
	default:
		c.Err = context.Cause(c.Context)
	}
}

// Live returns the calls whose contexts have not ended, in order, and finishes the others with the causes of their
// contexts. It returns none if the leader's call is finished: nobody is to be kept for others. Then the next batch serves
// these, before calls that came since. Run must not touch calls that Live does not return.
//
// Run uses it before each attempt of a transaction, but not between an attempt whose outcome is unknown and the next: what a
// call asked for may be done already. Live does not change calls.
func Live[Q, R any](calls []*Call[Q, R]) []*Call[Q, R] {
	calls = unended(calls)
	if len(calls) == 0 || calls[0].leader == nil || !calls[0].leader.is(done) {
		return calls
	}
	for _, c := range calls {
		c.state.Store(requeued)
	}
	return nil
}

// unended returns the calls whose contexts have not ended, and finishes the others.
func unended[Q, R any](calls []*Call[Q, R]) []*Call[Q, R] {
	ended := func(c *Call[Q, R]) bool { return c.Context.Err() != nil }
	first := slices.IndexFunc(calls, ended)
	if first < 0 {
		return calls
	}
	live := slices.Clone(calls[:first])
	for _, c := range calls[first:] {
		if !ended(c) {
			live = append(live, c)
			continue
		}
		c.Err = context.Cause(c.Context)
		c.Finish()
	}
	return live
}

// Each serves calls one after the other. For a batch that has failed, if the reason may be one call's.
func Each[Q, R any](calls []*Call[Q, R], serve func(*Call[Q, R])) {
	if len(calls) == 0 {
		return
	}
	for leader := calls[0].leader; len(calls) > 0; {
		c := calls[0]
		serve(c)
		if c != leader {
			c.Finish()
		}
		if leader != nil && leader.Context.Err() != nil && !slices.Contains(calls[1:], leader) {
			leader.Finish()
		}
		calls = Live(calls[1:])
	}
}

// Requests returns the requests of calls.
func Requests[Q, R any](calls []*Call[Q, R]) []Q {
	all := make([]Q, len(calls))
	for i, c := range calls {
		all[i] = c.Request
	}
	return all
}
