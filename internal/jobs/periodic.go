package jobs

import (
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/budget"
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
	tx.Set(q.tickKey(p), nil)
	q.soon(tx, p.Next)
}

// RemovePeriodic removes a periodic job. Jobs that it has put stay. The error is an ErrNotFound if there is none.
func (q *Queue) RemovePeriodic(tx kv.Tx, name string) error {
	p, err := q.loadPeriodic(tx, name)
	if err != nil {
		return err
	}
	tx.Clear(withString(q.periodic, name))
	tx.Clear(q.tickKey(p))
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

// Every makes a periodic job, or changes the one of that name: with the same specification it stays due when it was, and
// with another one a tick is made that was due by now. A time that is too far away, as the clock of who set it was
// ahead, is corrected. Its Next is set.
func (q *Queue) Every(tx kv.Tx, p *Periodic, now int64) error {
	next, err := q.config.NextTick(p.Spec, now)
	if err != nil {
		return err
	}
	p.Next = next
	old, err := q.loadPeriodic(tx, p.Name)
	switch {
	case err == nil:
	case err == ErrNotFound || isCorrupt(err): // the tick of one that can't be read is set aside
		q.savePeriodic(tx, p)
		return nil
	default:
		return err
	}
	switch {
	case old.Spec == p.Spec && !q.isAhead(p, old.Next, now):
		p.Next = old.Next
	case old.Spec != p.Spec && old.Next <= now:
		if err := q.putTick(tx, p, old.Next, now); err != nil {
			return err
		}
	}
	tx.Clear(q.tickKey(old))
	q.savePeriodic(tx, p)
	return nil
}

// isAhead tells whether a tick is further away than a period after the next one: the clock was ahead as it was set.
func (q *Queue) isAhead(p *Periodic, tick, now int64) bool {
	next, err := q.config.NextTick(p.Spec, now)
	if err != nil || tick <= next {
		return false
	}
	second, err := q.config.NextTick(p.Spec, next)
	return err == nil && tick-q.config.Skew > second
}

// Heal corrects periodic jobs that are due too far away, as the clock of who set that was ahead. It looks at up to limit of
// them, behind the one of that name, and returns the names of those that it has corrected, and of the last, or "" at the end.
func (q *Queue) Heal(tx kv.Tx, now int64, after string, limit int) (healed []string, last string, err error) {
	over := rangeOf(q.periodic)
	if after != "" {
		over.Begin = kv.After(withString(q.periodic, after))
	}
	n := 0
	for pair, err := range tx.Snapshot().Range(over, kv.RangeOptions{Limit: limit}) {
		if err != nil {
			return nil, "", err
		}
		n++
		name, err := textOf(q.periodic, pair.Key)
		if err != nil {
			continue // conq check tells of it
		}
		if len(healed) > 0 && !budget.Fits(tx, 8, keysBytes+len(pair.Value)) {
			n = limit // there are more
			break
		}
		last = name
		p, err := decodePeriodic(pair.Key, name, pair.Value)
		if err != nil || !q.isAhead(p, p.Next, now) {
			continue
		}
		if p, err = q.loadPeriodic(tx, name); err != nil { // now it conflicts
			return nil, "", err
		}
		tx.Clear(q.tickKey(p))
		if p.Next, err = q.config.NextTick(p.Spec, now); err != nil {
			return nil, "", err
		}
		q.savePeriodic(tx, p)
		healed = append(healed, name)
	}
	if n < limit {
		last = ""
	}
	return healed, last, nil
}

// Trouble returns what is wrong with a periodic job as of now, or nil: its specification can't be read here, or it is due
// too far away.
func (q *Queue) Trouble(p *Periodic, now int64) error {
	next, err := q.config.NextTick(p.Spec, now)
	if err == nil && q.isAhead(p, p.Next, now) {
		const form = "2006-01-02 15:04:05Z"
		err = fmt.Errorf("it would be due at %s: the clock was ahead when that was set", time.UnixMicro(next).UTC().Format(form))
	}
	return err
}

func (q *Queue) tickKey(p *Periodic) []byte { return withString(withInts(q.ticks, p.Next), p.Name) }

// tick puts a periodic job, and sets when it is due next. That is one transaction, which reads the
// periodic job: so each tick makes one job, however many processes see it.
func (q *Queue) tick(tx kv.Tx, entry []byte, now int64, d *Dues) error {
	elems, err := tuple.Unpack(entry[len(q.ticks):])
	if err != nil || len(elems) != 2 {
		return unwritten{corrupt(entry, "it is no tick of a periodic job")}
	}
	at, _ := elems[0].(int64)
	name, _ := elems[1].(string)
	p, err := q.loadPeriodic(tx, name)
	if err == ErrNotFound || isCorrupt(err) || err == nil && p.Next != at {
		return unwritten{corrupt(entry, "the periodic job %q is not due then (%v)", name, err)}
	}
	if err != nil {
		return err
	}
	next, err := q.config.NextTick(p.Spec, at)
	if err == nil && next <= now { // more than one was missed
		next, err = q.config.NextTick(p.Spec, now)
	}
	if err != nil {
		return unwritten{fmt.Errorf("periodic job %q: %w", name, err)}
	}
	if err := q.putTick(tx, p, at, now); err != nil {
		return err
	}
	tx.Clear(entry)
	p.Next = next
	q.savePeriodic(tx, p)
	d.Ready++
	d.bytes += len(p.Job.Payload)
	return nil
}

// putTick puts the job of a tick, unless it is too late for that.
func (q *Queue) putTick(tx kv.Tx, p *Periodic, at, now int64) error {
	if p.MaxLate > 0 && now-at > p.MaxLate {
		return nil
	}
	_, err := q.Put(tx, q.Places(), now, &p.Job)
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
