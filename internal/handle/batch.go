package handle

import (
	"slices"

	"github.com/conq-go/conq/internal/combine"
	"github.com/conq-go/conq/internal/waiting"
	"github.com/conq-go/conq/kv"
)

// demand is what a call wants: up to n items, or what callers want that wait.
type demand struct {
	n       int
	waiters *waiters
	wants   []int // of those, when they were asked last
}

// waiters are callers that wait for items; the first leads them.
type waiters = waiting.Batch[Item]

// takeCall is a call that takes, or that of a leader for callers that wait. It gets a share, or those
// of the first of them.
type takeCall = combine.Call[demand, []share]

// takeBatch is the calls that one transaction serves. A caller that gives up leaves it before the
// next attempt and gets nothing, unless an earlier attempt may have taken something for it.
type takeBatch struct {
	taker   *taker
	calls   []*takeCall // those that have got nothing yet
	wants   []int       // of calls, one after the other
	attempt attempt
	plain   bool // it was staged, and nothing was there: StagingAuto does not do so again
}

// attendIn is attend for an attempt. It keeps all if an earlier one may have taken
// effect: what the transaction returns may be what that one has dealt out.
func (b *takeBatch) attendIn(tx kv.Tx) bool { return kv.Unsettled(tx) || b.attend() }

// attend lets callers go that have given up, and finds out what the others want. It
// returns false if none is left to be served.
func (b *takeBatch) attend() bool {
	for _, c := range b.calls {
		if c.Request.waiters != nil {
			c.Request.wants = c.Request.waiters.Wants()
		}
	}
	if slices.ContainsFunc(b.calls, leaderless) {
		all := b.calls
		b.calls = slices.DeleteFunc(slices.Clone(all), leaderless)
		for _, c := range all {
			if leaderless(c) { // another one will lead them
				c.Err = errNobody
				c.Return()
			}
		}
	}
	b.calls = combine.Attend(b.calls)
	b.wants = slices.Grow(b.wants[:0], len(b.calls))
	for _, c := range b.calls {
		if c.Request.waiters != nil {
			b.wants = append(b.wants, c.Request.wants...)
		} else {
			b.wants = append(b.wants, c.Request.n)
		}
	}
	return len(b.calls) > 0
}

// leaderless tells whether the leader of callers that wait has given up: the next one comes with a new call.
func leaderless(c *takeCall) bool { return c.Request.waiters != nil && c.Request.wants == nil }

// deliver gives the first calls their shares, and lets them go if there are others
// that need another transaction.
func (b *takeBatch) deliver(shares []share) {
	served := b.calls
	for len(shares) > 0 && len(b.calls) > 0 {
		c, n := b.calls[0], 1
		if c.Request.waiters != nil {
			n = min(len(c.Request.wants), len(shares))
		}
		c.Result = shares[:n:n]
		shares, b.calls = shares[n:], b.calls[1:]
	}
	if len(b.calls) == 0 {
		return
	}
	for _, c := range served[:len(served)-len(b.calls)] {
		c.Return()
	}
}
