package handle

import (
	"context"
	"errors"
	"time"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/recipe"
)

// adder is the end of a queue where items go in. Calls that come while a transaction is under way share the next one.
type adder struct {
	q       *queue
	alone   bool        // each call has a transaction of its own
	ends    []consumers // where its items are taken
	gather  gathering   // where one batch runs after the other
	batches batch.Batcher[[]Item, struct{}]
}

// Bounds of the transactions that add for several calls.
const (
	maxCombinedCalls = 1000
	maxCombinedBytes = 1 << 20
)

func (a *adder) init(q *queue, o Options, ends []*taker) {
	a.q, a.alone = q, o.NoCombining
	for _, t := range ends {
		a.ends = append(a.ends, t)
	}
	a.gather = gathering{ends: a.ends, waits: true}
	a.batches.Init(batch.Options[[]Item, struct{}]{
		Run:      a.run,
		Size:     a.weight(),
		MaxCalls: q.combinable(),
		MaxBytes: q.maxCombined(),
		Parallel: a.parallel(),
		Alone:    a.alone,
	})
}

// parallel returns how many batches may run at once: several where each waits for a network, as adds conflict with nothing.
// Where one process has the store, batches share the disk, and may hand items over.
func (a *adder) parallel() func(calls int) int {
	if l := a.q.limits; l.Shared || l.UnknownCommits {
		return batch.Eager(batch.Far)
	}
	return nil
}

// maxCombined returns how many bytes calls that share a transaction may add.
func (q *queue) maxCombined() int { return min(maxCombinedBytes, q.maxItem()) }

// weight returns what a call counts towards maxCombined: its bytes; or, where the engine limits
// operations and the call needs a larger part of those, that part of maxCombined.
func (a *adder) weight() func([]Item) int {
	each, limits := a.q.space.KeySize(), a.q.limits
	whole := a.q.maxCombined()
	room := budget.Budget{Operations: budget.Of(limits).Operations, Bytes: whole}
	return func(items []Item) int {
		bytes, operations := 0, 0
		for _, item := range items {
			pieces := budget.Pieces(limits, len(item.Payload))
			bytes += len(item.Payload) + pieces*each
			operations += pieces
		}
		return room.Weight(operations, bytes, whole)
	}
}

// serve adds items in one transaction, perhaps with those of other calls.
func (a *adder) serve(ctx context.Context, items []Item) error {
	_, err := a.batches.Do(ctx, items)
	return err
}

// addBatch is the calls that one transaction serves. A caller that gives up leaves it before the next attempt, and then
// nothing was added for it.
type addBatch struct {
	adder    *adder // whose calls these are
	gather   *gathering
	calls    []*addCall
	items    []Item
	attempts int
	claim    *claim // of waiters to whom items can be handed, or nil
	rest     []Item // what they don't get
}

type addCall = batch.Call[[]Item, struct{}]

// add is what the transaction does.
func (b *addBatch) add(tx kv.Tx) (struct{}, error) {
	kv.Lazily(tx)
	if !b.live(tx) {
		return struct{}{}, errNobody
	}
	if err := b.handOver(tx); err != nil || len(b.rest) == 0 {
		return struct{}{}, err
	}
	return struct{}{}, b.adder.q.add(tx, b.rest)
}

// handOver gives items to the waiters that were claimed, in the first attempt.
func (b *addBatch) handOver(tx kv.Tx) (err error) {
	b.rest = b.items
	switch {
	case b.claim == nil:
	case b.attempts > 1:
		b.claim.deliver(errNobody) // so that they can take items
	default:
		if b.rest, err = b.claim.give(tx, b.items); err == nil {
			err = b.adder.q.entry.Enlist(tx)
		}
	}
	return err
}

// run serves a batch of calls. If that fails for a reason which may be one call's, each has a transaction of its own.
func (a *adder) run(calls []*addCall) {
	ctx, cancel := batch.Context(calls)
	defer cancel()
	b := &addBatch{adder: a, gather: &a.gather, calls: calls}
	if a.alone || a.parallel() != nil { // other batches run beside it
		b.gather = &gathering{ends: a.ends}
	}
	b.merge()
	err := a.transact(ctx, b)
	if len(b.calls) > 1 && mayBeOfOne(err) {
		batch.Each(b.calls, func(c *addCall) { a.run([]*addCall{c}) })
		return
	}
	for _, c := range b.calls {
		c.Fail(err)
	}
}

// merge makes items what all calls add.
func (b *addBatch) merge() {
	if len(b.calls) == 1 {
		b.items = b.calls[0].Request
		return
	}
	b.items = make([]Item, 0, len(b.calls))
	for _, c := range b.calls {
		b.items = append(b.items, c.Request...)
	}
}

// live begins an attempt. It lets callers go that have given up, unless what they add may be there already, and returns false if
// none is left.
func (b *addBatch) live(tx kv.Tx) bool {
	b.attempts++
	if b.attempts == 1 || kv.Unsettled(tx) {
		return true
	}
	n := len(b.calls)
	b.calls = batch.Live(b.calls)
	if len(b.calls) == 0 {
		return false
	}
	if len(b.calls) < n {
		b.merge()
	}
	return true
}

// mayBeOfOne tells whether an error of a transaction may be due to one of the calls that shared it: all of them are too
// large together, or one adds to a priority that is full or whose last key is not an item's.
func mayBeOfOne(err error) bool {
	return errors.Is(err, kv.ErrTooLarge) || errors.Is(err, recipe.ErrNoIndex) || errors.Is(err, types.ErrDecode)
}

func (a *adder) transact(ctx context.Context, b *addBatch) error {
	claim, there := b.gather.claim(len(b.items))
	if !there {
		return a.do(ctx, b)
	}
	began := time.Now()
	err := errNobody // if the function panics
	if b.claim = claim; claim != nil {
		defer func() {
			b.claim = nil
			claim.deliver(err)
		}()
	}
	err = a.do(ctx, b)
	b.gather.note(time.Since(began), err == nil && len(b.rest) < len(b.items), len(b.rest) > 0)
	return err
}

func (a *adder) do(ctx context.Context, b *addBatch) error {
	_, err := outcome.Do(ctx, a.q.lanes, b.add)
	if err == nil {
		a.q.tally.added.Add(int64(len(b.rest)))
		a.q.observe(Event{Kind: Added, Calls: len(b.calls), Items: len(b.items), Attempts: b.attempts})
	}
	return err
}
