package work

import (
	"context"
	"errors"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
)

// transact runs a transaction, which is counted, and again for less if it is too large. Something that is due in it may turn
// out to be corrupt: then it runs once more without that.
func transact[T any](ctx context.Context, e *engine, f func(kv.Tx) (T, error)) (T, error) {
	ctx, end := e.recipe.Count(ctx)
	defer end()
	for {
		var counted kv.Tx
		result, err := outcome.Do(ctx, e.lanes, func(tx kv.Tx) (T, error) {
			kv.Lazily(tx)
			counted = e.room.Tx(tx)
			return f(counted)
		})
		if e.room.Refused(counted, err) {
			continue
		}
		var aside *jobs.AsideError
		if !errors.As(err, &aside) || ctx.Err() != nil {
			return result, err
		}
		e.setAside(aside, true)
	}
}

// setAside notes, and tells once, what can't be done.
func (e *engine) setAside(a *jobs.AsideError, again bool) {
	if e.clock.keeper.setAside(micros(e.now()), a.Entry, again) && e.options.Logger != nil {
		e.options.Logger.Error("something is set aside", "queue", e.name, "error", a)
	}
}

// isAside tells whether an entry is known to be of what can't be read.
func (e *engine) isAside(entry []byte) bool { return e.clock.keeper.isAside(micros(e.now()), entry) }

// due is jobs.Queue.Due without what is set aside.
func (e *engine) due(q *jobs.Queue, tx kv.Tx, now int64) (jobs.Dues, error) {
	d, err := q.Due(budget.Half(tx), now, e.duePerTransaction(), e.clock.keeper.without(now)...)
	for _, a := range d.Aside {
		e.setAside(a, false)
	}
	return d, err
}

// doDue does all that is due by now, in transactions of its own.
func (e *engine) doDue(ctx context.Context) error {
	for since := micros(e.now()); ; {
		d, err := transact(ctx, e, func(tx kv.Tx) (d jobs.Dues, err error) {
			e.recipe.ExpectDue(tx, e.duePerTransaction())
			q, err := e.recipe.At(tx)
			if err == nil {
				d, err = e.dueIn(q, tx, micros(e.now()))
			}
			return d, err
		})
		if err != nil || d.Next > since {
			return err
		}
	}
}

// fresh does what is due before something is read, so that this is as of now. It costs a look at the store, at most each
// tenth of a second. If it fails, what is read is as it was.
func (e *engine) fresh(ctx context.Context) {
	if e.ready(ctx) != nil || !e.clock.mayBeDue(micros(e.now())) {
		return
	}
	e.clock.setStale(false)
	var next int64
	var ticks bool
	now := micros(e.now())
	err := e.db.ReadTransact(ctx, func(r kv.Reader) (err error) {
		next, ticks, err = e.recipe.NextDue(r, now)
		return err
	})
	if err == nil {
		if e.clock.lookedAt(now, next, ticks); next <= now {
			err = e.doDue(ctx)
		}
	}
	if err != nil {
		e.clock.setStale(true)
		e.debug("what is due could not be done", err)
	}
}

// keepUp does what is due, and leaves a failure to the next time.
func (e *engine) keepUp() {
	if err := e.doDue(e.open); err != nil {
		e.clock.setStale(true)
		e.debug("what is due could not be done", err)
	}
}

// healPeriodics corrects periodic jobs that are due too far away, as a clock was ahead.
func (e *engine) healPeriodics() {
	const some = 20
	for after := ""; ; {
		var healed []string
		last, err := transact(e.open, e, func(tx kv.Tx) (last string, err error) {
			healed, last, err = e.recipe.Heal(tx, micros(e.now()), after, some)
			if len(healed) > 0 {
				e.announce(tx)
			}
			return last, err
		})
		if err != nil {
			e.debug("periodic jobs could not be looked at", err)
			return
		}
		for _, name := range healed {
			if e.options.Logger != nil {
				e.options.Logger.Warn("a periodic job was due too far away, as a clock was ahead: it is due at its next time", "queue", e.name, "name", name)
			}
		}
		if len(healed) > 0 {
			e.clock.touch()
		}
		if after = last; after == "" {
			return
		}
	}
}

func (e *engine) debug(text string, err error) {
	if e.options.Logger != nil && e.open.Err() == nil {
		e.options.Logger.Debug(text, "queue", e.name, "error", err)
	}
}

// mayBeDue tells whether something may be due that is not known.
func (a *alarm) mayBeDue(now int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stale || now >= a.next || now >= a.looked+lookAfter || now < a.looked
}

func (a *alarm) setStale(stale bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stale = stale
}
