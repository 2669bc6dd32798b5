package dump

import (
	"bytes"

	"github.com/conq-go/conq/internal/dump/stream"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// records writes the records of the work queue under way, from where it is.
func (d *dumper) records(r kv.Reader) error {
	q := workQueue(d.db, d.queues[d.at].Name)
	if d.last == nil {
		if err := d.settings(r, q); err != nil {
			return err
		}
	}
	for _, part := range q.Exported() {
		if bytes.Compare(d.last, part.Begin) >= 0 {
			part.Begin = kv.After(d.last)
		}
		if bytes.Compare(part.Begin, part.End) >= 0 {
			continue
		}
		if err := reads.Each(r, part, func(r kv.Reader, pair kv.KeyValue) error { return d.recordOf(r, q, pair) }); err != nil {
			return err
		}
	}
	return nil
}

// settings writes the first record, once it has seen all keys.
func (d *dumper) settings(r kv.Reader, q *jobs.Queue) error {
	left := q.Slots()
	if d.key != nil {
		left.Begin = kv.After(d.key)
	}
	err := reads.Each(r, left, func(_ kv.Reader, pair kv.KeyValue) error {
		used, err := q.UsedSlots(pair)
		d.slots, d.key, d.moved = max(d.slots, used), pair.Key, true
		return err
	})
	if err != nil {
		return err
	}
	settings, err := q.ExportSettings(r)
	if err != nil {
		return err
	}
	settings.Queue.Slots = max(1, d.slots)
	if err := d.record(settings); err != nil {
		return err
	}
	d.slots, d.key, d.last, d.moved = 0, nil, []byte{}, true
	return nil
}

// recordOf writes what a key says.
func (d *dumper) recordOf(r kv.Reader, q *jobs.Queue, pair kv.KeyValue) error {
	record, err := q.Export(r, pair)
	if err != nil {
		return err
	}
	if record != nil {
		if err := d.record(record); err != nil {
			return err
		}
		if record.Kind == jobs.JobRecord {
			d.count(pair.Key, len(record.Payload))
		}
	}
	d.last, d.moved = pair.Key, true
	return nil
}

func (d *dumper) record(r *jobs.Record) error {
	return d.written(d.stream.Item(stream.Item{Priority: tuple.AppendInt(nil, int64(r.Kind)), Payload: r.Encode()}))
}

// recordBytes is how much longer a record is at most than what it tells of: a job's header, which may have each byte
// of its texts twice.
const recordBytes = 256 << 10

// recordOf returns an item of the stream as what it says of the work queue under way.
func (l *loader) recordOf(item stream.Item) (*jobs.Record, error) {
	kind, rest, ok := tuple.NextInt(item.Priority)
	if !ok || len(rest) > 0 {
		return nil, l.stream.Broken("the kind of a record of a %s is not a packed integer", queue.KindWorkQueue)
	}
	r, err := jobs.ParseRecord(kind, item.Payload)
	if err != nil {
		return nil, l.stream.Broken("%v", err)
	}
	return r, nil
}
