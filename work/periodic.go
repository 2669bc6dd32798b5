package work

import (
	"context"
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
)

// EveryOptions configure a periodic job.
type EveryOptions struct {
	// Job is how its jobs are put. Delay and At can't be set. A tick whose job is a duplicate of a Unique makes none.
	Job
	// Overlap is what a tick does while the job of the last one is neither done nor dead: RunToo, Skip or Replace. Replace and
	// Job.Unique can't be set together. Default: RunToo.
	Overlap Overlap
	// MaxLate is how late a job may still be put if its tick passed while no process ran. Several missed ticks make
	// one job. Default: no limit.
	MaxLate time.Duration
}

// Overlap is what a tick of a periodic job does while the job of the last one is there, in any state but dead and done.
type Overlap int

// The overlaps.
const (
	RunToo  Overlap = Overlap(jobs.RunToo)  // one more is put
	Skip    Overlap = Overlap(jobs.Skip)    // none is put
	Replace Overlap = Overlap(jobs.Replace) // it is deleted, or cancelled if a worker holds it, and one is put
)

var overlaps = []string{RunToo: "run", Skip: "skip", Replace: "replace"}

// String returns run, skip or replace.
func (o Overlap) String() string {
	if o < RunToo || o > Replace {
		return "invalid"
	}
	return overlaps[o]
}

// ParseOverlap reads run, skip or replace.
func ParseOverlap(text string) (Overlap, error) {
	for o, name := range overlaps {
		if text == name {
			return Overlap(o), nil
		}
	}
	return 0, invalid("overlap %q: it can be run, skip or replace", text)
}

// Check returns what is wrong with how ticks are made, as kv.ErrInvalid.
func (o *EveryOptions) Check() error {
	switch {
	case o.MaxLate < 0:
		return invalid("MaxLate is %v: it can't be negative", o.MaxLate)
	case o.Delay != 0 || !o.At.IsZero():
		return invalid("Delay or At is set: a periodic job is put when its tick is due")
	case o.Overlap < RunToo || o.Overlap > Replace:
		return invalid("Overlap is %d: it can be RunToo, Skip or Replace", int(o.Overlap))
	case o.Overlap == Replace && o.Unique != "":
		return invalid("Overlap is Replace and Unique is %q: only one of them can be set, as a job that is cancelled still has its Unique", o.Unique)
	}
	return nil
}

// Periodic is a job that is put at each tick of a cron expression.
type Periodic struct {
	Name    string
	Spec    string
	Next    time.Time
	MaxLate time.Duration
	Payload []byte
	Overlap Overlap
	Unique  string // of its jobs
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
func (q *Queue[T]) Every(ctx context.Context, name, spec string, value T, opts ...EveryOptions) error {
	o, err := options.Only(opts)
	if err != nil {
		return q.wrap(err)
	}
	if name == "" {
		return q.wrap(invalid("the name of a periodic job is empty"))
	}
	if err := checkText("the name of a periodic job", name); err != nil {
		return q.wrap(fmt.Errorf("%w: %w", kv.ErrInvalid, err))
	}
	if err := o.Check(); err != nil {
		return q.wrap(err)
	}
	n, err := q.encode(value, o.Job)
	if err != nil {
		return err
	}
	limit := q.limits.Value / 3 // as it is written twice as long, at most
	if t := q.limits.Transaction / 4; t > 0 && (limit == 0 || t < limit) {
		limit = t
	}
	if limit > 0 && n.Size() > limit {
		return q.wrap(&kv.TooLargeError{What: "payload of a periodic job", Size: n.Size(), Limit: limit, Unit: "bytes"})
	}
	if err := jobs.CheckCron(spec); err != nil {
		return q.wrap(fmt.Errorf("%w: %w", kv.ErrInvalid, err))
	}
	return q.verb(ctx, verb{announce: true, do: func(at *jobs.Queue, tx kv.Tx, now int64) error {
		if err := q.entry.Enlist(tx); err != nil {
			return err
		}
		p := &jobs.Periodic{Name: name, Spec: spec, MaxLate: o.MaxLate.Microseconds(), Job: n, Overlap: jobs.Overlap(o.Overlap)}
		return at.Every(tx, p, now)
	}})
}

// RemovePeriodic removes a periodic job, or returns ErrNotFound. Jobs that it has put stay.
func (q *Queue[T]) RemovePeriodic(ctx context.Context, name string) error {
	return q.verb(ctx, verb{do: func(q *jobs.Queue, tx kv.Tx, _ int64) error { return q.RemovePeriodic(tx, name) }})
}

// RunPeriodic puts a periodic job once now, in addition to its ticks, whatever its Overlap. The job counts as that of the last tick from then
// on. The error is ErrDuplicate if there is one of its Unique.
func (q *Queue[T]) RunPeriodic(ctx context.Context, name string) (ID, error) {
	id := int64(0)
	err := q.verb(ctx, verb{announce: true, do: func(q *jobs.Queue, tx kv.Tx, now int64) (err error) {
		id, err = q.RunNow(tx, name, now)
		return err
	}})
	if err != nil {
		return 0, err
	}
	return ID(id), nil
}

// Periodics returns the periodic jobs of the queue, by name.
func (q *Queue[T]) Periodics(ctx context.Context) (all []Periodic, err error) {
	q.fresh(ctx)
	err = q.view(ctx, func(r kv.Reader) error {
		all = nil
		stored, err := q.recipe.Periodics(r)
		for _, p := range stored {
			shown := Periodic{p.Name, p.Spec, timeOf(p.Next), span(p.MaxLate), p.Job.Payload, Overlap(p.Overlap), p.Job.Unique, ""}
			if trouble := q.recipe.Trouble(p, micros(q.now())); trouble != nil {
				shown.Trouble = trouble.Error()
			}
			all = append(all, shown)
		}
		return err
	})
	return all, err
}
