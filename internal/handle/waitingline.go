package handle

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// Where other processes may wait for the same items, the waiters of a handle stand in one line with those of other handles: see
// staging.Line. Their leader takes items only when it is their turn.

// lineTurn is what became of a transaction of callers that wait.
type lineTurn struct {
	results []result
	watch   <-chan error // of the queue, or of those in front; nil if results is what counts
	view    staging.View
	entered bool // there is an entry in the line, since stamp
	stamp   int64
}

// stamps returns the times of arrival of callers that wait.
func stamps() func() int64 {
	var last int64
	return func() int64 {
		last = max(last+1, time.Now().UnixNano())
		return last
	}
}

// takeInLine is takeForWaiters for callers that stand in line.
func (t *taker) takeInLine(ctx context.Context, w *waiting) ([][]Item, <-chan error, error) {
	b := &takeBatch{taker: t, calls: []*takeCall{{Context: ctx, Request: request{waiting: w}}}}
	if !b.live() {
		return nil, nil, errNobody
	}
	var local <-chan error
	if t.q.local != nil {
		local = t.q.local.WaitAs(t.q.name, t) // before it looks
	}
	r, err := t.turn(ctx, b, w)
	if err != nil {
		return nil, nil, err
	}
	if r.view.First {
		w.Local = local
	}
	got, err := gotten(r.results)
	return got, r.watch, err
}

// turn takes items if it is their turn, and else tells when to try again. Before it stages it finds out whose turn it is.
func (t *taker) turn(ctx context.Context, b *takeBatch, w *waiting) (lineTurn, error) {
	if !t.stages() {
		if err := t.expire(ctx); err != nil {
			return lineTurn{}, err
		}
		r, err := t.turnDirect(ctx, b, w)
		if !errors.Is(err, errCollision) {
			return r, err
		}
		t.collided()
	}
	r, err := outcome.Do(ctx, t.q.lanes, func(tx kv.Tx) (lineTurn, error) { return t.standInLine(tx, w) })
	if err != nil {
		return r, err
	}
	if r.watch != nil {
		t.settle(r)
		return r, nil
	}
	r, err = staging.Take(ctx, t.stage, t.side, sum(b.wants), func(tx kv.Tx, items []kv.KeyValue) (lineTurn, error) {
		results, err := t.splitStaged(tx, b.wants, items)
		if err != nil {
			return lineTurn{}, err
		}
		r := lineTurn{results: results, view: r.view, stamp: r.stamp}
		err = t.moveUp(tx, w, len(b.wants), &r)
		return r, err
	})
	if errors.Is(err, staging.ErrEmpty) {
		b.direct = true
		return t.turnDirect(ctx, b, w)
	}
	if err == nil {
		t.settle(r)
	}
	return r, err
}

// turnDirect takes items, if it is their turn, and watches, all in one transaction.
func (t *taker) turnDirect(ctx context.Context, b *takeBatch, w *waiting) (lineTurn, error) {
	r, err := transact(ctx, b, func(tx kv.Tx) (lineTurn, error) {
		kv.Prefetch(tx.Snapshot(), t.line.LookRead())
		if err := t.admit(tx, b); err != nil {
			return lineTurn{}, err
		}
		r, err := t.standInLine(tx, w)
		if err != nil || r.watch != nil {
			return r, err
		}
		if r.results, err = b.takeIn(tx, ofTaken); err != nil {
			return r, err
		}
		err = t.moveUp(tx, w, len(b.wants), &r)
		return r, err
	})
	if err != nil {
		return r, err
	}
	t.settle(r)
	if len(r.results) > 0 {
		t.q.observe(Event{Kind: Taken, Calls: len(r.results), Items: count(r.results), Attempts: b.attempts})
	}
	return r, nil
}

// standInLine finds out whose turn it is. If it is another handle's, it enters the line and watches the entry in front.
func (t *taker) standInLine(tx kv.Tx, w *waiting) (r lineTurn, err error) {
	r.stamp, _ = w.Next(0)
	r.view, err = t.line.Look(tx, r.stamp, func() (int, error) { return t.there(tx, staging.Plenty) })
	if err != nil || r.view.First {
		return r, err
	}
	t.line.Enter(tx, r.view, r.stamp)
	r.entered, r.watch = true, t.line.Ahead(tx, r.view)
	return r, nil
}

// there returns how many items there are, up to a limit, through a snapshot.
func (t *taker) there(tx kv.Tx, limit int) (n int, _ error) {
	for _, err := range t.q.items(tx.Snapshot(), t.side, limit) {
		if err != nil && !errors.Is(err, types.ErrDecode) {
			return 0, err
		}
		n++
	}
	return n, nil
}

// moveUp changes the entry of this handle to that of the first caller that got nothing. If all got something and plenty is left, it
// removes the whole line, which is of no use then. If none did, it watches the queue in the transaction that has found it
// empty, so nothing is missed.
func (t *taker) moveUp(tx kv.Tx, w *waiting, wanted int, r *lineTurn) error {
	served := 0
	for served < len(r.results) && r.results[served].err == nil {
		served++
	}
	if served == wanted && r.view.Others {
		there, err := t.there(tx, staging.Plenty)
		if err != nil {
			return err
		}
		if there >= staging.Plenty {
			t.line.Open(tx)
			return nil
		}
	}
	if r.stamp, r.entered = w.Next(served); r.entered {
		t.line.Enter(tx, r.view, r.stamp)
	} else {
		t.line.Leave(tx, math.MaxInt64)
	}
	if len(r.results) == 0 {
		r.watch = tx.Watch(layout.SignalKey(t.q.name))
	}
	return nil
}

// leaveTime is how long leaving the line may take: a caller that leaves has given up already,
// and if it fails, the entry's deadline comes.
const leaveTime = 5 * time.Second

// leaveLine removes the entry of the last caller who gave up, but not of one that has
// come since.
func (t *taker) leaveLine(stamp int64) error {
	if !t.line.Waits(stamp) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	_, err := outcome.Do(ctx, t.q.lanes, func(tx kv.Tx) (struct{}, error) {
		t.line.Leave(tx, stamp)
		return struct{}{}, nil
	})
	if err == nil {
		t.line.Left(stamp)
	}
	return err
}

// settle notes what a transaction has made of the line, when it has committed.
func (t *taker) settle(r lineTurn) {
	if r.entered {
		t.line.Entered(r.stamp)
	} else {
		t.line.Left(math.MaxInt64)
	}
}
