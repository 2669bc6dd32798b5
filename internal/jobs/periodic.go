package jobs

import (
	"fmt"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// NextTick returns when a periodic job with that specification is due next after a time.
type NextTick func(spec string, after int64) (int64, error)

// Periodic is a job that is put again and again.
type Periodic struct {
	Name string
	Spec string // what NextTick understands
	Next int64
	// MaxLate is how late a tick may be made up that nobody was there for: one job for all that were
	// missed. 0 is any time.
	MaxLate int64
	Job     New // At, Unique and Meta are not used
}

const periodicFormat = 1

func (p *Periodic) encode() []byte {
	b := withInts(nil, periodicFormat, p.Next, p.MaxLate, p.Job.Priority, p.Job.MaxAttempts, p.Job.Lease)
	b = tuple.AppendString(b, p.Spec)
	b = tuple.AppendString(b, p.Job.Key)
	return tuple.AppendBytes(b, p.Job.Payload)
}

func decodePeriodic(key []byte, name string, b []byte) (*Periodic, error) {
	p := &Periodic{Name: name}
	var format int64
	ok := true
	for _, i := range []*int64{&format, &p.Next, &p.MaxLate, &p.Job.Priority, &p.Job.MaxAttempts, &p.Job.Lease} {
		if *i, b, ok = tuple.NextInt(b); !ok {
			return nil, corrupt(key, "it is no periodic job")
		}
	}
	if format != periodicFormat {
		return nil, corrupt(key, "it has format %d, this version of conq knows %d", format, periodicFormat)
	}
	elems, err := tuple.Unpack(b)
	if err != nil || len(elems) != 3 || !texts(elems[:2], &p.Spec, &p.Job.Key) {
		return nil, corrupt(key, "it is no periodic job")
	}
	if p.Job.Payload, ok = elems[2].([]byte); !ok {
		return nil, corrupt(key, "its payload is not a byte string")
	}
	return p, nil
}

// SetPeriodic makes or replaces a periodic job. Its Next must be set.
func (q *Queue) SetPeriodic(tx kv.Tx, p *Periodic) error {
	if err := q.RemovePeriodic(tx, p.Name); err != nil && err != ErrNotFound {
		return err
	}
	q.savePeriodic(tx, p)
	return nil
}

func (q *Queue) savePeriodic(tx kv.Tx, p *Periodic) {
	tx.Set(withString(q.periodic, p.Name), p.encode())
	tx.Set(withString(withInts(q.ticks, p.Next), p.Name), nil)
}

// RemovePeriodic removes a periodic job. Jobs that it has put stay. The error is an ErrNotFound if there is none.
func (q *Queue) RemovePeriodic(tx kv.Tx, name string) error {
	p, err := q.loadPeriodic(tx, name)
	if err != nil {
		return err
	}
	tx.Clear(withString(q.periodic, name))
	tx.Clear(withString(withInts(q.ticks, p.Next), name))
	return nil
}

func (q *Queue) loadPeriodic(r kv.Reader, name string) (*Periodic, error) {
	key := withString(q.periodic, name)
	value, err := r.Get(key)
	switch {
	case err != nil:
		return nil, err
	case value == nil:
		return nil, ErrNotFound
	}
	return decodePeriodic(key, name, value)
}

// Periodics returns all periodic jobs of the queue, by name.
func (q *Queue) Periodics(r kv.Reader) (all []*Periodic, err error) {
	for pair, err := range r.Snapshot().Range(rangeOf(q.periodic), kv.RangeOptions{}) {
		if err != nil {
			return nil, err
		}
		elems, err := tuple.Unpack(pair.Key[len(q.periodic):])
		var name string
		if err != nil || len(elems) != 1 || !texts(elems, &name) {
			return nil, corrupt(pair.Key, "it is not the name of a periodic job")
		}
		p, err := decodePeriodic(pair.Key, name, pair.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// tick puts a periodic job, and sets when it is due next. That is one transaction, which reads the
// periodic job: so each tick makes one job, however many processes see it.
func (q *Queue) tick(tx kv.Tx, entry []byte, now int64, d *Dues) error {
	elems, err := tuple.Unpack(entry[len(q.ticks):])
	if err != nil || len(elems) != 2 {
		return corrupt(entry, "it is no tick of a periodic job")
	}
	at, _ := elems[0].(int64)
	name, _ := elems[1].(string)
	p, err := q.loadPeriodic(tx, name)
	if err != nil || p.Next != at {
		return corrupt(entry, "the periodic job %q is not due then (%v)", name, err)
	}
	next, err := q.config.NextTick(p.Spec, now)
	if err != nil {
		return fmt.Errorf("periodic job %q: %w", name, err)
	}
	tx.Clear(entry)
	p.Next = next
	q.savePeriodic(tx, p)
	if p.MaxLate > 0 && now-at > p.MaxLate {
		return nil
	}
	_, err = q.Put(tx, q.Places(), now, &p.Job)
	d.Ready++
	return err
}

// RunNow puts a periodic job at once; when it is due next does not change.
func (q *Queue) RunNow(tx kv.Tx, name string, now int64) (*Job, error) {
	p, err := q.loadPeriodic(tx, name)
	if err != nil {
		return nil, err
	}
	return q.Put(tx, q.Places(), now, &p.Job)
}
