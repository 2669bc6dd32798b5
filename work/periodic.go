package work

import (
	"context"
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
)

// EveryOptions configure a periodic job.
type EveryOptions struct {
	// Job is how its jobs are put. Delay, At, Unique and Meta are not used.
	Job
	// MaxLate is how late a job may still be put if its tick passed while no process ran. Several missed ticks make
	// one job. Default: no limit.
	MaxLate time.Duration
}

// Periodic is a job that is put at each tick of a cron expression.
type Periodic struct {
	Name    string
	Spec    string
	Next    time.Time
	MaxLate time.Duration
	Payload []byte
	// Trouble says why it is not due as it should be, or is "": its time zone is not known to this process, or the clock of
	// who set Next was far ahead.
	Trouble string
}

// Every puts a job at each tick of a cron expression: five fields (minute, hour, day of month, month, day of week), or
// "@hourly", "@daily" and the like, or "@every 90s", in whole seconds. "CRON_TZ=Europe/Berlin " in front sets the time zone,
// which otherwise is that of the process. Where its clocks are put forward, a time that is left out has no tick that day; where
// they are put back, one that comes twice has two. Each tick makes one job, however many processes there are, as long as at
// least one of them reserves jobs of this queue, busy or not. A periodic job of the same name is changed: with an equal spec its
// next tick stays when it is, and with another one a tick that was due by now is made first.
func (q *Queue[T]) Every(ctx context.Context, name, spec string, value T, options ...EveryOptions) error {
	o, err := only(options)
	if err != nil {
		return q.wrap(err)
	}
	if name == "" {
		return q.wrap(invalid("the name of a periodic job is empty"))
	}
	if err := checkText("the name of a periodic job", name); err != nil {
		return q.wrap(fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	if o.MaxLate < 0 {
		return q.wrap(invalid("MaxLate is %v: it can't be negative", o.MaxLate))
	}
	n, err := q.encode(value, o.Job)
	if err != nil {
		return err
	}
	limit := q.limits.Value / 3 // as it is written twice as long, at most
	if t := q.limits.Transaction / 4; t > 0 && (limit == 0 || t < limit) {
		limit = t
	}
	if limit > 0 && len(n.Payload) > limit {
		return q.wrap(&kv.TooLargeError{What: "payload of a periodic job", Size: len(n.Payload), Limit: limit, Unit: "bytes"})
	}
	if err := jobs.CheckCron(spec); err != nil {
		return q.wrap(fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	_, err = q.verb(ctx, verb{announce: true, do: func(at *jobs.Queue, tx kv.Tx, now int64) (any, error) {
		if err := q.entry.Enlist(tx); err != nil {
			return nil, err
		}
		p := &jobs.Periodic{Name: name, Spec: spec, MaxLate: o.MaxLate.Microseconds(), Job: n}
		return nil, at.Every(tx, p, now)
	}})
	return err
}

// RemovePeriodic removes a periodic job, or returns ErrNotFound. Jobs that it has put stay.
func (q *Queue[T]) RemovePeriodic(ctx context.Context, name string) error {
	_, err := q.verb(ctx, verb{do: func(q *jobs.Queue, tx kv.Tx, _ int64) (any, error) { return nil, q.RemovePeriodic(tx, name) }})
	return err
}

// RunPeriodic puts a periodic job once now, in addition to its ticks.
func (q *Queue[T]) RunPeriodic(ctx context.Context, name string) (ID, error) {
	id, err := q.verb(ctx, verb{announce: true, do: func(q *jobs.Queue, tx kv.Tx, now int64) (any, error) {
		j, err := q.RunNow(tx, name, now)
		if err != nil {
			return ID(0), err
		}
		return ID(j.ID), nil
	}})
	if err != nil {
		return 0, err
	}
	return id.(ID), nil
}

// Periodics returns the periodic jobs of the queue, by name.
func (q *Queue[T]) Periodics(ctx context.Context) (all []Periodic, err error) {
	q.fresh(ctx)
	err = q.view(ctx, func(r kv.Reader) error {
		all = nil
		stored, err := q.recipe.Periodics(r)
		for _, p := range stored {
			shown := Periodic{p.Name, p.Spec, timeOf(p.Next), time.Duration(p.MaxLate) * time.Microsecond, p.Job.Payload, ""}
			if trouble := q.recipe.Trouble(p, micros(q.now())); trouble != nil {
				shown.Trouble = trouble.Error()
			}
			all = append(all, shown)
		}
		return err
	})
	return all, err
}
