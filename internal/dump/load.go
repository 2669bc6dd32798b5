package dump

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/conq-go/conq/internal/dump/stream"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Existing says what Load does about a queue that has items already.
type Existing int

const (
	// ExistingRefuse makes Load fail with ErrNotEmpty before it changes anything.
	ExistingRefuse Existing = iota
	// ExistingAppend puts the items behind those that are there; in a priority queue,
	// behind those of the same priority.
	ExistingAppend
	// ExistingReplace removes the items that are there, of each queue as its turn comes.
	ExistingReplace
)

// LoadOptions are the options of Load. The zero value is the default.
type LoadOptions struct {
	// Existing says what to do about queues that have items already. Default:
	// ExistingRefuse.
	Existing Existing

	// DryRun reads all of the dump, looks at the store as Load does before it begins,
	// and changes nothing. The report is what Load would put in. Default: false.
	DryRun bool

	// Progress is told how far it is, after each transaction, in the goroutine of the
	// caller. Default: nobody is told.
	Progress func(Progress)
}

// LoadReport is what Load has put in, for certain. In it is each queue of the dump, as
// far as it could be read which those are.
type LoadReport struct {
	Queues []QueueReport
	Items  int   // of all queues
	Bytes  int64 // of their payloads
}

// Load is conq.Load.
func Load(ctx context.Context, db kv.DB, r io.Reader, o LoadOptions) (LoadReport, error) {
	switch {
	case ctx == nil:
		return LoadReport{}, reads.ErrContext
	case db == nil:
		return LoadReport{}, reads.ErrNoDB
	case r == nil:
		return LoadReport{}, errors.New("conq: load: r is nil")
	case o.Existing < ExistingRefuse || o.Existing > ExistingReplace:
		return LoadReport{}, fmt.Errorf("conq: LoadOptions.Existing is %d: it can be ExistingRefuse, ExistingAppend or ExistingReplace", o.Existing)
	}
	l := loader{ctx: ctx, db: db, o: o, bounds: newLoadBounds(db.Limits())}
	l.stream = stream.NewReader(r, l.bounds.payload)
	err := l.run()
	return l.report, err
}

// loader is a Load under way.
type loader struct {
	ctx    context.Context
	db     kv.DB
	o      LoadOptions
	bounds loadBounds
	stream *stream.Reader
	report LoadReport

	queue  *QueueReport // the one under way
	target target       // nil in a dry run
	batch  loadBatch
	done   int // elements of the queue that are in

	free *jobs.FreeIDs // nil before the first work queue
}

func (l *loader) run() error {
	queues, err := l.stream.Queues()
	if err != nil {
		return l.unreadable(err)
	}
	for _, q := range queues {
		l.report.Queues = append(l.report.Queues, QueueReport{Name: q.Name, Kind: queue.Kind(q.Kind)})
	}
	for _, q := range l.report.Queues {
		if err := l.check(layout.Info{Name: q.Name, Kind: q.Kind, Format: layout.QueueFormat}); err != nil {
			return err
		}
	}
	for i := range l.report.Queues {
		l.queue = &l.report.Queues[i]
		if err := l.load(); err != nil {
			return err
		}
		l.queue.Whole = true
	}
	return l.unreadable(l.stream.End())
}

// check returns the error for a queue that can't be loaded, or nil.
func (l *loader) check(info layout.Info) error {
	if err := layout.CheckName(info.Name); err != nil {
		return fmt.Errorf("%w: %w", queue.ErrDump, err)
	}
	q, err := readable(l.db, info)
	if err != nil {
		return err
	}
	return reads.View(l.ctx, l.db, func(r kv.Reader) error {
		if _, err := layout.CheckEntry(r, info.Name, info.Kind); err != nil {
			return err
		}
		there, err := layout.Find(r, info.Name)
		switch {
		case errors.Is(err, queue.ErrNoQueue):
			return nil
		case err != nil:
			return err
		case there.Kind != info.Kind: // of another program, so not in the catalogue
			return fmt.Errorf("%w: %q is a %s, not a %s", queue.ErrKind, info.Name, there.Kind, info.Kind)
		case l.o.Existing != ExistingRefuse:
			return nil
		}
		some, err := hasItems(r, l.db, q, info.Kind)
		if err == nil && some {
			err = fmt.Errorf("%w: %q has items", queue.ErrNotEmpty, info.Name)
		}
		return err
	})
}

// load puts in the items of the queue under way.
func (l *loader) load() error {
	l.done = 0
	l.stream.Limit(l.bounds.element(l.queue.Kind))
	if err := l.open(); err != nil {
		return err
	}
	defer l.close()
	if l.o.Existing == ExistingReplace && !l.o.DryRun {
		if err := l.target.Clear(l.ctx); err != nil {
			return err
		}
	}
	for {
		item, err := l.stream.Item()
		if err == nil {
			err = l.add(item)
		}
		switch {
		case err == nil:
		case err == io.EOF:
			return l.end()
		case isUnreadable(err): // what comes before it was right
			if err := l.end(); err != nil {
				return err
			}
			return l.unreadable(err)
		default:
			return err
		}
	}
}

// end puts in what is left, and ends the queue under way.
func (l *loader) end() error {
	if err := l.flush(); err != nil || l.o.DryRun {
		return err
	}
	return l.target.end(l.ctx, l.queue)
}

// close ends the use of the queue under way. What it leaves if it fails others will see to:
// so that is no failure of the Load. For the same reason a caller that has given up is not held up.
func (l *loader) close() {
	if l.ctx.Err() == nil && !l.o.DryRun {
		_ = l.target.Close()
	}
}

// add puts an item into the batch, after what is there if it is full.
func (l *loader) add(item stream.Item) error {
	e, err := l.element(item)
	if err != nil {
		return err
	}
	cost := l.bounds.cost(l.queue.Name, e)
	if l.batch.full(cost, l.bounds) {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.batch.add(e, cost)
	return nil
}

// flush puts the batch in.
func (l *loader) flush() error {
	items := l.batch.items
	if err := l.put(items); err != nil {
		return err
	}
	clear(items)
	l.batch = loadBatch{items: items[:0]}
	if l.o.Progress != nil {
		l.o.Progress(Progress{l.queue.Name, l.report.Items, l.report.Bytes})
	}
	return nil
}

// put puts items in, in halves if they are too many for a transaction.
func (l *loader) put(items []element) error {
	if len(items) == 0 {
		return nil
	}
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	var err error
	n := imported(items)
	if !l.o.DryRun {
		n, err = l.target.add(l.ctx, items)
	}
	switch from := l.done + 1; {
	case err == nil:
		l.done += len(items)
		l.count(n)
		return nil
	case errors.Is(err, kv.ErrCommitUnknown):
		return fmt.Errorf("conq: load: queue %q: items %d to %d of the dump may or may not be in: %w",
			l.queue.Name, from, from+len(items)-1, err)
	case !errors.Is(err, kv.ErrTooLarge) && !reads.TooOld(err):
		return err
	case len(items) == 1:
		return fmt.Errorf("conq: load: queue %q: item %d of the dump: %w", l.queue.Name, from, err)
	}
	half := len(items) / 2
	if err := l.put(items[:half]); err != nil {
		return err
	}
	return l.put(items[half:])
}

func (l *loader) count(n jobs.Imported) {
	q := l.queue
	q.Items += n.Jobs - n.Duplicates
	q.Bytes += int64(n.Bytes)
	q.Duplicates += n.Duplicates
	q.NewIDs += n.NewIDs
	l.report.Items += n.Jobs - n.Duplicates
	l.report.Bytes += int64(n.Bytes)
}

// unreadable makes an error of the stream one of this package.
func (l *loader) unreadable(err error) error {
	var long *stream.TooLongError
	switch {
	case errors.Is(err, stream.ErrBroken):
		return fmt.Errorf("%w: %w", queue.ErrDump, err)
	case errors.Is(err, stream.ErrVersion):
		return fmt.Errorf("%w: %w", queue.ErrFormat, err)
	case errors.As(err, &long):
		return fmt.Errorf("conq: load: queue %q: item %d of the dump: %w", long.Queue, long.Item,
			&kv.TooLargeError{What: "item", Size: long.Size, Limit: long.Limit, Unit: "bytes"})
	case err != nil:
		return fmt.Errorf("conq: load: %w", err)
	}
	return nil
}
