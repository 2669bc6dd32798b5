package handle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/combine"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/recipe"
)

// adder is the end of a queue where items go in: calls that come while a
// transaction is under way share the next one.
type adder struct {
	q        *queue
	combines bool
	ends     []consumers // where its items are taken
	gather   gathering   // where one batch runs after the other
	lane     combine.Combiner[[]Item, struct{}]
}

// Bounds of the transactions that add for several calls.
const (
	maxCombinedCalls = 1000
	maxCombinedBytes = 1 << 20
)

// farBatches is how many transactions of a handle add at the same time where each waits for a
// network, and not for the others: adds conflict with nothing.
const farBatches = 8

func (a *adder) init(q *queue, o Options, ends []*taker) {
	a.q, a.combines = q, !o.NoCombining
	for _, t := range ends {
		a.ends = append(a.ends, t)
	}
	a.gather = gathering{ends: a.ends, waits: true}
	a.lane.Init(combine.Options[[]Item, struct{}]{
		Run:      a.run,
		Size:     a.weight(),
		MaxCalls: q.combinable(),
		MaxBytes: q.maxCombined(),
		Parallel: a.parallel(),
	})
}

// parallel returns how many batches may run at the same time. Where one process has the store for itself
// they share the disk, and may hand items over.
func (a *adder) parallel() int {
	if l := a.q.limits; l.Shared || l.UnknownCommits {
		return farBatches
	}
	return 1
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
	if !a.combines {
		return a.addAlone(ctx, items)
	}
	_, err := a.lane.Do(ctx, items)
	return ofBatch(err)
}

// ofBatch returns the error of a call that shared its batch. If that has panicked, as it may in
// Options.Observe, only the caller that led it sees the panic; the others don't know what was done.
func ofBatch(err error) error {
	if errors.Is(err, combine.ErrPanicked) {
		return fmt.Errorf("%w: %w", kv.ErrCommitUnknown, err)
	}
	return err
}

func (a *adder) addAlone(ctx context.Context, items []Item) error {
	return a.transact(ctx, &addBatch{adder: a, gather: &gathering{ends: a.ends}, items: items})
}

// addBatch is the calls that one transaction serves. A caller that gives up leaves it before the
// next attempt, and then nothing was added for it.
type addBatch struct {
	adder    *adder // whose calls these are
	gather   *gathering
	calls    []*addCall // none without combining
	items    []Item
	attempts int
	offer    *offer // to callers that wait, or nil
	left     []Item // what they don't get
}

type addCall = combine.Call[[]Item, struct{}]

// add is what the transaction does.
func (b *addBatch) add(tx kv.Tx) (struct{}, error) {
	kv.Lazily(tx)
	if !b.attend(tx) {
		return struct{}{}, errNobody
	}
	if err := b.handOver(tx); err != nil || len(b.left) == 0 {
		return struct{}{}, err
	}
	return struct{}{}, b.adder.q.add(tx, b.left)
}

// handOver deals items to callers that wait, in the first attempt.
func (b *addBatch) handOver(tx kv.Tx) (err error) {
	b.left = b.items
	switch {
	case b.offer == nil:
	case b.attempts > 1:
		b.offer.deliver(errNobody) // so that they can look
	default:
		if b.left, err = b.offer.deal(tx, b.items); err == nil {
			err = b.adder.q.entry.Enlist(tx)
		}
	}
	return err
}

// run serves a batch of calls. If that fails for a reason which need not be that of
// each call, each gets a transaction of its own.
func (a *adder) run(calls []*addCall) {
	ctx, cancel := combine.Context(calls)
	defer cancel()
	b := &addBatch{adder: a, gather: &a.gather, calls: calls}
	if a.parallel() > 1 {
		b.gather = &gathering{ends: a.ends}
	}
	b.merge()
	err := a.transact(ctx, b)
	if len(b.calls) > 1 && mayBeOfOne(err) {
		a.runEach(b.calls)
	} else {
		for _, c := range b.calls {
			c.Err = ownError(c.Context, err)
		}
	}
}

// runEach gives each call a transaction of its own.
func (a *adder) runEach(calls []*addCall) {
	first := calls[0]
	for ; len(calls) > 0; calls = combine.Attend(calls[1:]) {
		c := calls[0]
		c.Err = a.addAlone(c.Context, c.Request)
		if first.Context.Err() != nil {
			first.Return() // it may lead, and is not to be kept for the others
		}
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

// attend lets callers go that have given up, unless what they add may be there already.
// It returns false if none is left.
func (b *addBatch) attend(tx kv.Tx) bool {
	b.attempts++
	if b.attempts == 1 || len(b.calls) == 0 || kv.Unsettled(tx) {
		return true
	}
	n := len(b.calls)
	b.calls = combine.Attend(b.calls)
	if len(b.calls) == 0 {
		return false
	}
	if len(b.calls) < n {
		b.merge()
	}
	return true
}

// mayBeOfOne tells whether an error of a transaction may be due to a single call
// of those that shared it: all of them are too large together, or one adds to a
// priority that is full or whose last key is not an item's.
func mayBeOfOne(err error) bool {
	return errors.Is(err, kv.ErrTooLarge) || errors.Is(err, recipe.ErrFull) || errors.Is(err, types.ErrDecode)
}

// ownError is the error of a transaction for one of the calls that shared it: the
// cause of its own context, if it ended because all their contexts had.
func ownError(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(err, kv.ErrCommitUnknown):
		return fmt.Errorf("%w: %w", kv.ErrCommitUnknown, context.Cause(ctx))
	default:
		return context.Cause(ctx)
	}
}

func (a *adder) transact(ctx context.Context, b *addBatch) error {
	offer, there := b.gather.offer(len(b.items))
	if !there {
		return a.do(ctx, b)
	}
	began := time.Now()
	err := errNobody // if the function panics
	if b.offer = offer; offer != nil {
		defer func() {
			b.offer = nil
			offer.deliver(err)
		}()
	}
	err = a.do(ctx, b)
	b.gather.note(time.Since(began), err == nil && len(b.left) < len(b.items), len(b.left) > 0)
	return err
}

func (a *adder) do(ctx context.Context, b *addBatch) error {
	_, err := outcome.Do(ctx, a.q.lanes, b.add)
	if err == nil {
		a.q.tally.added.Add(int64(len(b.left)))
		a.q.observe(Event{Kind: Added, Calls: max(1, len(b.calls)), Items: len(b.items), Attempts: b.attempts})
	}
	return err
}
