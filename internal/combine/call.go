package combine

import (
	"context"
	"slices"

	"github.com/conq-go/conq/internal/linked"
)

// Call is one caller's part of a batch. Context and Request are the caller's; Run
// sets Result and Err, which the caller gets as they are when Run has returned,
// or has called Return.
type Call[Q, R any] struct {
	Context context.Context // ends when the caller does not want the result any more
	Request Q
	Result  R
	Err     error

	size      int
	returned  bool
	postponed bool
	wake      chan signal // has room for one: a call in a list or a batch is woken once
	leader    *Call[Q, R] // of the batch that the call is in

	place linked.Place[Call[Q, R]] // among those that wait
}

// signal says how a call goes on.
type signal int

const (
	waits signal = iota // for another signal, or the end of its context
	lead                // the next batch
	done                // it was dealt with
)

// Return lets the caller go now, with Result and Err as they are, while Run goes
// on with the others. Run must not touch the call afterwards. The caller that leads
// the batch is needed to run it, and returns only after it; see Attend.
func (c *Call[Q, R]) Return() {
	if c.returned {
		return
	}
	c.returned = true
	if c.leader != nil && c.leader != c { // the leader does not wait, nor does a call without a combiner
		c.wake <- done
	}
}

// Wanted returns the calls whose contexts have not ended, in order, and lets the
// others go (see Return) with the causes of their contexts. For Run, before each
// attempt; but not between one whose outcome is unknown and the look at whether it
// took effect, as what a call then asked for may have been done. It does not
// change calls.
func Wanted[Q, R any](calls []*Call[Q, R]) []*Call[Q, R] {
	ended := func(c *Call[Q, R]) bool { return c.Context.Err() != nil }
	first := slices.IndexFunc(calls, ended)
	if first < 0 {
		return calls
	}
	wanted := slices.Clone(calls[:first])
	for _, c := range calls[first:] {
		if !ended(c) {
			wanted = append(wanted, c)
			continue
		}
		c.Err = context.Cause(c.Context)
		c.Return()
	}
	return wanted
}

// Attend is Wanted for a Run that can stop: if the caller that leads the batch has
// gone (see Return), it is not to be kept for the others. Then all of these are
// served by the next batch, before those that have come since, in their order, and
// Attend returns none. Run must not touch them afterwards.
func Attend[Q, R any](calls []*Call[Q, R]) []*Call[Q, R] {
	wanted := Wanted(calls)
	if len(wanted) == 0 || wanted[0].leader == nil || !wanted[0].leader.returned {
		return wanted
	}
	for _, c := range wanted {
		c.postponed = true
	}
	return nil
}
