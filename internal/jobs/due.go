package jobs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Never is the time of what is not going to happen.
const Never = math.MaxInt64

const expiredText = "the lease ran out"

// Dues is what Due has done.
type Dues struct {
	Did     int   // things of all kinds
	Ready   int   // jobs that may have become ready
	Expired int   // leases that were over
	Dead    int   // jobs of these that have died
	Next    int64 // when the next thing is due: now or before if there is more of it

	// NextReady is when the next job may become ready, as Next: until this is later than now, there may be jobs that
	// should be ready, and are before those that are.
	NextReady int64

	Aside []*AsideError // what can't be done

	bytes int // of payloads that were put
}

// AsideError is of one thing that can't be read or done, as what is stored of it is corrupt, or its time zone is not known
// here. It is left where it is, and others are done. What is due is tried again later.
type AsideError struct {
	Entry []byte // its key in an index, or another one
	Err   error
}

func (e *AsideError) Error() string { return fmt.Sprintf("what is stored can't be used: %v", e.Err) }

// Unwrap returns why it can't be done.
func (e *AsideError) Unwrap() error { return e.Err }

// aside tells of what can't be read, and whether an error is of that: others go on. Nothing has been written for it.
func (q *Queue) aside(entry []byte, err error) bool {
	if !isCorrupt(err) {
		return false
	}
	if q.config.Aside != nil {
		q.config.Aside(&AsideError{entry, err})
	}
	return true
}

// unwritten is an error of what has written nothing.
type unwritten struct{ error }

func (u unwritten) Unwrap() error { return u.error }

// asideAgain is when what was set aside is tried again, in microseconds.
const asideAgain = 60_000_000

// dueBytes is how many bytes of payloads one transaction puts, and one job more.
func (q *Queue) dueBytes() int {
	const most = 1 << 20
	if q.limits.Transaction == 0 {
		return most
	}
	return min(most, q.limits.Transaction/4)
}

// maxForgotten is how many things Due forgets of each kind at most: nobody waits for that.
const maxForgotten = 64

// Due does what it is time for, up to limit things of each kind and what the transaction has room for: scheduled
// jobs become ready, leases that are over end, periodic jobs are put, and what was kept long enough goes. What can't be done is set
// aside. If that was found after something was written, the error is an *AsideError: the transaction must not commit, and
// another one is to go without that entry.
func (q *Queue) Due(tx kv.Tx, now int64, limit int, without ...[]byte) (d Dues, err error) {
	d.Next = Never
	first, rest := q.dueKinds()
	for _, kind := range first {
		if err := q.dueOf(tx, kind, now, limit, without, &d); err != nil {
			return d, err
		}
	}
	if err := q.wakeLate(tx, now, limit, without, &d); err != nil {
		return d, err
	}
	d.NextReady = d.Next
	for _, kind := range rest {
		if err := q.dueOf(tx, kind, now, min(limit, maxForgotten), without, &d); err != nil {
			return d, err
		}
	}
	if len(d.Aside)+len(without) > 0 {
		d.Next = min(d.Next, now+asideAgain)
	}
	return d, nil
}

// dueKind is one kind of things that become due, in an index that begins with their times.
type dueKind struct {
	index      []byte
	state      State // of its jobs, or 0 if these are not of jobs
	late       int64 // how much later than its time it is due
	operations int   // that one takes at most
	do         func(tx kv.Tx, entry []byte, j *Job, now int64, d *Dues) error
}

// dueKinds returns those by which jobs become ready, and the others.
func (q *Queue) dueKinds() (first, rest []dueKind) {
	first = []dueKind{
		{q.indexes[Scheduled], Scheduled, 0, startOperations, q.comeDue}, {q.indexes[Leased], Leased, q.config.Skew, verbOperations, q.expire},
		{q.ticks, 0, 0, verbOperations + putOperations, q.tick}, {q.wakes, 0, 0, verbOperations, q.wakeUp},
	}
	return first, []dueKind{{q.indexes[Done], Done, 0, startOperations, q.forget}, {q.ends, 0, 0, startOperations, q.endOf}}
}

// dueReads are what a Due begins with that finds nothing due.
func (q *Queue) dueReads(limit int) []kv.Read {
	reads := []kv.Read{{Range: rangeOf(q.wakes), Options: kv.RangeOptions{Limit: limit + 1, Reverse: true, KeysOnly: true}}}
	first, rest := q.dueKinds()
	for i, kind := range append(first, rest...) {
		if i == len(first) {
			limit = min(limit, maxForgotten)
		}
		reads = append(reads, kv.Read{Range: rangeOf(kind.index), Options: kv.RangeOptions{Limit: limit + 1}})
	}
	return reads
}

func (q *Queue) dueOf(tx kv.Tx, kind dueKind, now int64, limit int, without [][]byte, d *Dues) error {
	over := rangeOf(kind.index)
	for n, more := 0, true; more; {
		var some []dueEntry
		read := 0
		for entry, err := range tx.Snapshot().Range(over, kv.RangeOptions{Limit: limit + 1}) {
			if err != nil {
				return err
			}
			read++
			over.Begin = kv.After(entry.Key)
			at, err := timeOf(kind.index, entry.Key)
			if err != nil {
				d.Aside = append(d.Aside, &AsideError{entry.Key, err})
				continue
			}
			if at += kind.late; at > now {
				d.Next = min(d.Next, at)
				read = 0 // and none behind it is due
				break
			}
			if !isIn(without, entry.Key) {
				some = append(some, dueEntry{entry: entry.Key, at: at})
			}
		}
		more = read > limit // some were set aside
		for len(some) > 0 {
			part := some[:budget.Count(tx, kind.operations, len(some))]
			some = some[len(part):]
			if done, err := q.dueSome(tx, kind, now, limit, part, &n, d); err != nil || !done {
				return err
			}
		}
	}
	return nil
}

// dueEntry is an entry that is due, with its job, if it is of one.
type dueEntry struct {
	entry []byte
	at    int64
	job   *Job
	err   error // of loading it
}

// dueSome does what some entries are for, of which n were done before, and tells whether there was room for all.
func (q *Queue) dueSome(tx kv.Tx, kind dueKind, now int64, limit int, some []dueEntry, n *int, d *Dues) (bool, error) {
	if err := q.loadDue(tx, kind, some); err != nil {
		return false, err
	}
	for _, e := range some {
		if *n == limit || d.bytes > q.dueBytes() || d.Did > 0 && !q.smallFits(tx, kind.operations) {
			d.Next = min(d.Next, e.at)
			return false, nil
		}
		err := e.err
		if err == nil {
			err = kind.do(tx, e.entry, e.job, now, d)
		}
		done, err := d.done(e.entry, err)
		if err != nil {
			return false, err
		}
		if done {
			*n++
			d.Did++
		}
	}
	return true, nil
}

// loadDue loads the jobs of entries, before anything is written for them.
func (q *Queue) loadDue(tx kv.Tx, kind dueKind, some []dueEntry) error {
	var entries [][]byte
	var loaded []*Job
	for _, e := range some {
		entries = append(entries, e.entry)
	}
	if kind.state == 0 {
		q.expectTexts(tx, kind.index, entries)
		return nil
	}
	having, err := q.loading(tx, kind.state, entries, 0)
	if err != nil {
		return err
	}
	for i := range some {
		e := &some[i]
		if e.job, e.err = having.loadIn(tx, kind.state, e.entry); isCorrupt(e.err) {
			e.err = unwritten{e.err}
		}
		if e.err == nil {
			loaded = append(loaded, e.job)
		}
	}
	q.expectKeyed(tx, loaded, 0)
	return nil
}

func isIn(keys [][]byte, key []byte) bool {
	return slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) })
}

// done tells whether a thing was done, or was set aside. Another error ends the transaction.
func (d *Dues) done(entry []byte, err error) (bool, error) {
	if err == nil {
		return true, nil
	}
	if before := (unwritten{}); errors.As(err, &before) {
		d.Aside = append(d.Aside, &AsideError{entry, before.error})
		return false, nil
	}
	if isCorrupt(err) {
		return false, &AsideError{entry, err}
	}
	return false, err
}

// NextDue returns when the next thing is due, through a snapshot, and whether there are periodic jobs.
func (q *Queue) NextDue(r kv.Reader, now int64) (next int64, ticks bool, err error) {
	q.expectNextDue(r)
	if q, err = q.At(r); err != nil {
		return 0, false, err
	}
	next = Never
	first, rest := q.dueKinds()
	for _, kind := range append(first, rest...) {
		for entry, err := range r.Snapshot().Range(rangeOf(kind.index), kv.RangeOptions{Limit: 1, KeysOnly: true}) {
			if err != nil {
				return 0, false, err
			}
			at, err := timeOf(kind.index, entry.Key)
			if err == nil { // else it is set aside
				next = min(next, at+kind.late)
			}
			ticks = ticks || bytes.Equal(kind.index, q.ticks)
		}
	}
	for entry, err := range r.Snapshot().Range(rangeOf(q.wakes), kv.RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}) {
		if err != nil {
			return 0, false, err
		}
		if at, err := timeOf(q.wakes, entry.Key); err == nil && at > q.lastWake(now) {
			next = min(next, now) // see wakeLate
		}
	}
	return next, ticks, nil
}

// expectNextDue has what NextDue reads asked for.
func (q *Queue) expectNextDue(r kv.Reader) {
	if !q.far() {
		return
	}
	reads := []kv.Read{{Range: rangeOf(q.wakes), Options: kv.RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}}}
	first, rest := q.dueKinds()
	for _, kind := range append(first, rest...) {
		reads = append(reads, kv.Read{Range: rangeOf(kind.index), Options: kv.RangeOptions{Limit: 1, KeysOnly: true}})
	}
	kv.Prefetch(r, reads...)
}

// wakeUp lets in blocked jobs of a key whose rate has room.
func (q *Queue) wakeUp(tx kv.Tx, entry []byte, _ *Job, now int64, d *Dues) error {
	elems, err := tuple.Unpack(entry[len(q.wakes):])
	var key string
	if err != nil || len(elems) != 2 || !texts(elems[1:], &key) {
		return unwritten{corrupt(entry, "it is no time of a key")}
	}
	s, err := q.loadSlots(tx, key)
	if isCorrupt(err) {
		return unwritten{err}
	}
	if err != nil {
		return err
	}
	if s.wake != elems[0] {
		tx.Clear(entry)
		return nil
	}
	if err := q.letIn(tx, key, &s, now); err != nil {
		return err
	}
	q.saveSlots(tx, key, s)
	if s.wake > 0 {
		d.Next = min(d.Next, s.wake)
	}
	d.Ready++
	return nil
}

// wakeLate is for keys that were to be looked at later than their rate can say by now: the clock was set back, or the rate
// is another one.
func (q *Queue) wakeLate(tx kv.Tx, now int64, limit int, without [][]byte, d *Dues) error {
	last, n := q.lastWake(now), 0
	var late [][]byte
	for entry, err := range tx.Snapshot().Range(rangeOf(q.wakes), kv.RangeOptions{Limit: limit + 1, Reverse: true, KeysOnly: true}) {
		if err != nil {
			return err
		}
		at, err := timeOf(q.wakes, entry.Key)
		if err != nil || isIn(without, entry.Key) {
			continue // it is set aside
		}
		if at <= last {
			break
		}
		if n++; n > limit {
			d.Next = now
			break
		}
		late = append(late, entry.Key)
	}
	for _, entry := range late {
		if d.Did > 0 && !q.Fits(tx) {
			d.Next = now
			break
		}
		if _, err := d.done(entry, q.wakeUp(tx, entry, nil, now, d)); err != nil {
			return err
		}
		d.Did++
	}
	return nil
}

func (q *Queue) comeDue(tx kv.Tx, _ []byte, j *Job, now int64, d *Dues) error {
	d.Ready++
	q.leave(tx, j)
	return q.admit(tx, j, now)
}

// expire ends a lease that is over: its job is tried again, or dead after its last attempt.
func (q *Queue) expire(tx kv.Tx, _ []byte, j *Job, now int64, d *Dues) error {
	d.Ready++ // if it dies, its slot may have made another one ready
	d.Expired++
	dead, err := q.endLease(tx, j, now, expiredText)
	if dead {
		d.Dead++
	}
	return err
}

func (q *Queue) endLease(tx kv.Tx, j *Job, now int64, reason string) (dead bool, err error) {
	q.recall(tx, j)
	j.fail(now, reason)
	j.Expiries++
	if j.Cancelled || q.wasLast(j) {
		return true, q.bury(tx, j, now)
	}
	return false, q.again(tx, j, now, 0)
}

const endedText = "an operator has ended the lease"

// EndLease ends the lease of a job, as if it had run out now.
func (q *Queue) EndLease(tx kv.Tx, id, now int64) error {
	j, err := q.Load(tx, id)
	if err != nil {
		return err
	}
	if j.State != Leased {
		return fmt.Errorf("%w: job %d is %v: only a leased one has a lease to end", ErrState, id, j.State)
	}
	_, err = q.endLease(tx, j, now, endedText)
	return err
}

// forget removes a job that is done.
func (q *Queue) forget(tx kv.Tx, _ []byte, j *Job, now int64, _ *Dues) error {
	return q.remove(tx, j, now)
}

// What an entry of ends is about.
const (
	endsClaim int64 = iota // of a job that is gone
	endsRate               // of a key without jobs
)

func (k *keys) endKey(at, kind int64, text string) []byte {
	return withString(withInts(k.ends, at, kind), text)
}

// endOf ends a claim that has outlived its job, or forgets a key that has no jobs. Either may have
// been renewed since the entry was made.
func (q *Queue) endOf(tx kv.Tx, entry []byte, _ *Job, now int64, _ *Dues) error {
	end, err := q.parseEnd(entry)
	if err != nil {
		return unwritten{err}
	}
	text := end.text
	tx.Clear(entry)
	if end.kind == endsRate {
		s, err := q.loadSlots(tx, text)
		if err == nil && s.used == 0 && s.wake == 0 && s.next <= now {
			tx.Clear(withString(q.slots, text))
		}
		return err
	}
	key := withString(q.claims, text)
	value, err := tx.Get(key)
	if err != nil || value == nil {
		return err
	}
	var id, until int64
	if err := decodeInts(key, value, &id, &until); err != nil {
		return err
	}
	if end.at == until {
		tx.Clear(key)
	}
	return nil
}

// end is an entry of ends.
type end struct {
	at, kind int64
	text     string
}

func (q *Queue) parseEnd(entry []byte) (e end, err error) {
	elems, err := tuple.Unpack(entry[len(q.ends):])
	if err != nil || len(elems) != 3 || !texts(elems[2:], &e.text) {
		return e, corrupt(entry, "it is no end of a claim or a key")
	}
	e.at, _ = elems[0].(int64)
	e.kind, _ = elems[1].(int64)
	return e, nil
}
