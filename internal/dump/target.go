package dump

import (
	"context"
	"errors"
	"time"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// target is a queue that is loaded. Each element that add has returned for is in once, whatever became of commits.
type target interface {
	Clear(context.Context) error
	add(context.Context, []element) (jobs.Imported, error)
	end(context.Context, *QueueReport) error // after the last element; it completes the report
	Close() error
}

// openTries is how often a queue is opened if it stays unknown whether that was done, or
// takes too long. It does no harm to do it again.
const openTries = 10

// open opens the queue under way.
func (l *loader) open() (err error) {
	if l.o.DryRun {
		return nil
	}
	open := l.openItems
	if l.queue.Kind == queue.KindWorkQueue {
		open = l.openJobs
	}
	for range openTries {
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		l.target, err = open()
		if !reads.TooOld(err) && !errors.Is(err, kv.ErrCommitUnknown) {
			break
		}
	}
	return err
}

// items is a queue whose items lie as package recipe has them.
type items struct{ *handle.Handle }

func (l *loader) openItems() (target, error) {
	o := handle.Options{NoCombining: true, Staging: handle.StagingNever} // one caller, which takes nothing
	h, err := handle.Open(context.Background(), l.db, l.queue.Name, l.queue.Kind, nil, o)
	return items{h}, err
}

func (t items) add(ctx context.Context, elements []element) (done jobs.Imported, err error) {
	all := make([]handle.Item, len(elements))
	for i, e := range elements {
		all[i] = e.item
	}
	return imported(elements), t.Add(ctx, all...)
}

func (t items) end(context.Context, *QueueReport) error { return nil }

// imported counts elements.
func imported(elements []element) (n jobs.Imported) {
	for _, e := range elements {
		switch {
		case e.record == nil:
			n.Jobs++
			n.Bytes += len(e.item.Payload)
		case e.record.Kind == jobs.JobRecord:
			n.Jobs++
			n.Bytes += len(e.record.Payload)
		}
	}
	return n
}

// workTarget is a work queue.
type workTarget struct {
	db       kv.DB
	name     string
	entry    *layout.Entry
	recipe   *jobs.Queue
	importer *jobs.Importer
	lanes    *outcome.Lanes
	signals  *kvext.Signals
}

func (l *loader) openJobs() (target, error) {
	t := &workTarget{db: l.db, name: l.queue.Name, recipe: workQueue(l.db, l.queue.Name), signals: kvext.SignalsOf(l.db)}
	t.entry = layout.NewEntry(l.db, t.name, queue.KindWorkQueue)
	if err := layout.Register(l.ctx, l.db, t.name, queue.KindWorkQueue); err != nil {
		return nil, err
	}
	t.lanes = outcome.New(l.db, jobs.Outcomes(t.name), nil)
	err := reads.View(l.ctx, l.db, func(r kv.Reader) (err error) {
		if l.free == nil {
			if l.free, err = jobs.Free(r, l.db); err != nil {
				return err
			}
		}
		empty, err := t.recipe.IsEmpty(r)
		t.importer = t.recipe.Import(l.free, empty || l.o.Existing == ExistingReplace)
		return err
	})
	return t, err
}

func (t *workTarget) Clear(ctx context.Context) error {
	_, err := outcome.Do(ctx, t.lanes, func(tx kv.Tx) (any, error) {
		t.recipe.ClearAll(tx)
		return nil, nil
	})
	return err
}

func (t *workTarget) add(ctx context.Context, elements []element) (jobs.Imported, error) {
	records := make([]*jobs.Record, len(elements))
	for i, e := range elements {
		records[i] = e.record
	}
	done, err := outcome.Do(ctx, t.lanes, func(tx kv.Tx) (jobs.Imported, error) {
		jobs.Announce(tx, t.signals, t.name)
		if err := t.entry.Enlist(tx); err != nil {
			return jobs.Imported{}, err
		}
		return t.importer.Put(tx, time.Now().UnixMicro(), records)
	})
	if err == nil {
		t.importer.Committed(done)
	}
	return done, err
}

// admittedKeys is how many keys one transaction looks at for blocked jobs.
const admittedKeys = 10

func (t *workTarget) end(ctx context.Context, report *QueueReport) error {
	for next := []byte(nil); ; {
		after, err := outcome.Do(ctx, t.lanes, func(tx kv.Tx) ([]byte, error) {
			jobs.Announce(tx, t.signals, t.name)
			at, err := t.recipe.At(tx)
			if err != nil {
				return nil, err
			}
			return at.Admit(tx, time.Now().UnixMicro(), next, admittedKeys)
		})
		if err != nil {
			return err
		}
		if next = after; next == nil {
			break
		}
	}
	return reads.View(ctx, t.db, func(r kv.Reader) error {
		at, err := t.recipe.At(r)
		if err == nil {
			report.Paused = at.Paused()
		}
		return err
	})
}

func (t *workTarget) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return t.lanes.Close(ctx, queue.ErrClosed)
}

// closeTimeout bounds how long outcome keys are tidied up.
const closeTimeout = 30 * time.Second
