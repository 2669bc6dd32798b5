// Package dump writes queues as a stream, and puts them into a store again: conq.Dump and
// conq.Load. The bytes are those of package stream.
package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/conq-go/conq/internal/dump/stream"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
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
	Name  string     `json:"name"`
	Kind  queue.Kind `json:"kind"`
	Items int        `json:"items"`
	Bytes int64      `json:"bytes"` // of their payloads
	Whole bool       `json:"whole"` // nothing of the queue is missing

	// Of a work queue that was loaded.
	Duplicates int  `json:"duplicates,omitempty"` // jobs that were left out, as one of the same Unique was there
	NewIDs     int  `json:"new_ids,omitempty"`    // jobs that have another id than in the dump
	Paused     bool `json:"paused,omitempty"`     // it gives out no jobs until it is resumed
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

// Dump is conq.Dump.
func Dump(ctx context.Context, db kv.DB, w io.Writer, o DumpOptions) (DumpReport, error) {
	switch {
	case ctx == nil:
		return DumpReport{}, reads.ErrContext
	case db == nil:
		return DumpReport{}, reads.ErrNoDB
	case w == nil:
		return DumpReport{}, errors.New("conq: dump: w is nil")
	}
	d := dumper{db: db, w: w, o: o, entries: layout.Entries().Range()}
	err := d.run(ctx)
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
	queues []*layout.Queue
	at     int    // queue under way
	last   []byte // key of the last item or record that was written of it, or nil
	key    []byte // of a work queue under way, whose slots were looked at last, or nil
	slots  int64  // the most that were in use
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
		content := d.items
		if d.report.Queues[d.at].Kind == queue.KindWorkQueue {
			content = d.records
		}
		if err := content(r); err != nil {
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
		info, err := layout.Find(r, name)
		if err != nil {
			return err
		}
		for _, other := range d.queues {
			if other.Name == name {
				return fmt.Errorf("conq: dump: queue %q is named twice", name)
			}
		}
		if err := d.add(info); err != nil {
			return err
		}
	}
	return nil
}

func (d *dumper) add(info layout.Info) error {
	s, err := readable(d.db, info)
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
	q := d.queues[d.at]
	all := q.Items
	if d.last != nil {
		all.Begin = kv.After(d.last)
	}
	staged, err := stagedItems(r, q, all)
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
	q := d.queues[d.at]
	payload, err := q.Payload(r, item)
	if err != nil {
		return err
	}
	var priority []byte
	if d.report.Queues[d.at].Kind == queue.KindPriorityQueue {
		n, err := q.Integer(item.Key, 0)
		if err != nil {
			return q.DecodeError(item.Key, err)
		}
		priority = tuple.AppendInt(nil, n)
	}
	if err := d.written(d.stream.Item(stream.Item{Priority: priority, Payload: payload})); err != nil {
		return err
	}
	d.count(item.Key, len(payload))
	return nil
}

// count counts an item or a job that was written, and where to go on.
func (d *dumper) count(key []byte, payload int) {
	d.last, d.moved = key, true
	report := &d.report.Queues[d.at]
	report.Items++
	report.Bytes += int64(payload)
	d.report.Items++
	d.report.Bytes += int64(payload)
	if d.report.Bytes-d.told > tellBytes || d.report.Items%1000 == 0 {
		d.tell()
	}
}

func (d *dumper) tell() {
	d.told = d.report.Bytes
	if d.o.Progress != nil {
		d.o.Progress(Progress{d.queues[d.at].Name, d.report.Items, d.report.Bytes})
	}
}
