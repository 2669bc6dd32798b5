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
	Job     New // At and Findable are not used

	Overlap Overlap
	Last    int64 // the id of the job that was put last; 0 if there was none
	LastPut int64 // when that was: in another store the id may be some other job's

	corrupt error // of one that can't be read, of which the name alone is known
}

// Overlap is what a tick does while the job of the last one is neither done nor dead.
type Overlap int64

// The overlaps.
const (
	RunToo  Overlap = iota // put one more
	Skip                   // put none
	Replace                // delete it, or cancel it if it is leased, and put one
)

const periodicFormat = 2

// ints are the integers of what is stored, but for the format. Those of format 1 come first.
func (p *Periodic) ints() []*int64 {
	return []*int64{
		&p.Next, &p.MaxLate, &p.Job.Priority, &p.Job.MaxAttempts, &p.Job.Lease,
		&p.Job.UniqueFor, &p.Job.Timeout, (*int64)(&p.Overlap), &p.Last, &p.LastPut,
	}
}

func (p *Periodic) encode() []byte {
	b := withInts(nil, periodicFormat)
	for _, i := range p.ints() {
		b = tuple.AppendInt(b, *i)
	}
	for _, text := range []string{p.Spec, p.Job.Key, p.Job.Unique} {
		b = tuple.AppendString(b, text)
	}
	b, err := tuple.Tuple{packMeta(p.Job.Meta), p.Job.Payload}.Append(b)
	if err != nil {
		panic("jobs: text that is not UTF-8 was not refused: " + err.Error())
	}
	return b
}

func decodePeriodic(key []byte, name string, b []byte) (*Periodic, error) {
	p := &Periodic{Name: name}
	format, b, ok := tuple.NextInt(b)
	ints, texted := p.ints(), []*string{&p.Spec, &p.Job.Key, &p.Job.Unique}
	switch {
	case !ok:
		return nil, corrupt(key, "it is no periodic job")
	case format == 1:
		ints, texted = ints[:5], texted[:2]
	case format != periodicFormat:
		return nil, corrupt(key, "it has format %d, this version of conq knows %d", format, periodicFormat)
	}
	for _, i := range ints {
		if *i, b, ok = tuple.NextInt(b); !ok {
			return nil, corrupt(key, "it is no periodic job")
		}
	}
	elems, err := tuple.Unpack(b)
	n := len(texted)
	if err != nil || len(elems) != n+int(format) || !texts(elems[:n], texted...) {
		return nil, corrupt(key, "it is no periodic job")
	}
	if format > 1 {
		meta, ok := elems[n].(tuple.Tuple)
		if p.Job.Meta, err = unpackMeta(meta); err != nil || !ok {
			return nil, corrupt(key, "its metadata are not pairs of strings")
		}
	}
	if p.Job.Payload, ok = elems[len(elems)-1].([]byte); !ok {
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
	if err != nil && !isCorrupt(err) {
		return err
	}
	tx.Clear(withString(q.periodic, name))
	if err == nil { // else its tick is set aside
		tx.Clear(q.tickKey(p))
	}
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

// HasPeriodic tells whether the queue has a periodic job, or something in the place of one.
func (q *Queue) HasPeriodic(r kv.Reader) (bool, error) {
	for _, err := range r.Snapshot().Range(rangeOf(q.periodic), kv.RangeOptions{Limit: 1, KeysOnly: true}) {
		return err == nil, err
	}
	return false, nil
}

// Periodics returns all periodic jobs of the queue, by name. Those that can't be read are in Trouble.
func (q *Queue) Periodics(r kv.Reader) (all []*Periodic, err error) {
	for pair, err := range r.Snapshot().Range(rangeOf(q.periodic), kv.RangeOptions{}) {
		if err != nil {
			return nil, err
		}
		elems, err := tuple.Unpack(pair.Key[len(q.periodic):])
		var name string
		if err != nil || len(elems) != 1 || !texts(elems, &name) {
			q.aside(pair.Key, corrupt(pair.Key, "it is not the name of a periodic job"))
			continue
		}
		p, err := decodePeriodic(pair.Key, name, pair.Value)
		if err != nil {
			p = &Periodic{Name: name, corrupt: err}
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
	p.Last, p.LastPut = old.Last, old.LastPut
	switch {
	case old.Spec == p.Spec && !q.isAhead(p, old.Next, now):
		p.Next = old.Next
	case old.Spec != p.Spec && old.Next <= now:
		if _, err := q.putTick(tx, p, old.Next, now); err != nil {
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
	if p.corrupt != nil {
		return p.corrupt
	}
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
func (q *Queue) tick(tx kv.Tx, entry []byte, _ *Job, now int64, d *Dues) error {
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
	put, err := q.putTick(tx, p, at, now)
	if err != nil {
		return err
	}
	tx.Clear(entry)
	p.Next = next
	q.savePeriodic(tx, p)
	if put {
		d.Ready++
		d.bytes += len(p.Job.Payload)
	}
	return nil
}

// putTick puts the job of a tick, and notes it as the last one, unless it is too late for that, a duplicate, or left out as the job of
// the last tick is there.
func (q *Queue) putTick(tx kv.Tx, p *Periodic, at, now int64) (put bool, err error) {
	if p.MaxLate > 0 && now-at > p.MaxLate {
		return false, nil
	}
	if p.Overlap != RunToo {
		last, err := q.unfinished(tx, p)
		switch {
		case err != nil || last != nil && p.Overlap == Skip:
			return false, err
		case last != nil && last.State == Leased:
			err = q.Cancel(tx, last.ID, now)
		case last != nil:
			err = q.remove(tx, last, now)
		}
		if err != nil {
			return false, err
		}
	}
	err = q.putLast(tx, p, now)
	if isDuplicate(err) {
		return false, nil
	}
	return err == nil, err
}

// unfinished returns the job that a periodic one has put last, or nil if it is done, dead or gone, or can't be read.
func (q *Queue) unfinished(tx kv.Tx, p *Periodic) (*Job, error) {
	j, err := q.Load(tx, p.Last)
	if err == ErrNotFound || q.PassOver(p.Last, err) || err == nil && (j.Created != p.LastPut || j.State == Dead || j.State == Done) {
		return nil, nil
	}
	return j, err
}

// putLast puts the job of a periodic one, and notes it as the last one.
func (q *Queue) putLast(tx kv.Tx, p *Periodic, now int64) error {
	j, err := q.Put(tx, q.Places(), now, &p.Job)
	if err == nil {
		p.Last, p.LastPut = j.ID, j.Created
	}
	return err
}

// RunNow puts a periodic job at once, and returns its id; when it is due next does not change. That one of the last tick is there does not matter,
// but a job that is a duplicate is a *Duplicate.
func (q *Queue) RunNow(tx kv.Tx, name string, now int64) (id int64, err error) {
	p, err := q.loadPeriodic(tx, name)
	if err == nil {
		err = q.putLast(tx, p, now)
	}
	if err != nil {
		return 0, err
	}
	tx.Set(withString(q.periodic, p.Name), p.encode())
	return p.Last, nil
}
