package work

import (
	"context"
	"slices"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
)

// inRunner is in the context of a reservation that a runner makes: its jobs are done in this process, and by nobody when that is gone.
type inRunner struct{}

// openingOf returns the number of this opening of the store, or 0 where other processes may have it open, too.
func openingOf(db kv.DB) int64 {
	if signals := kvext.SignalsOf(db); signals != nil {
		return signals.Opening()
	}
	return 0
}

// endOrphans has the jobs ready again that runners of a process that is gone had leased, once in an opening of the store. If that
// fails they are when their leases are over.
func (e *engine) endOrphans(ctx context.Context) {
	opening, a := openingOf(e.db), e.clock.alarm
	if opening == 0 {
		return
	}
	a.orphans.Lock()
	defer a.orphans.Unlock()
	if a.noOrphans {
		return
	}
	var ids []int64
	err := e.db.ReadTransact(ctx, func(r kv.Reader) (err error) {
		ids, err = e.recipe.Orphans(r, opening)
		return err
	})
	ended, dead := 0, 0
	for some := maxDue; err == nil && len(ids) > 0; {
		d, failed := transact(ctx, e, func(tx kv.Tx) (orphans, error) { return e.endOrphansIn(tx, ids[:min(some, len(ids))], opening) })
		switch {
		case failed == nil:
			ids, ended, dead = ids[d.looked:], ended+d.ended, dead+d.dead
		case some > 1 && ctx.Err() == nil:
			some = 1 // one of them may be corrupt
		default:
			e.debug("a lease of a process that has ended could not be ended", failed)
			ids, err = ids[1:], ctx.Err()
		}
	}
	if err != nil {
		e.debug("leases of a process that has ended could not be ended", err)
	}
	if a.noOrphans = err == nil; ended > 0 && e.options.Logger != nil {
		e.options.Logger.Warn("the process of a runner has ended: its jobs are tried again", "queue", e.name, "jobs", ended, "dead", dead)
	}
}

type orphans struct{ looked, ended, dead int }

func (e *engine) endOrphansIn(tx kv.Tx, ids []int64, opening int64) (o orphans, err error) {
	q, err := e.recipe.At(tx)
	if err != nil {
		return o, err
	}
	if o.looked, o.ended, o.dead, err = q.EndOrphans(tx, ids, opening, micros(e.now())); err == nil && o.ended > 0 {
		e.announce(tx)
		tx.OnCommit(func() { jobs.RecallEverywhere(e.name, ids[:o.looked]) }) // if this process had closed the store under them
		e.noteIn(tx, Event{Kind: EventDue, Jobs: o.ended}, 0)
		e.noteIn(tx, Event{Kind: EventExpired, Jobs: o.ended, Dead: o.dead}, 0)
	}
	return o, err
}

// endOrphans is that of engine for all queues of the store.
func (k *keeper) endOrphans(ctx context.Context, queues []string, o Options) {
	opening := openingOf(k.db)
	if opening == 0 {
		return
	}
	for some := range slices.Chunk(queues, perLook) {
		var with []string
		err := k.db.ReadTransact(ctx, func(r kv.Reader) error {
			with = nil
			for _, name := range some {
				ids, err := jobs.NewQueue(name, k.db.Limits(), jobs.Config{}).Orphans(r, opening)
				if err != nil {
					return err
				}
				if len(ids) > 0 {
					with = append(with, name)
				}
			}
			return nil
		})
		if err != nil && o.Logger != nil && ctx.Err() == nil {
			o.Logger.Debug("leases of a process that has ended could not be ended", "error", err)
		}
		for _, name := range with {
			e := new(engine)
			e.init(k.db, name, o)
			e.endOrphans(ctx)
			_ = e.close()
		}
	}
}
