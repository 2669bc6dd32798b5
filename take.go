package conq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/lane"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/internal/waitroom"
	"github.com/conq-go/conq/kv"
)

// taker is how a handle takes from an end of a queue: for all calls that have
// come while a transaction was under way in the next one; by staging where others
// are at it too; and waiting, if there is nothing.
type taker[V any] struct {
	direction[V]
	s    *store
	once *kv.Once
	lane *lane.Lane[[]int, []share[V]]
	room *waitroom.Room[V]

	side    staging.Side
	stage   *staging.Stage
	staging Staging
	expired atomic.Int64 // when expire last looked, likewise
	until   atomic.Int64 // StagingAuto stages until then, in nanoseconds of Unix time
}

func newTaker[V any](s *store, o Options, side staging.Side, d direction[V]) (*taker[V], error) {
	once, err := s.newOnce()
	if err != nil {
		return nil, err
	}
	t := &taker[V]{direction: d, s: s, once: once, side: side, stage: s.stage, staging: o.Staging}
	if o.Staging == StagingAuto && !s.limits.Shared {
		t.staging = StagingNever // conflicts are over in microseconds here
	}
	if !o.NoCombining {
		t.lane = lane.New(lane.Options[[]int, []share[V]]{Run: t.run, MaxCalls: s.combinable()})
	}
	t.room = waitroom.New(waitroom.Options[V]{Take: t.takeForWaiting, Max: s.combinable(), Poll: s.poll(), Lost: isUnknown, Observe: s.observeWaiting()})
	return t, nil
}

// one takes one item.
func (t *taker[V]) one(ctx context.Context) (V, error) { return single(t.take(ctx, 1)) }

func single[V any](values []V, err error) (V, error) {
	if err != nil {
		var none V
		return none, err
	}
	return values[0], nil
}

// take takes up to n items, or returns ErrEmpty.
func (t *taker[V]) take(ctx context.Context, n int) ([]V, error) {
	if err := t.check(ctx, n); err != nil {
		return nil, err
	}
	shares, err := t.shares(ctx, []int{n})
	if err != nil {
		return nil, err
	}
	return shares[0].values, shares[0].err
}

// wait takes up to n items, and waits until there is at least one.
func (t *taker[V]) wait(ctx context.Context, n int) ([]V, error) {
	if err := t.check(ctx, n); err != nil {
		return nil, err
	}
	return t.room.Wait(ctx, n)
}

func (t *taker[V]) check(ctx context.Context, n int) error {
	if err := t.s.readyFor(ctx); err != nil {
		return err
	}
	if n <= 0 {
		return fmt.Errorf("conq: queue %q: a batch of %d items: at least 1 is needed", t.s.name, n)
	}
	return nil
}

// shares takes items for callers who want so many each, perhaps in a transaction
// with those of other calls.
func (t *taker[V]) shares(ctx context.Context, wants []int) ([]share[V], error) {
	if t.lane == nil {
		return t.serve(ctx, 1, wants)
	}
	return t.lane.Do(ctx, wants)
}

// run serves a batch of calls.
func (t *taker[V]) run(calls []*lane.Call[[]int, []share[V]]) {
	ctx, cancel := lane.Context(calls)
	defer cancel()
	wants := slices.Clip(calls[0].Request) // not to be written behind
	for _, c := range calls[1:] {
		wants = append(wants, c.Request...)
	}
	shares, err := t.serve(ctx, len(calls), wants)
	for _, c := range calls {
		if c.Err = ownError(c.Context, err); err == nil {
			n := len(c.Request)
			c.Result, shares = shares[:n:n], shares[n:]
		}
	}
}

// serve takes items until all wants are served, in as many transactions as the
// limits ask for: mostly one. What was taken is not lost if a later one fails:
// only those who have got nothing yet get its error.
func (t *taker[V]) serve(ctx context.Context, calls int, wants []int) (served []share[V], err error) {
	for len(served) < len(wants) {
		var more []share[V]
		more, err = t.serveSome(ctx, calls, wants[len(served):])
		if err != nil && len(served) == 0 {
			return nil, err
		}
		for err != nil && len(served)+len(more) < len(wants) {
			more = append(more, share[V]{err: err})
		}
		served = append(served, more...)
	}
	return served, nil
}

// errCollision has a transaction end that was to be the only attempt.
var errCollision = errors.New("conq: another consumer has been faster")

// serveSome serves the first of wants, at least one, in one transaction.
func (t *taker[V]) serveSome(ctx context.Context, calls int, wants []int) ([]share[V], error) {
	if t.staging == StagingAlways || t.staging == StagingAuto && t.until.Load() > time.Now().UnixNano() {
		return t.serveStaged(ctx, wants)
	}
	if err := t.expire(ctx); err != nil {
		return nil, err
	}
	shares, err := t.servePlain(ctx, calls, wants)
	if errors.Is(err, errCollision) {
		t.until.Store(time.Now().Add(stagingTime).UnixNano())
		if t.s.log != nil {
			t.s.log.Debug("consumers collide: taking by staged requests", "queue", t.s.name)
		}
		return t.serveStaged(ctx, wants)
	}
	return shares, err
}

// expireTime is how often who does not stage looks for items that somebody who
// did has never collected.
const expireTime = time.Second

// expire puts such items back, now and then.
func (t *taker[V]) expire(ctx context.Context) error {
	now, last := time.Now().UnixNano(), t.expired.Load()
	if now-last < int64(expireTime) || !t.expired.CompareAndSwap(last, now) {
		return nil
	}
	if err := t.stage.Expire(ctx); !isTooOld(err) {
		return err
	}
	return nil // the next one will see to it
}

// servePlain is the recipe, for several callers. With StagingAuto it is tried
// once, and not at all if others have staged requests.
func (t *taker[V]) servePlain(ctx context.Context, calls int, wants []int) ([]share[V], error) {
	attempts := 0
	shares, err := kv.TransactOnce(ctx, t.once, func(tx kv.Tx) ([]share[V], error) {
		attempts++
		if t.staging == StagingAuto {
			active, err := t.stage.Active(tx)
			if err != nil {
				return nil, err
			}
			if active || attempts > 1 {
				return nil, errCollision
			}
		}
		return takeShares(t.s, tx, wants, t.direction, false)
	})
	if err == nil {
		t.s.observe(Event{Kind: Taken, Calls: calls, Items: count(shares), Attempts: attempts})
	}
	return shares, err
}

func count[V any](shares []share[V]) (n int) {
	for _, s := range shares {
		n += len(s.values)
	}
	return n
}

// serveStaged is serveSome by staging.
func (t *taker[V]) serveStaged(ctx context.Context, wants []int) ([]share[V], error) {
	shares, err := staging.Take(ctx, t.stage, t.side, sum(wants), func(tx kv.Tx, items []kv.KeyValue) ([]share[V], error) {
		d := deal[V]{read: t.read, items: items}
		shares, err := d.deal(tx, wants, false)
		if err != nil {
			return nil, err
		}
		for _, item := range items[:d.taken] {
			t.s.clearPieces(tx, item.Key)
		}
		return shares, t.s.putBack(tx, items[d.taken:])
	})
	if !errors.Is(err, staging.ErrEmpty) {
		return shares, err
	}
	for range wants {
		shares = append(shares, share[V]{err: ErrEmpty})
	}
	return shares, nil
}

// putBack puts items back that were staged: one that does not decode stays, and
// what is behind it.
func (s *store) putBack(tx kv.Tx, items []kv.KeyValue) error {
	if len(items) == 0 {
		return nil
	}
	for _, item := range items {
		tx.Set(item.Key, item.Value)
	}
	return s.announce(tx)
}

// takeForWaiting is what the room calls: it takes items for those who wait, and
// tells when to look again if there are too few.
func (t *taker[V]) takeForWaiting(ctx context.Context, wants []int) (got [][]V, news <-chan error, err error) {
	if t.s.signals != nil {
		news = t.s.signals.Wait(t.s.name) // before looking
	}
	shares, err := t.shares(ctx, wants)
	if err != nil {
		return nil, nil, err
	}
	for _, s := range shares {
		if s.err != nil && !errors.Is(s.err, ErrEmpty) {
			return got, nil, s.err
		}
		if s.err != nil {
			break
		}
		got = append(got, s.values)
	}
	if len(got) == 0 {
		if news == nil {
			news, err = t.watch(ctx)
		} else {
			err = t.lookAgain(ctx)
		}
	}
	return got, news, err
}

// lookAgain has those who wait look again soon if there are staged items: they
// may come back to the queue without anybody enqueuing anything.
func (t *taker[V]) lookAgain(ctx context.Context) error {
	return t.s.db.ReadTransact(ctx, func(r kv.Reader) error {
		active, err := t.stage.Active(r)
		if active {
			time.AfterFunc(pollTime, t.s.notify)
		}
		return err
	})
}

func isUnknown(err error) bool { return errors.Is(err, kv.ErrCommitUnknown) }

// watch returns a channel that is closed when something is enqueued, or at once
// if there is something: it watches the signal in the transaction that finds the
// queue empty, so no news is missed.
func (t *taker[V]) watch(ctx context.Context) (news <-chan error, err error) {
	err = t.s.db.Transact(ctx, func(tx kv.Tx) error {
		for _, err := range t.items(tx, 1) {
			ready := make(chan error)
			close(ready)
			news = ready
			return err
		}
		news = tx.Watch(signalKey(t.s.name))
		return nil
	})
	if errors.Is(err, kv.ErrCommitUnknown) { // it has written nothing
		err = nil
	}
	return news, err
}
