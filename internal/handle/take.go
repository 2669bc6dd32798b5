package handle

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/combine"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/internal/waiting"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// taker is how a handle takes from one end of a queue. Calls that come while a transaction
// is under way share the next one; where other processes take too, it stages requests; and
// calls that find nothing may wait.
type taker struct {
	q        *queue
	combines bool
	line     *staging.Line // nil where no other process can wait

	side    staging.Side
	stage   *staging.Stage
	staging Staging
	expired atomic.Int64 // when expire last looked, in nanoseconds of Unix time
	until   atomic.Int64 // StagingAuto stages until then, likewise

	// For callers that add, see gathering:
	active atomic.Bool  // items are being taken, by the lane
	served atomic.Int32 // how many callers got something the last time

	lane combine.Combiner[demand, []share] // runs one batch at a time
	list waiting.List[Item]
}

func (t *taker) init(q *queue, o Options, side staging.Side) error {
	t.q, t.combines = q, !o.NoCombining
	t.side, t.stage, t.staging = side, q.stage, o.Staging
	if !q.limits.Shared {
		t.staging = StagingNever // conflicts are over in microseconds here
	}
	t.lane.Init(combine.Options[demand, []share]{Run: t.run, MaxCalls: q.combinable()})
	w := waiting.Options[Item]{
		Take: t.takeForWaiting, Max: q.combinable(), Poll: q.poll(),
		Lasting: q.signals != nil, Lost: isUnknown, Observe: q.observeWaiting(),
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
	t.list.Init(w)
	return nil
}

// take takes up to n items, or there is an ErrEmpty.
func (t *taker) take(ctx context.Context, n int) ([]Item, error) {
	if err := t.q.checkCount(n); err != nil {
		return nil, err
	}
	shares, err := t.serve(ctx, demand{n: n})
	if err != nil {
		return nil, err
	}
	return shares[0].items, shares[0].err
}

// serve takes what is demanded, perhaps in a transaction with that of other calls.
func (t *taker) serve(ctx context.Context, d demand) ([]share, error) {
	if !t.combines {
		c := &takeCall{Context: ctx, Request: d}
		t.run([]*takeCall{c})
		return c.Result, c.Err
	}
	shares, err := t.lane.Do(ctx, d)
	return shares, ofBatch(err)
}

// run serves a batch of calls, in as many transactions as the limits ask for:
// mostly one. What was taken is not lost if a later one fails: only calls that have
// got nothing yet get its error.
func (t *taker) run(calls []*takeCall) {
	ctx, cancel := combine.Context(calls)
	defer cancel()
	t.active.Store(true)
	defer t.active.Store(false)
	for b := (&takeBatch{taker: t, calls: calls}); b.attend(); {
		shares, err := t.serveSome(ctx, b)
		if err != nil {
			for _, c := range b.calls {
				c.Err = ownError(c.Context, err)
			}
			return
		}
		b.deliver(shares)
	}
}

// errCollision ends a transaction of StagingAuto when others take too, so that it stages.
var errCollision = errors.New("conq: another consumer has been faster")

// serveSome serves the first of the calls, at least one, in one transaction.
func (t *taker) serveSome(ctx context.Context, b *takeBatch) ([]share, error) {
	if t.stages() {
		return t.serveStaged(ctx, b)
	}
	if err := t.expire(ctx); err != nil {
		return nil, err
	}
	shares, err := t.servePlain(ctx, b)
	if errors.Is(err, errCollision) {
		t.collided()
		began := time.Now()
		shares, err = t.serveStaged(ctx, b)
		t.stageFor(stagingTakes * time.Since(began))
	}
	return shares, err
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

// expireTime is how often a handle with StagingNever looks for staged items that were
// never collected. With StagingAuto each take looks whether anything is staged.
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

// servePlain is serveSome by the recipe, for several callers. With StagingAuto that is tried
// once, and not at all if others have staged requests.
func (t *taker) servePlain(ctx context.Context, b *takeBatch) ([]share, error) {
	shares, err := attempts(ctx, b, b.takePlain)
	if err == nil {
		t.note(shares)
		t.q.observe(Event{Kind: Taken, Calls: len(shares), Items: count(shares), Attempts: b.attempt.nth})
	}
	return shares, err
}

// takePlain is the transaction of servePlain.
func (b *takeBatch) takePlain(tx kv.Tx) ([]share, error) {
	kv.Lazily(tx)
	if err := b.taker.admit(tx, b); err != nil {
		return nil, err
	}
	return b.taker.takeIn(tx, b.wants, loose, &b.attempt)
}

// note keeps what callers that add may want to know: see gathering.
func (t *taker) note(shares []share) {
	items, callers := 0, 0
	for _, s := range shares {
		if len(s.items) > 0 {
			items += len(s.items)
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
	b.attempt.nth++
	again, stages := b.attempt.nth > 1, t.staging == StagingAuto && !b.plain
	switch {
	case stages && again:
		return errCollision
	case again && !b.attendIn(tx):
		return errNobody
	}
	if t.q.limits.Shared {
		kv.Prefetch(tx.Snapshot(), t.q.orders[t.side].Read(b.attempt.wanted(b.wants)))
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
func (t *taker) serveStaged(ctx context.Context, b *takeBatch) ([]share, error) {
	shares, err := staging.Take(ctx, t.stage, t.side, sum(b.wants), func(tx kv.Tx, items []kv.KeyValue) ([]share, error) {
		return t.dealStaged(tx, b.wants, items)
	})
	if !errors.Is(err, staging.ErrEmpty) {
		return shares, err
	}
	for range b.wants {
		shares = append(shares, share{err: types.ErrEmpty})
	}
	return shares, nil
}

// dealStaged deals items that were staged, and puts back what is left: one that does not
// decode as it was, though a codec may have changed its bytes.
func (t *taker) dealStaged(tx kv.Tx, wants []int, items []kv.KeyValue) ([]share, error) {
	d := deal{q: t.q, reader: tx, copies: true, items: raw(items)}
	shares, err := d.deal(wants, false)
	if err != nil {
		return nil, err
	}
	for _, item := range items[:d.taken] {
		t.q.space.ClearPieces(tx, item.Key)
	}
	return shares, t.q.putBack(tx, items[d.taken:])
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
