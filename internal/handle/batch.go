package handle

import (
	"context"
	"errors"
	"slices"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
)

// request is what a call that takes wants: up to n items, or what waiters want.
type request struct {
	n       int
	waiting *waiting
	wants   []int // of the waiters, when they were asked last
}

// waiting is callers that wait for items. The first one leads.
type waiting = batch.Waiting[int, Item]

// takeCall is a call that takes, or that of a leader for waiters. It gets a result, or those of the first of them.
type takeCall = batch.Call[request, []result]

// takeBatch is the calls that one transaction serves. A caller that gives up leaves it before the next attempt and gets
// nothing, unless an earlier attempt may have taken something for it.
type takeBatch struct {
	taker    *taker
	calls    []*takeCall // those that have got nothing yet
	wants    []int       // of calls, one after the other
	attempts int         // of the transaction that runs, or has run last
	found    int         // how many items the last attempt has found
	most     int         // how many to look for, after more were too large for a transaction; 0 for all
	direct   bool        // it was staged, and nothing was there: StagingAuto does not do so again
}

// liveIn is live for an attempt. It keeps all if an earlier one may have taken effect: what the transaction returns may be
// what that one has given them.
func (b *takeBatch) liveIn(tx kv.Tx) bool { return kv.Unsettled(tx) || b.live() }

// live lets callers go that have given up, and finds out what the others want. It returns false if none is left to be served.
func (b *takeBatch) live() bool {
	for _, c := range b.calls {
		if c.Request.waiting != nil {
			c.Request.wants = c.Request.waiting.Requests()
		}
	}
	if slices.ContainsFunc(b.calls, isLeaderless) {
		all := b.calls
		b.calls = slices.DeleteFunc(slices.Clone(all), isLeaderless)
		for _, c := range all {
			if isLeaderless(c) { // another one will lead them
				c.Err = errNobody
				c.Finish()
			}
		}
	}
	b.calls = batch.Live(b.calls)
	b.wants = slices.Grow(b.wants[:0], len(b.calls))
	for _, c := range b.calls {
		if c.Request.waiting != nil {
			b.wants = append(b.wants, c.Request.wants...)
		} else {
			b.wants = append(b.wants, c.Request.n)
		}
	}
	return len(b.calls) > 0
}

// isLeaderless tells whether the leader of waiters has given up: the next one comes with a new call.
func isLeaderless(c *takeCall) bool { return c.Request.waiting != nil && c.Request.wants == nil }

// deliver gives the first calls their results, and lets them go if there are others that need another transaction.
func (b *takeBatch) deliver(results []result) {
	served := b.calls
	for len(results) > 0 && len(b.calls) > 0 {
		c, n := b.calls[0], 1
		if c.Request.waiting != nil {
			n = min(len(c.Request.wants), len(results))
		}
		c.Result = results[:n:n]
		results, b.calls = results[n:], b.calls[1:]
	}
	if len(b.calls) == 0 {
		return
	}
	for _, c := range served[:len(served)-len(b.calls)] {
		c.Finish()
	}
}

// limit is how many items the transaction looks for.
func (b *takeBatch) limit() int {
	if n := sum(b.wants); b.most == 0 || n < b.most {
		return n
	}
	return b.most
}

// transact runs a transaction that takes items for a batch. It runs it again for half of those that it has found if they are
// too large for one: an engine may count more than a budget knows of, as FoundationDB counts keys.
func transact[R any](ctx context.Context, b *takeBatch, take func(kv.Tx) (R, error)) (R, error) {
	for b.most = 0; ; b.most = b.found / 2 {
		b.attempts, b.found = 0, 0
		r, err := outcome.Do(ctx, b.taker.q.lanes, take)
		if b.found < 2 || !errors.Is(err, kv.ErrTooLarge) {
			return r, err
		}
	}
}

// takeIn is that of the taker for the batch.
func (b *takeBatch) takeIn(tx kv.Tx, on conflicts) (results []result, err error) {
	results, b.found, err = b.taker.takeIn(tx, b.wants, b.limit(), on)
	return results, err
}
