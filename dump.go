package conq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/stream"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// DumpOptions are the options of Dump. The zero value is the default.
type DumpOptions struct {
	// Queues says which queues, and in which order. Each must be there; one that only
	// another program has used, by FoundationDB's recipes, may be among them. Default,
	// also of an empty list: all that the catalogue has, by name.
	Queues []string

	// Progress is told how far it is, now and then and at the end of each queue, in
	// the goroutine of the caller. It must be quick: a transaction is open. Default:
	// nobody is told.
	Progress func(Progress)
}

// Progress is how far a Dump or Load is.
type Progress struct {
	Queue string // the one under way
	Items int    // of all queues so far
	Bytes int64  // of their payloads
}

// QueueReport is what was written, or loaded, of a queue.
type QueueReport struct {
	Name  string
	Kind  Kind
	Items int
	Bytes int64 // of their payloads
	Whole bool  // nothing of the queue is missing
}

// DumpReport is what Dump has written.
type DumpReport struct {
	Queues []QueueReport
	Items  int   // of all queues
	Bytes  int64 // of their payloads

	// Snapshots is how many snapshots were read. With 1, all of the dump is as the store
	// was at one moment.
	Snapshots int
}

// Dump writes queues to w, in a form that does not depend on the engine: names, kinds,
// and items in their order, with their priorities and their payloads as the codec wrote
// them. Load reads it; docs/format.md says what the bytes are. It needs no codec and
// changes nothing in the store. It does not close w.
//
//   - What it sees: one snapshot of all queues, if it can be read and written in the time
//     that the engine allows (kv.Limits.Age). Otherwise it goes on in a later one, behind
//     the last item that it has written, as Queue.All does: still in order and nothing
//     twice, but then it may have items that were added after it began, and miss such
//     that were taken since, also one that was moved to a queue that had been written
//     before. DumpReport.Snapshots tells which it was. A w that is slow makes it longer.
//   - Staged items: those that were taken by a staged request and wait to be collected
//     (see Staging) are in the dump, in their old places. Their consumers may get them
//     still, as they may any item after a dump.
//   - Not in it: leases, staged requests, and all else that clients write for each other.
//   - Memory: an item, a block of 64 KiB, the catalogue, and the keys of staged items.
//
// After an error w has the beginning of a dump, which Load refuses at its end. The
// report says what is in it. Errors: ErrNoQueue, before anything is written; ErrFormat if
// a queue is of a newer format or an unknown kind, and ErrCorrupt, before anything is
// written, too; ErrDecode for an item whose key is not of its queue, or of which a piece
// is missing; those of w and of the store; ctx's cause, for which a w that blocks is
// waited for. At most one DumpOptions may be given.
func Dump(ctx context.Context, db kv.DB, w io.Writer, opts ...DumpOptions) (DumpReport, error) {
	d := dumper{db: db, w: w, entries: layout.Entries().Range()}
	var err error
	d.o, err = only(opts)
	switch {
	case err != nil:
		return d.report, fmt.Errorf("conq: dump: %w", err)
	case ctx == nil:
		return d.report, reads.ErrContext
	case db == nil:
		return d.report, reads.ErrNoDB
	case w == nil:
		return d.report, errors.New("conq: dump: w is nil")
	}
	err = d.run(ctx)
	return d.report, err
}

// dumper is a dump under way.
type dumper struct {
	db      kv.DB
	w       io.Writer
	o       DumpOptions
	entries kv.Range // of the catalogue that have not been read
	moved   bool     // something was done on this snapshot

	stream *stream.Writer // nil until all queues are known
	queues []*store
	at     int    // queue under way
	last   []byte // key of the last item that was written of it, or nil
	told   int64  // bytes of payloads at the last Progress
	report DumpReport
}

func (d *dumper) run(ctx context.Context) error {
	for old := 0; ; {
		d.moved = false
		d.report.Snapshots++
		err := d.db.ReadTransact(ctx, d.page)
		switch {
		case err == nil:
			return d.written(d.stream.End())
		case !reads.TooOld(err):
			return err
		case d.moved:
			old = 0
		case old == kv.MaxTooOld:
			return err
		default:
			old++
		}
	}
}

// page writes as much as can be read on one snapshot.
func (d *dumper) page(r kv.Reader) error {
	if d.stream == nil {
		if err := d.list(r); err != nil {
			return err
		}
		d.begin()
	}
	for d.at < len(d.queues) {
		if err := d.items(r); err != nil {
			return err
		}
		if err := d.written(d.stream.EndQueue()); err != nil {
			return err
		}
		d.report.Queues[d.at].Whole = true
		d.tell()
		d.at, d.last, d.moved = d.at+1, nil, true
	}
	return nil
}

// list finds out which queues there are.
func (d *dumper) list(r kv.Reader) error {
	if _, err := layout.ReadFormat(r); err != nil {
		return err
	}
	if len(d.o.Queues) == 0 {
		return reads.Each(r, d.entries, func(_ kv.Reader, entry kv.KeyValue) error {
			info, err := layout.ParseEntry(entry)
			if err != nil {
				return err
			}
			d.entries.Begin = kv.After(entry.Key)
			return d.add(info)
		})
	}
	for _, name := range d.o.Queues[len(d.queues):] {
		info, err := findQueue(r, name)
		if err != nil {
			return err
		}
		for _, other := range d.queues {
			if other.name == name {
				return fmt.Errorf("conq: dump: queue %q is named twice", name)
			}
		}
		if err := d.add(info); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) add(info Info) error {
	s, err := readingStore(d.db, info)
	if err != nil {
		return err
	}
	d.queues, d.moved = append(d.queues, s), true
	d.report.Queues = append(d.report.Queues, QueueReport{Name: info.Name, Kind: info.Kind})
	return nil
}

func (d *dumper) begin() {
	list := make([]stream.Queue, len(d.queues))
	for i, q := range d.report.Queues {
		list[i] = stream.Queue{Kind: string(q.Kind), Name: q.Name}
	}
	d.stream = stream.NewWriter(d.w, list)
}

func (d *dumper) written(err error) error {
	if err != nil {
		return fmt.Errorf("conq: dump: writing: %w", err)
	}
	return nil
}

// items writes the items of the queue under way, from where it is.
func (d *dumper) items(r kv.Reader) error {
	s := d.queues[d.at]
	all := s.span
	if d.last != nil {
		all.Begin = kv.After(d.last)
	}
	staged, err := s.stagedItems(r, all)
	if err != nil {
		return err
	}
	err = reads.Each(r, all, func(r kv.Reader, item kv.KeyValue) error {
		for len(staged) > 0 && bytes.Compare(staged[0].key, item.Key) < 0 {
			if err := d.stagedItem(r, staged[0]); err != nil {
				return err
			}
			staged = staged[1:]
		}
		return d.item(r, item)
	})
	for _, it := range staged {
		if err != nil {
			return err
		}
		err = d.stagedItem(r, it)
	}
	return err
}

func (d *dumper) stagedItem(r kv.Reader, it stagedItem) error {
	value, err := r.Get(it.at)
	if err != nil {
		return err
	}
	return d.item(r, kv.KeyValue{Key: it.key, Value: value})
}

// tellBytes is after how many bytes of payloads Progress is told anew.
const tellBytes = 256 << 10

func (d *dumper) item(r kv.Reader, item kv.KeyValue) error {
	s := d.queues[d.at]
	payload, err := s.payload(r, item)
	if err != nil {
		return err
	}
	var priority []byte
	if s.priority {
		n, err := s.integer(item.Key, 0)
		if err != nil {
			return s.decodeError(item.Key, err)
		}
		priority = tuple.AppendInt(nil, n)
	}
	if err := d.written(d.stream.Item(stream.Item{Priority: priority, Payload: payload})); err != nil {
		return err
	}
	d.last, d.moved = item.Key, true
	q := &d.report.Queues[d.at]
	q.Items++
	q.Bytes += int64(len(payload))
	d.report.Items++
	d.report.Bytes += int64(len(payload))
	if d.report.Bytes-d.told > tellBytes || d.report.Items%1000 == 0 {
		d.tell()
	}
	return nil
}

func (d *dumper) tell() {
	d.told = d.report.Bytes
	if d.o.Progress != nil {
		d.o.Progress(Progress{d.queues[d.at].name, d.report.Items, d.report.Bytes})
	}
}
