package conq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/combine"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

// adder is the end of a queue where payloads go in: calls that come while a
// transaction is under way share the next one.
type adder[P any] struct {
	s        *store
	combines bool
	meeting  meeting[P] // of the lane, which runs one batch at a time
	to       receiver[P]
	hands    []hand[P] // the ends where its items are taken
	lane     combine.Combiner[addition[P], struct{}]
}

// receiver is a queue to add payloads to.
type receiver[P any] interface {
	add(kv.Tx, []P) error
}

// addition is what one call adds. One payload needs no memory beside the call's.
type addition[P any] struct {
	one  [1]P
	more []P // in place of one, if it is not nil
}

func (a *addition[P]) payloads() []P {
	if a.more != nil {
		return a.more
	}
	return a.one[:]
}

// Bounds of the transactions that add for several calls.
const (
	maxCombinedCalls = 1000
	maxCombinedBytes = 1 << 20
)

func (a *adder[P]) init(s *store, o Options, size func(P) int, to receiver[P], hands ...hand[P]) {
	a.s, a.combines, a.to, a.hands = s, !o.NoCombining, to, hands
	a.meeting = meeting[P]{hands: hands, waits: true}
	a.lane.Init(combine.Options[addition[P], struct{}]{
		Run:      a.run,
		Size:     a.weigh(size),
		MaxCalls: s.combinable(),
		MaxBytes: s.maxCombined(),
	})
}

// maxCombined returns how many bytes calls that share a transaction may add.
func (s *store) maxCombined() int { return min(maxCombinedBytes, s.maxItem()) }

// weigh returns what a call counts towards maxCombined: its bytes; or, where the engine limits
// operations and the call needs a larger part of those, that part of maxCombined.
func (a *adder[P]) weigh(size func(P) int) func(addition[P]) int {
	each := a.s.keySize()
	operation := 0
	if n := a.s.limits.Operations; n > 0 {
		operation = a.s.maxCombined() / max(1, n-otherOperations)
	}
	return func(added addition[P]) int {
		n, bytes := 1, 0
		if added.more == nil {
			bytes = size(added.one[0])
		} else {
			n, bytes = len(added.more), total(added.more, size)
		}
		return max(bytes+n*each, n*operation)
	}
}

func total[P any](payloads []P, size func(P) int) (n int) {
	for _, p := range payloads {
		n += size(p)
	}
	return n
}

// add adds payloads in one transaction, perhaps with those of other calls.
func (a *adder[P]) add(ctx context.Context, payloads []P) error {
	return a.serve(ctx, addition[P]{more: payloads})
}

func (a *adder[P]) addOne(ctx context.Context, payload P) error {
	return a.serve(ctx, addition[P]{one: [1]P{payload}})
}

func (a *adder[P]) serve(ctx context.Context, added addition[P]) error {
	if err := a.s.readyFor(ctx); err != nil {
		return err
	}
	if !a.combines {
		return a.addAlone(ctx, added)
	}
	_, err := a.lane.Do(ctx, added)
	return ofBatch(err)
}

// ofBatch returns the error of a call that shared its batch. If that has panicked, as it may in
// Options.Observe, only the caller who led it sees the panic; the others don't know what was done.
func ofBatch(err error) error {
	if errors.Is(err, combine.ErrPanicked) {
		return fmt.Errorf("%w: %w", kv.ErrCommitUnknown, err)
	}
	return err
}

func (a *adder[P]) addAlone(ctx context.Context, added addition[P]) error {
	return a.transact(ctx, &adding[P]{adder: a, payloads: added.payloads(), meeting: &meeting[P]{hands: a.hands}})
}

// adding is the calls that one transaction serves. A caller that gives up leaves it before the
// next attempt, and then nothing was added for it.
type adding[P any] struct {
	adder    *adder[P]     // whose calls these are
	calls    []*addCall[P] // none without combining
	payloads []P
	attempts int
	meeting  *meeting[P]
	offer    offer[P] // to those who wait, or nil
	left     []P      // what they don't get
}

type addCall[P any] = combine.Call[addition[P], struct{}]

// add is what the transaction does.
func (b *adding[P]) add(tx kv.Tx) (struct{}, error) {
	kv.Lazily(tx)
	if !b.attend(tx) {
		return struct{}{}, errNobody
	}
	if err := b.handOver(tx); err != nil || len(b.left) == 0 {
		return struct{}{}, err
	}
	return struct{}{}, b.adder.to.add(tx, b.left)
}

// handOver deals payloads to those who wait, in the first attempt.
func (b *adding[P]) handOver(tx kv.Tx) (err error) {
	b.left = b.payloads
	switch {
	case b.offer == nil:
	case b.attempts > 1:
		b.offer.deliver(errNobody) // so that they can look
	default:
		b.left, err = b.offer.deal(tx, b.payloads)
	}
	return err
}

// run serves a batch of calls. If that fails for a reason which need not be that of
// each call, each gets a transaction of its own.
func (a *adder[P]) run(calls []*addCall[P]) {
	ctx, cancel := combine.Context(calls)
	defer cancel()
	b := &adding[P]{adder: a, calls: calls, meeting: &a.meeting}
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
func (a *adder[P]) runEach(calls []*addCall[P]) {
	first := calls[0]
	for ; len(calls) > 0; calls = combine.Attend(calls[1:]) {
		c := calls[0]
		c.Err = a.addAlone(c.Context, c.Request)
		if first.Context.Err() != nil {
			first.Return() // it may lead, and is not to be kept for the others
		}
	}
}

// merge makes payloads what all calls add.
func (b *adding[P]) merge() {
	if b.payloads = b.calls[0].Request.payloads(); len(b.calls) == 1 {
		return
	}
	b.payloads = make([]P, 0, len(b.calls))
	for _, c := range b.calls {
		b.payloads = append(b.payloads, c.Request.payloads()...)
	}
}

// attend lets those go who have given up, unless what they add may be there already.
// It returns false if nobody is left.
func (b *adding[P]) attend(tx kv.Tx) bool {
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
	return errors.Is(err, kv.ErrTooLarge) || errors.Is(err, recipe.ErrFull) || errors.Is(err, ErrDecode)
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

func (a *adder[P]) transact(ctx context.Context, b *adding[P]) error {
	offer, there := b.meeting.meet(len(b.payloads))
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
	b.meeting.met(time.Since(began), err == nil && len(b.left) < len(b.payloads), len(b.left) > 0)
	return err
}

func (a *adder[P]) do(ctx context.Context, b *adding[P]) error {
	_, err := outcome.Do(ctx, &a.s.lanes, b.add)
	if err == nil {
		a.s.tally.added.Add(int64(len(b.left)))
		a.s.observe(Event{Kind: Added, Calls: max(1, len(b.calls)), Items: len(b.payloads), Attempts: b.attempts})
	}
	return err
}
