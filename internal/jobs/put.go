package jobs

import (
	"errors"
	"fmt"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// New is a job to be put.
type New struct {
	Payload     []byte
	Priority    int64
	At          int64 // not before; 0 is now
	Key         string
	Unique      string
	UniqueFor   int64
	MaxAttempts int64 // 0 is as the queue says, -1 without end
	Lease       int64
	Timeout     int64 // of each attempt, as that of a Job
	Meta        map[string]string
	Findable    bool
}

// Duplicate is the error of a job that is unique, and there already.
type Duplicate struct {
	ID     int64 // of the first one
	Unique string
}

func (d *Duplicate) Error() string {
	return fmt.Sprintf("%v: job %d has %q", ErrDuplicate, d.ID, d.Unique)
}

// Is makes it an ErrDuplicate.
func (d *Duplicate) Is(target error) bool { return target == ErrDuplicate }

// Places gives jobs their places in one transaction: behind the last ready one of their
// priority, and not before the time, so that a job that comes back is ahead of those that came after it.
type Places struct {
	q    *Queue
	last map[int64]int64
}

// Places begins a transaction that puts jobs.
func (q *Queue) Places() *Places { return &Places{q: q, last: make(map[int64]int64)} }

func (p *Places) next(tx kv.Tx, priority, now int64) (int64, error) {
	last, known := p.last[priority]
	if !known {
		ready := p.q.indexes[Ready]
		of := withInts(ready, priority)
		key, err := kvext.LastKey(tx.Snapshot(), rangeOf(of), rangeOf(ready))
		if err != nil {
			return 0, err
		}
		if key != nil {
			var ok bool
			if last, _, ok = tuple.NextInt(key[len(of):]); !ok {
				p.q.aside(key, corrupt(key, "it has no place"))
			}
		}
	}
	last = max(last+1, now)
	p.last[priority] = last
	return last, nil
}

// Put adds a job. The error is a *Duplicate if it is unique and there already; then, as with any
// other error, it has written nothing.
func (q *Queue) Put(tx kv.Tx, places *Places, now int64, n *New) (*Job, error) {
	if n.Unique != "" {
		if err := q.checkClaim(tx, n.Unique, now); err != nil {
			return nil, err
		}
	}
	place, err := places.next(tx, n.Priority, now)
	if err != nil {
		return nil, err
	}
	id, err := q.config.NewID(tx.Context())
	if err != nil {
		return nil, err
	}
	j := &Job{
		ID: id, Priority: n.Priority, Place: place, Created: now,
		Key: n.Key, Unique: n.Unique, UniqueFor: n.UniqueFor, Meta: n.Meta,
		MaxAttempts: n.MaxAttempts, Lease: n.Lease, Timeout: n.Timeout, Findable: n.Findable,
		History: History{Delay: max(0, n.At-now)},
	}
	if j.Findable {
		tx.Set(FindKey(id), q.name)
	}
	q.setPayload(tx, j, n.Payload)
	if n.Unique != "" {
		q.claim(tx, j)
	}
	return j, q.admitAt(tx, j, now, n.At)
}

// checkClaim returns a *Duplicate if the claim is taken.
func (q *Queue) checkClaim(r kv.Reader, unique string, now int64) error {
	key := withString(q.claims, unique)
	value, err := r.Get(key)
	if err != nil || value == nil {
		return err
	}
	var id, until int64
	if err := decodeInts(key, value, &id, &until); err != nil {
		return err
	}
	if until > 0 && until <= now {
		return nil // its job is gone
	}
	return &Duplicate{ID: id, Unique: unique}
}

// mayRevive returns a *Duplicate if a job that is dead can't be tried again, as another one has its claim by now.
func (q *Queue) mayRevive(r kv.Reader, j *Job, now int64) error {
	if j.Unique == "" || j.State != Dead {
		return nil
	}
	if err := q.checkClaim(r, j.Unique, now); !isDuplicateOf(err, j.ID) {
		return err
	}
	return nil
}

// revive has a job that is dead hold its claim again. It may be revived.
func (q *Queue) revive(tx kv.Tx, j *Job) {
	if j.Unique != "" && j.State == Dead {
		q.claim(tx, j)
		j.Claims = false
	}
}

// claim makes a claim that lasts as long as its job.
func (q *Queue) claim(tx kv.Tx, j *Job) {
	tx.Set(withString(q.claims, j.Unique), withInts(nil, j.ID, 0))
}

// endClaim ends the claim of a job, or has it last until the end of its UniqueFor.
func (q *Queue) endClaim(tx kv.Tx, j *Job, now int64) {
	if j.Unique == "" {
		return
	}
	key := withString(q.claims, j.Unique)
	until := j.Created + j.UniqueFor
	if until <= now {
		tx.Clear(key)
		return
	}
	tx.Set(key, withInts(nil, j.ID, until))
	tx.Set(q.endKey(until, endsClaim, j.Unique), nil)
}

func isDuplicate(err error) bool {
	var d *Duplicate
	return errors.As(err, &d)
}

func isDuplicateOf(err error, id int64) bool {
	var d *Duplicate
	return errors.As(err, &d) && d.ID == id
}
