package jobs

import (
	"fmt"
	"math/rand/v2"

	"github.com/conq-go/conq/kv"
)

// Reserved is a job with what it has to be done with.
type Reserved struct {
	*Job
	Payload []byte
	Since   int64 // when it became ready
}

// Request says what to reserve.
type Request struct {
	N        int
	MaxBytes int   // of payloads, of all but the first; 0 is any number
	Lease    int64 // of jobs that have none of their own
	Holder   string
	NewToken func() int64
}

// Reserve leases up to N ready jobs, the first ones. wake is when there may be more if it found
// fewer because of a rate: 0 is when something changes.
func (q *Queue) Reserve(tx kv.Tx, now int64, request Request) (got []Reserved, wake int64, err error) {
	n, wake, err := q.room(tx, now, request.N)
	if err != nil || n == 0 {
		return nil, wake, err
	}
	entries, err := q.candidates(tx, n)
	if err != nil {
		return nil, 0, err
	}
	bytes := 0
	for _, entry := range entries {
		j, err := q.loadIn(tx, Ready, entry.Key)
		if err != nil {
			return nil, 0, err
		}
		if waits, err := q.waitForRate(tx, j, now); err != nil {
			return nil, 0, err
		} else if waits {
			if wake == 0 || j.Time < wake {
				wake = j.Time
			}
			continue
		}
		payload, err := q.Payload(tx, j)
		if err != nil {
			return nil, 0, err
		}
		if bytes += len(payload); request.MaxBytes > 0 && bytes > request.MaxBytes && len(got) > 0 {
			break
		}
		since := j.since()
		q.lease(tx, j, now, request)
		if got = append(got, Reserved{j, payload, since}); len(got) == n {
			break
		}
	}
	return got, wake, q.started(tx, now, len(got))
}

// ReserveOne leases a job that is ready, scheduled or dead, whatever is before it. The error is an ErrState
// if it is in another state, or the queue or a limit does not let it start now.
func (q *Queue) ReserveOne(tx kv.Tx, id, now int64, request Request) (got Reserved, err error) {
	j, err := q.Load(tx, id)
	if err != nil {
		return got, err
	}
	if j.State != Ready && j.State != Scheduled && j.State != Dead {
		return got, fmt.Errorf("%w: job %d is %v: only one that is ready, scheduled or dead can be leased", ErrState, id, j.State)
	}
	n, _, err := q.room(tx, now, 1)
	if err != nil {
		return got, err
	}
	has := n > 0
	if has {
		has, err = q.takeSlot(tx, j)
	}
	switch {
	case err != nil:
		return got, err
	case !has: // nothing was written
		return got, fmt.Errorf("%w: job %d can't start now, as its queue is paused or a limit is reached", ErrState, id)
	}
	payload, err := q.Payload(tx, j)
	if err != nil {
		return got, err
	}
	if j.MaxAttempts > 0 {
		j.MaxAttempts = max(j.MaxAttempts, j.Attempts+1)
	}
	since := now
	if j.State == Ready {
		since = j.since()
	}
	q.lease(tx, j, now, request)
	return Reserved{j, payload, since}, q.started(tx, now, 1)
}

// Position is where a ready job is among others, also of other queues.
type Position struct{ Priority, Place, ID int64 }

// First returns the position of the first ready job, if there is one.
func (q *Queue) First(r kv.Reader) (p Position, found bool, err error) {
	for entry, err := range r.Range(rangeOf(q.indexes[Ready]), kv.RangeOptions{Limit: 1, KeysOnly: true}) {
		if err != nil {
			return p, false, err
		}
		return p, true, decodeInts(entry.Key, entry.Key[len(q.indexes[Ready]):], &p.Priority, &p.Place, &p.ID)
	}
	return p, false, nil
}

// ReadyBelow returns how many ready jobs have a priority below one, or limit if they are more, through a snapshot.
func (q *Queue) ReadyBelow(r kv.Reader, priority int64, limit int) (n int, err error) {
	below := rangeOf(q.indexes[Ready])
	below.End = withInts(q.indexes[Ready], priority)
	for _, err := range r.Snapshot().Range(below, kv.RangeOptions{Limit: limit, KeysOnly: true}) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (q *Queue) lease(tx kv.Tx, j *Job, now int64, request Request) {
	length := j.Lease
	if length == 0 {
		length = request.Lease
	}
	q.move(tx, j, Leased, func() {
		j.Token, j.Holder, j.Time = request.NewToken(), request.Holder, now+length
		j.Attempts++
		j.Paid = false
	})
}

// room returns how many of n jobs may be leased now, and when one more may where a rate
// is the reason that these are fewer.
func (q *Queue) room(tx kv.Tx, now int64, n int) (_ int, wake int64, err error) {
	if paused, err := q.Paused(tx); paused || err != nil {
		return 0, 0, err
	}
	if limit := q.config.Concurrency; limit > 0 {
		leased, err := loadInt(tx, q.leased)
		if err != nil {
			return 0, 0, err
		}
		n = int(min(int64(n), max(0, limit-leased)))
	}
	if q.config.Rate.limits() {
		arrival, err := loadInt(tx, q.rate)
		if err != nil {
			return 0, 0, err
		}
		n, wake, _ = q.config.Rate.allowed(arrival, now, n)
	}
	return n, wake, nil
}

// started accounts for n jobs that were leased.
func (q *Queue) started(tx kv.Tx, now int64, n int) error {
	if n == 0 {
		return nil
	}
	if q.config.Concurrency > 0 {
		leased, err := loadInt(tx, q.leased)
		if err != nil {
			return err
		}
		tx.Set(q.leased, withInts(nil, leased+int64(n)))
	}
	if q.config.Rate.limits() {
		arrival, err := loadInt(tx, q.rate)
		if err != nil {
			return err
		}
		_, _, keep := q.config.Rate.allowed(arrival, now, n)
		tx.Set(q.rate, withInts(nil, keep))
	}
	return nil
}

// waitForRate schedules a job that is over the rate of its key for when it may start. Its
// start is then accounted for, so that it does not wait twice.
func (q *Queue) waitForRate(tx kv.Tx, j *Job, now int64) (bool, error) {
	if j.Key == "" || j.Paid || !q.config.KeyRate.limits() {
		return false, nil
	}
	s, err := q.loadSlots(tx, j.Key)
	if err != nil {
		return false, err
	}
	var at int64
	at, s.next = q.config.KeyRate.start(s.next, now)
	q.saveSlots(tx, j.Key, s)
	if at <= now {
		return false, nil
	}
	q.move(tx, j, Scheduled, func() { j.Time, j.Paid = at, true })
	return true, nil
}

// spread is from how many of the first jobs a relaxed order chooses.
const spread = 256

// overlooked is how many jobs one Reserve reads more than it was asked for, as some may have to wait
// for the rate of their key.
const overlooked = 64

// candidates returns the first ready entries, of which the caller takes up to n. Those of a relaxed order begin at a
// random one of the first. Where other processes share the store they are read through a snapshot: the jobs' headers
// conflict, and the reservation counts as done at the version that it has read, as a take does (docs/concurrency.md).
func (q *Queue) candidates(tx kv.Tx, n int) (entries []kv.KeyValue, err error) {
	limit := n
	if q.config.KeyRate.limits() {
		limit += overlooked
	}
	most, r := limit, kv.Reader(tx)
	if q.config.Relaxed {
		most += spread
	}
	if q.config.Relaxed || q.limits.Shared {
		r = tx.Snapshot()
	}
	ready := rangeOf(q.indexes[Ready])
	for entry, err := range r.Range(ready, kv.RangeOptions{Limit: most}) {
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	if len(entries) == 0 && q.config.Relaxed {
		tx.AddReadConflict(ready) // a caller is told that there is nothing
	}
	if q.config.Relaxed {
		entries = entries[rand.IntN(max(1, len(entries)-limit)):]
	}
	return entries, nil
}
