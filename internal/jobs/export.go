package jobs

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// RecordKind says what a record of a work queue in a dump is.
type RecordKind int64

// The kinds of records. docs/reference/format.md tells their bytes.
const (
	SettingsRecord RecordKind = iota + 1 // comes first
	JobRecord                            // by id
	KeyRecord                            // what is known of a key's rate
	PeriodicRecord
	ClaimRecord // of a unique name, that outlives its job
)

// Record is what a dump tells of a work queue, but for its kind one of the fields.
type Record struct {
	Kind     RecordKind
	Queue    QueueState
	Job      *Job
	Payload  []byte
	Result   []byte // nil if there is none
	Periodic *Periodic
	Text     string // of a key or a claim
	Time     int64  // likewise
}

// QueueState is what is stored of a queue itself.
type QueueState struct {
	Stored  []byte // its settings, and whether it is paused; nil if nothing was ever said of these
	Slots   int64  // the most that any key has in use
	Arrival int64  // of the queue's rate
	LastID  int64  // that the store has given out
}

const (
	settingsFormat = 2
	noResult       = 0
	hasResult      = 1
)

// Exported returns the ranges of keys that are in a dump, in order.
func (q *Queue) Exported() []kv.Range {
	return []kv.Range{rangeOf(q.headers), rangeOf(q.slots), rangeOf(q.periodic), rangeOf(q.claims)}
}

// Slots returns the range of the keys of which UsedSlots tells.
func (q *Queue) Slots() kv.Range { return rangeOf(q.slots) }

// UsedSlots returns how many slots of a key are in use.
func (q *Queue) UsedSlots(pair kv.KeyValue) (used int64, err error) {
	var s slots
	err = decodeInts(pair.Key, pair.Value, s.ints()...)
	return s.used, err
}

// ExportSettings returns the first record, but for the slots.
func (q *Queue) ExportSettings(r kv.Reader) (*Record, error) {
	at, err := q.At(r)
	if err != nil {
		return nil, err
	}
	s := QueueState{Stored: at.stored, Slots: 1}
	if s.Arrival, err = loadInt(r, q.rate); err != nil {
		return nil, err
	}
	s.LastID, err = lastID(r)
	return &Record{Kind: SettingsRecord, Queue: s}, err
}

// Export returns the record of a key that is in a dump, or nil if it says nothing that other records do not.
func (q *Queue) Export(r kv.Reader, pair kv.KeyValue) (*Record, error) {
	switch {
	case bytes.HasPrefix(pair.Key, q.headers):
		return q.exportJob(r, pair)
	case bytes.HasPrefix(pair.Key, q.slots):
		var s slots
		return exportTimed(pair, KeyRecord, q.slots, s.ints(), &s.next, new(int64))
	case bytes.HasPrefix(pair.Key, q.claims):
		var id, until int64
		return exportTimed(pair, ClaimRecord, q.claims, []*int64{&id, &until}, &until, &id)
	}
	name, err := textOf(q.periodic, pair.Key)
	if err != nil {
		return nil, err
	}
	p, err := decodePeriodic(pair.Key, name, pair.Value)
	return &Record{Kind: PeriodicRecord, Periodic: p}, err
}

func (q *Queue) exportJob(r kv.Reader, pair kv.KeyValue) (*Record, error) {
	j, err := q.listed(r, 0, pair)
	if err != nil {
		return nil, err
	}
	record := &Record{Kind: JobRecord, Job: j}
	if record.Payload, err = q.Payload(r, j); err != nil {
		return nil, err
	}
	if j.State == Done {
		record.Result, err = q.Result(r, j.ID)
	}
	j.Token, j.Pieces, j.payload = 0, 0, nil // of this store
	return record, err
}

// exportTimed is for keys whose values are integers, one of them a time, which is 0 where they are nothing but what follows
// from jobs, and one perhaps an id.
func exportTimed(pair kv.KeyValue, kind RecordKind, prefix []byte, ints []*int64, at, id *int64) (*Record, error) {
	text, err := textOf(prefix, pair.Key)
	if err != nil {
		return nil, err
	}
	if err := decodeInts(pair.Key, pair.Value, ints...); err != nil || *at == 0 {
		return nil, err
	}
	return &Record{Kind: kind, Text: text, Time: *at, Job: &Job{ID: *id}}, nil
}

// Encode returns what ParseRecord reads.
func (r *Record) Encode() []byte {
	switch r.Kind {
	case SettingsRecord:
		return append(withInts(nil, settingsFormat, r.Queue.Slots, r.Queue.Arrival, r.Queue.LastID), r.Queue.Stored...)
	case JobRecord:
		header := append(withInts(nil, r.Job.ID), r.Job.encode()...)
		b := make([]byte, 0, len(header)+len(r.Payload)+len(r.Result)+2*binary.MaxVarintLen64+1)
		b = append(binary.AppendUvarint(b, uint64(len(header))), header...)
		b = append(binary.AppendUvarint(b, uint64(len(r.Payload))), r.Payload...)
		if r.Result == nil {
			return append(b, noResult)
		}
		return append(append(b, hasResult), r.Result...)
	case PeriodicRecord:
		return append(withString(nil, r.Periodic.Name), r.Periodic.encode()...)
	case KeyRecord:
		return withInts(withString(nil, r.Text), r.Time)
	}
	return withInts(withString(nil, r.Text), r.Job.ID, r.Time)
}

// ParseRecord reads a record. The error says what can't be so; then nothing of it is to be used.
func ParseRecord(kind int64, b []byte) (*Record, error) {
	r := &Record{Kind: RecordKind(kind)}
	var err error
	switch r.Kind {
	case SettingsRecord:
		err = r.parseSettings(b)
	case JobRecord:
		err = r.parseJob(b)
	case PeriodicRecord:
		err = r.parsePeriodic(b)
	case KeyRecord, ClaimRecord:
		err = r.parseTimed(b)
	default:
		return nil, fmt.Errorf("a record of kind %d of a work queue, which there is not", kind)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Record) parseSettings(b []byte) error {
	var format int64
	s, ok := &r.Queue, true
	for _, i := range []*int64{&format, &s.Slots, &s.Arrival, &s.LastID} {
		if *i, b, ok = tuple.NextInt(b); !ok {
			return fmt.Errorf("settings of a work queue that are cut off")
		}
		if format != settingsFormat {
			return fmt.Errorf("settings of a work queue of format %d, this version of conq knows %d", format, settingsFormat)
		}
	}
	if s.Slots < 1 || !isTime(s.Arrival) || s.LastID < 0 || s.LastID > MaxID {
		return fmt.Errorf("settings of a work queue that can't be: %d slots, time %d, last id %d", s.Slots, s.Arrival, s.LastID)
	}
	if len(b) > 0 {
		s.Stored = b
	}
	_, err := decodeState(nil, s.Stored, DefaultSettings)
	return err
}

func (r *Record) parseJob(b []byte) error {
	header, rest, err := cut(b)
	if err != nil {
		return err
	}
	if r.Payload, rest, err = cut(rest); err != nil {
		return err
	}
	switch {
	case len(rest) == 1 && rest[0] == noResult:
	case len(rest) > 0 && rest[0] == hasResult:
		r.Result = rest[1:]
	default:
		return fmt.Errorf("a job does not tell whether it has a result")
	}
	id, header, ok := tuple.NextInt(header)
	if !ok || id < 1 || id > MaxID {
		return fmt.Errorf("a job with id %d: it can be 1 to %d", id, int64(MaxID))
	}
	if r.Job, err = decode(nil, id, header); err != nil {
		return fmt.Errorf("job %d: %w", id, err)
	}
	return r.Job.valid()
}

// cut returns a byte string that a number of its bytes comes before, and what is behind.
func cut(b []byte) (s, rest []byte, err error) {
	n, used := binary.Uvarint(b)
	if used <= 0 || n > uint64(len(b)-used) {
		return nil, nil, fmt.Errorf("a job is cut off")
	}
	return b[used : used+int(n)], b[used+int(n):], nil
}

func (r *Record) parsePeriodic(b []byte) error {
	elem, rest, err := tuple.Next(b)
	name, ok := elem.(string)
	if err != nil || !ok || name == "" || len(name) > maxText {
		return fmt.Errorf("a periodic job whose name is not a string of 1 to %d bytes", maxText)
	}
	if r.Periodic, err = decodePeriodic(nil, name, rest); err != nil {
		return fmt.Errorf("periodic job %q: %w", name, err)
	}
	return r.Periodic.valid()
}

func (r *Record) parseTimed(b []byte) error {
	elem, rest, err := tuple.Next(b)
	ok := err == nil
	if ok {
		r.Text, ok = elem.(string)
	}
	if !ok || len(r.Text) > maxText {
		return fmt.Errorf("a key or a unique name that is not a string of up to %d bytes", maxText)
	}
	r.Job = &Job{}
	to := []*int64{&r.Time}
	if r.Kind == ClaimRecord {
		to = []*int64{&r.Job.ID, &r.Time}
	}
	if err := decodeInts(nil, rest, to...); err != nil {
		return fmt.Errorf("key or unique name %q: %w", r.Text, err)
	}
	if !isTime(r.Time) || r.Job.ID < 0 || r.Job.ID > MaxID {
		return fmt.Errorf("key or unique name %q of job %d: time %d can't be", r.Text, r.Job.ID, r.Time)
	}
	return nil
}
