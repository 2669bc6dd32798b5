package handle

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// taker is how a handle takes from one end of a queue. Calls that come while a transaction is under way share the next one.
// Where other processes take too, it stages requests. Calls that find nothing may wait.
type taker struct {
	q    *queue
	line *staging.Line // nil where no other process can wait

	side    staging.Side
	stage   *staging.Stage
	staging Staging
	expired atomic.Int64 // when expire last looked, in nanoseconds of Unix time
	until   atomic.Int64 // StagingAuto stages until then, likewise

	// For callers that add, see gathering:
	active atomic.Bool  // items are being taken
	served atomic.Int32 // how many callers got something the last time

	batches batch.Batcher[request, []result]
	waiters batch.Waiters[int, Item]
}

func (t *taker) init(q *queue, o Options, side staging.Side) error {
	t.q = q
	t.side, t.stage, t.staging = side, q.stage, o.Staging
	if !q.limits.Shared {
		t.staging = StagingNever // conflicts are over in microseconds here
	}
	t.batches.Init(batch.Options[request, []result]{Run: t.run, MaxCalls: q.combinable(), Alone: o.NoCombining})
	w := batch.WaitOptions[int, Item]{
		Take: t.takeForWaiters, Max: q.combinable(), Poll: q.poll(), Lasting: q.signals != nil, Observe: q.observeWaiting(),
	}
	if q.signals == nil {
		line, err := q.stage.NewLine()
		if err != nil {
			return err
		}
		t.line = line
		w.Stamp = stamps()
		w.Left = func(stamp int64) { _ = t.leaveLine(stamp) } // or its deadline comes
	}
	t.waiters.Init(w)
	return nil
}

// take takes up to n items, or there is an ErrEmpty.
func (t *taker) take(ctx context.Context, n int) ([]Item, error) {
	if err := t.q.checkCount(n); err != nil {
		return nil, err
	}
	results, err := t.serve(ctx, request{n: n})
	if err != nil {
		return nil, err
	}
	return results[0].items, results[0].err
}

// serve takes what is wanted, perhaps in a transaction with other calls.
func (t *taker) serve(ctx context.Context, r request) ([]result, error) { return t.batches.Do(ctx, r) }

// run serves a batch of calls, in as many transactions as the limits ask for: mostly one. What was taken is not lost if a later
// one fails: only calls that have got nothing yet get its error.
func (t *taker) run(calls []*takeCall) {
	ctx, cancel := batch.Context(calls)
	defer cancel()
	t.active.Store(true)
	defer t.active.Store(false)
	for b := (&takeBatch{taker: t, calls: calls}); b.live(); {
		results, err := t.serveSome(ctx, b)
		if err != nil {
			for _, c := range b.calls {
				c.Fail(err)
			}
			return
		}
		b.deliver(results)
	}
}

// errCollision ends a transaction of StagingAuto when others take too, so that it stages.
var errCollision = errors.New("conq: another consumer has been faster")

// serveSome serves the first of the calls, at least one, in one transaction.
func (t *taker) serveSome(ctx context.Context, b *takeBatch) ([]result, error) {
	if t.stages() {
		return t.serveStaged(ctx, b)
	}
	if err := t.expire(ctx); err != nil {
		return nil, err
	}
	results, err := t.serveDirect(ctx, b)
	if errors.Is(err, errCollision) {
		t.collided()
		began := time.Now()
		results, err = t.serveStaged(ctx, b)
		t.stageFor(stagingTakes * time.Since(began))
	}
	return results, err
}

// stages tells whether to take by staging.
func (t *taker) stages() bool {
	return t.staging == StagingAlways || t.staging == StagingAuto && isWithin(t.until.Load()-time.Now().UnixNano(), longestStaging)
}

// isWithin tells whether a time in nanoseconds is up to d. It is less, or more, if the clock was set.
func isWithin(nanoseconds int64, d time.Duration) bool {
	return 0 <= nanoseconds && nanoseconds <= int64(d)
}

// stageFor has StagingAuto stage for a time from now on.
func (t *taker) stageFor(d time.Duration) {
	t.until.Store(time.Now().Add(min(max(d, stagingTime), longestStaging)).UnixNano())
}

// collided notes that others are at it too.
func (t *taker) collided() {
	t.stageFor(stagingTime)
	if t.q.log != nil {
		t.q.log.Debug("consumers collide: taking by staged requests", "queue", t.q.name)
	}
}

// expireTime is how often a handle with StagingNever puts staged items back that were never collected. With StagingAuto each take
// finds out whether anything is staged.
const expireTime = time.Second

// expire puts such items back, now and then.
func (t *taker) expire(ctx context.Context) error {
	if t.staging == StagingAuto || !t.q.limits.Shared {
		return nil
	}
	now, last := time.Now().UnixNano(), t.expired.Load()
	if isWithin(now-last, expireTime-1) || !t.expired.CompareAndSwap(last, now) {
		return nil
	}
	if err := t.stage.Expire(ctx); !reads.TooOld(err) {
		return err
	}
	return nil // the next one will see to it
}

// serveDirect is serveSome by the recipe, for several callers. With StagingAuto that is tried
// once, and not at all if others have staged requests.
func (t *taker) serveDirect(ctx context.Context, b *takeBatch) ([]result, error) {
	results, err := transact(ctx, b, b.takeDirect)
	if err == nil {
		t.note(results)
		t.q.observe(Event{Kind: Taken, Calls: len(results), Items: count(results), Attempts: b.attempts})
	}
	return results, err
}

// takeDirect is the transaction of serveDirect.
func (b *takeBatch) takeDirect(tx kv.Tx) ([]result, error) {
	kv.Lazily(tx)
	if err := b.taker.admit(tx, b); err != nil {
		return nil, err
	}
	return b.takeIn(tx, ofEmpty)
}

// note keeps what callers that add may want to know: see gathering.
func (t *taker) note(results []result) {
	items, callers := 0, 0
	for _, r := range results {
		if len(r.items) > 0 {
			items += len(r.items)
			callers++
		}
	}
	if items == 0 {
		t.q.tally.empty()
		return
	}
	t.q.tally.taken.Add(int64(items))
	t.served.Store(int32(callers))
}

// admit begins an attempt. It returns an error if that is not to take anything: because it is
// better to stage, or no caller is left to be served.
func (t *taker) admit(tx kv.Tx, b *takeBatch) error {
	b.attempts++
	again, stages := b.attempts > 1, t.staging == StagingAuto && !b.direct
	switch {
	case stages && again:
		return errCollision
	case again && !b.liveIn(tx):
		return errNobody
	}
	if t.q.limits.Shared {
		kv.Prefetch(tx.Snapshot(), t.q.orders[t.side].Read(b.limit()))
	}
	if !stages {
		return nil
	}
	active, err := t.stage.Active(tx)
	if active {
		err = errCollision
	}
	return err
}

// serveStaged is serveSome by staging.
func (t *taker) serveStaged(ctx context.Context, b *takeBatch) ([]result, error) {
	results, err := staging.Take(ctx, t.stage, t.side, sum(b.wants), func(tx kv.Tx, items []kv.KeyValue) ([]result, error) {
		return t.splitStaged(tx, b.wants, items)
	})
	if !errors.Is(err, staging.ErrEmpty) {
		return results, err
	}
	for range b.wants {
		results = append(results, result{err: types.ErrEmpty})
	}
	return results, nil
}

// splitStaged gives items that were staged to callers, and puts back what is left: one that does not decode as it was, though a
// codec may have changed its bytes.
func (t *taker) splitStaged(tx kv.Tx, wants []int, items []kv.KeyValue) ([]result, error) {
	s := splitter{q: t.q, reader: tx, copies: true}
	for _, item := range items {
		s.items = append(s.items, t.q.found(item))
	}
	results, err := s.split(wants, false)
	if err != nil {
		return nil, err
	}
	for _, item := range s.items[:s.taken] {
		t.q.space.ClearPieces(tx, item.Key, item.keys)
	}
	return results, t.q.putBack(tx, items[s.taken:])
}

// putBack puts items back that were staged: one that does not decode stays, and
// what is behind it.
func (q *queue) putBack(tx kv.Tx, items []kv.KeyValue) error {
	if len(items) == 0 {
		return nil
	}
	for _, item := range items {
		tx.Set(item.Key, item.Value)
	}
	return q.announce(tx)
}
