package jobs

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/conq-go/conq/kv"
)

// Reserved is a job with what it has to be done with.
type Reserved struct {
	*Job
	Payload []byte
	Since   int64 // when it became ready
	Length  int64 // of the lease
	Timeout int64 // of the attempt; 0 is without limit

	// End is when the lease is over by the monotonic clock of this process, if that is known. It is of those who reserve.
	End time.Time
}

// Request says what to reserve.
type Request struct {
	N        int
	MaxBytes int   // of payloads, of all but the first; 0 is any number
	Lease    int64 // of jobs that have none of their own
	Holder   string
	NewToken func() int64
	Opening  int64             // of the store, where one process has it; else 0
	Terms    func(i int) Terms // of the i-th job that is leased; may be nil
	Start    Start
}

// Terms are what one caller wants for its jobs.
type Terms struct {
	Lease  int64  // whatever the jobs say; 0 is as they, or the queue, say
	Holder string // "" is that of the request
	Runner bool   // it is a runner of this process: when that is gone, nobody has the job
}

// Found is what Reserve has leased.
type Found struct {
	Jobs []Reserved
	More bool // there are more ready jobs to look at, for which this transaction has no room
}

// maxMoved is how many jobs one Reserve moves out of the way that may not start.
const maxMoved = 500

// Reserve leases up to N ready jobs, the first ones. Ready jobs may start: those whose key is over its rate are blocked.
// Only where the rate was changed meanwhile there are others, which Reserve blocks.
func (q *Queue) Reserve(tx kv.Tx, now int64, request Request) (f Found, err error) {
	room, err := q.room(tx, now, request.N)
	if err != nil || room.n == 0 {
		return f, err
	}
	r := reservation{q: q, tx: tx, now: now, request: request}
	for from := []byte(nil); len(r.got) < room.n && !r.more; {
		entries, end, err := r.candidates(q.most(room.n-len(r.got)), &from)
		if err != nil {
			return f, err
		}
		if err := r.leaseAll(entries); err != nil {
			return f, err
		}
		if end {
			break
		}
	}
	f.Jobs, f.More = r.got, r.more || r.skipped && len(r.got) < room.n || len(r.got) == 0 && r.buried > 0 // there may be some before these
	if len(r.got) > 0 && !request.Start.IsFirst() && !request.Start.again {
		tx.OnCommit(q.crowd.calm)
	}
	q.started(tx, now, room, len(r.got))
	return f, nil
}

// reservation is a Reserve under way.
type reservation struct {
	q       *Queue
	tx      kv.Tx
	now     int64
	request Request
	got     []Reserved
	bytes   int
	moved   int
	buried  int
	more    bool // see Found
	skipped bool // some ready jobs were passed over
}

// leaseAll leases the jobs of entries, as many as there is room for, and passes over what can't be read.
func (r *reservation) leaseAll(entries [][]byte) error {
	bytes := cmp.Or(r.request.MaxBytes, math.MaxInt) - r.bytes
	q, err := r.q.loading(r.tx, Ready, entries, bytes)
	if err != nil {
		return err
	}
	r.q = q
	var all []*Job
	for _, entry := range entries {
		j, err := q.loadIn(r.tx, Ready, entry)
		if err == nil {
			all = append(all, j)
		} else if !q.aside(entry, err) {
			return err
		}
	}
	q.expectKeyed(r.tx, all, bytes)
	for _, j := range all {
		entry := q.index(j)
		var err error
		if r.more, err = r.lease(entry, j); err != nil && !q.aside(entry, err) {
			return err
		} else if r.more {
			return nil
		}
	}
	return nil
}

// lease leases a job that was loaded, or blocks it if it may not start, or makes it dead if its payload is gone. Where there is no room
// for it, it does nothing, and more is true. If what is stored of the job can't be read, that is an error, and it does nothing.
func (r *reservation) lease(entry []byte, j *Job) (more bool, err error) {
	q := r.q
	if len(r.got)+r.moved+r.buried > 0 && !q.startFits(r.tx, j) {
		return true, nil
	}
	var s slots
	if j.Key != "" {
		if s, err = q.loadSlots(r.tx, j.Key); err != nil {
			return false, err
		}
		if !q.mayStart(s, r.now) {
			if r.moved == maxMoved {
				return true, nil
			}
			r.moved++
			q.moveOut(r.tx, j, s, r.now)
			return false, nil
		}
	}
	payload, err := q.Payload(r.tx, j)
	if q.aside(entry, err) {
		r.buried++
		j.fail(r.now, err.Error())
		return r.buried == maxMoved, q.bury(r.tx, j, r.now)
	}
	if err != nil {
		return false, err
	}
	if r.bytes += len(payload); r.request.MaxBytes > 0 && r.bytes > r.request.MaxBytes && len(r.got) > 0 {
		return true, nil
	}
	since := j.since()
	length, err := q.lease(r.tx, j, s, r.now, r.request, len(r.got))
	r.got = append(r.got, Reserved{Job: j, Payload: payload, Since: since, Length: length, Timeout: q.Timeout(j)})
	return false, err
}

// moveOut blocks a ready job until the rate of its key has room.
func (q *Queue) moveOut(tx kv.Tx, j *Job, s slots, now int64) {
	s.leave(Ready, true)
	s.next = q.config.KeyRate.clamp(s.next, now)
	q.move(tx, j, Blocked, func() { j.HasSlot = false })
	q.setWake(tx, j.Key, &s, q.roomAt(s, now))
	q.saveSlots(tx, j.Key, s)
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
	if err := q.mayRevive(tx, j, now); err != nil {
		return got, err
	}
	room, err := q.room(tx, now, 1)
	if err != nil {
		return got, err
	}
	s, has, err := q.slotFor(tx, j, now)
	switch {
	case err != nil:
		return got, err
	case room.n == 0 || !has: // nothing was written
		return got, fmt.Errorf("%w: job %d can't start now, as its queue is paused or a limit is reached", ErrState, id)
	}
	payload, err := q.Payload(tx, j)
	if err != nil {
		return got, err
	}
	q.revive(tx, j)
	q.allowAttempt(j)
	since := now
	if j.State == Ready {
		since = j.since()
	}
	length, err := q.lease(tx, j, s, now, request, 0)
	if err != nil {
		return got, err
	}
	q.started(tx, now, room, 1)
	return Reserved{Job: j, Payload: payload, Since: since, Length: length, Timeout: q.Timeout(j)}, nil
}

// slotFor tells whether a job that is ready, scheduled or dead may start now as far as its key is concerned, without
// taking the start of one that is ready. If so it has a slot in what is returned.
func (q *Queue) slotFor(tx kv.Tx, j *Job, now int64) (s slots, has bool, err error) {
	if j.Key == "" {
		return s, true, nil
	}
	if s, err = q.loadSlots(tx, j.Key); err != nil {
		return s, false, err
	}
	switch {
	case j.State == Ready:
		has = q.mayStart(s, now)
	case j.HasSlot:
		has = q.rateAt(s, now) == now
	case q.roomAt(s, now) == now:
		s.used++
		j.HasSlot, has = true, true
	}
	return s, has, nil
}

// Position is where a ready job is among others, also of other queues.
type Position struct{ Priority, Place, ID int64 }

// First returns the position of the first ready job, if there is one, without those of which isAside, which may be nil, says that they are set aside.
func (q *Queue) First(r kv.Reader, isAside func(entry []byte) bool) (p Position, found bool, err error) {
	err = firstOf(r, rangeOf(q.indexes[Ready]), func(entry []byte) (bool, error) {
		found = (isAside == nil || !isAside(entry)) && !q.aside(entry, decodeInts(entry, entry[len(q.indexes[Ready]):], &p.Priority, &p.Place, &p.ID))
		return found, nil
	})
	return p, found, err
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

// lease leases the i-th job of a request, for a time that it returns, and takes its start from the rate of its key, of
// which s is stored.
func (q *Queue) lease(tx kv.Tx, j *Job, s slots, now int64, request Request, i int) (length int64, err error) {
	terms := Terms{}
	if request.Terms != nil {
		terms = request.Terms(i)
	}
	length = cmp.Or(terms.Lease, j.Lease, request.Lease, q.config.Lease)
	was := j.State
	q.move(tx, j, Leased, func() {
		j.Token, j.Holder, j.Time = request.NewToken(), cmp.Or(terms.Holder, request.Holder), now+length
		if terms.Runner && request.Opening != 0 {
			j.Token = runnerToken(request.Opening, j.Token)
		}
		j.Attempts++
	})
	if j.Key == "" {
		return length, nil
	}
	if was == Ready {
		s.ready = max(0, s.ready-1)
	}
	_, s.next = q.config.KeyRate.start(s.next, now)
	if s.wake == awaited {
		if err := q.letIn(tx, j.Key, &s, now); err != nil {
			return 0, err
		}
	}
	q.saveSlots(tx, j.Key, s)
	return length, nil
}

// starts are what limits allow now.
type starts struct {
	n       int   // jobs that may be leased
	arrival int64 // the theoretical arrival time of the queue's rate
}

// room returns how many of n jobs may be leased now.
func (q *Queue) room(tx kv.Tx, now int64, n int) (s starts, err error) {
	if q.paused {
		return s, nil
	}
	if limit := q.config.Concurrency; limit > 0 {
		leased, err := q.countOf(tx, Leased)
		if err != nil {
			return s, err
		}
		n = int(min(int64(n), max(0, limit-leased)))
	}
	if q.config.Rate.limits() {
		if s.arrival, err = q.arrival(tx); err != nil {
			return s, err
		}
		if latest := q.config.Rate.clamp(s.arrival, now); s.arrival > latest {
			s.arrival = latest
			tx.Set(q.rate, withInts(nil, s.arrival))
		}
		var next int64
		if n, next, _ = q.config.Rate.allowed(s.arrival, now, n); next > 0 && q.config.Again != nil {
			tx.OnCommit(func() { q.config.Again(next) })
		}
	}
	s.n = n
	return s, nil
}

// arrival returns the arrival time of the queue's rate. One that can't be read begins anew.
func (q *Queue) arrival(tx kv.Tx) (at int64, err error) {
	if at, err = loadInt(tx, q.rate); q.aside(q.rate, err) {
		return 0, nil
	}
	return at, err
}

// started accounts for n jobs that were leased.
func (q *Queue) started(tx kv.Tx, now int64, s starts, n int) {
	if n > 0 && q.config.Rate.limits() {
		_, _, keep := q.config.Rate.allowed(s.arrival, now, n)
		tx.Set(q.rate, withInts(nil, keep))
	}
}

// spread is from how many of the first jobs a relaxed order chooses.
const spread = 256

// candidates returns the first ready entries from a key on, up to n, where to go on, and whether these are the last. At first it passes
// over some, in a relaxed order and where others are at them. Where other processes share the store they are read through a
// snapshot: the jobs' headers conflict, and the reservation counts as done at the version that it has read, as a take does
// (docs/internals/concurrency.md).
func (r *reservation) candidates(n int, from *[]byte) (entries [][]byte, end bool, err error) {
	q, start, reader := r.q, Start{entry: *from}, kv.Reader(r.tx)
	if *from == nil {
		start = r.request.Start
	}
	if q.config.Relaxed || q.limits.Shared {
		reader = r.tx.Snapshot()
	}
	read := q.readyRead(start, n)
	for entry, err := range reader.Range(read.Range, read.Options) {
		if err != nil {
			return nil, false, err
		}
		entries = append(entries, entry.Key)
	}
	if start.behind > 0 {
		entries = entries[start.flight.skip(entries):]
	}
	if len(entries) == 0 {
		switch {
		case *from != nil:
		case start.flight != nil && !start.IsFirst():
			r.request.Start = start.flight.turnBack()
			return r.candidates(n, from)
		case start.entry != nil:
			r.request.Start = Start{} // all behind it are taken
			return r.candidates(n, from)
		case start.width > 0 && q.config.Relaxed:
			r.tx.AddReadConflict(read.Range) // a caller is told that there is nothing
		}
		return nil, true, nil
	}
	skipped := 0
	switch {
	case start.width > 0 && q.config.Relaxed:
		skipped = rand.IntN(max(1, len(entries)-n))
	case start.width > 0:
		skipped = q.crowd.skip(entries, n)
	}
	r.skipped = r.skipped || skipped > 0 || *from == nil && (start.entry != nil || start.behind > 0)
	entries = entries[skipped:]
	entries = entries[:min(n, len(entries))]
	*from = kv.After(entries[len(entries)-1])
	r.request.Start.flight.takes(entries)
	return entries, len(entries) < n, nil
}

// readyRead is the read of entries for n jobs.
func (q *Queue) readyRead(start Start, n int) kv.Read {
	ready := rangeOf(q.indexes[Ready])
	if start.entry != nil {
		ready.Begin = start.entry
	}
	return kv.Read{Range: ready, Options: kv.RangeOptions{Limit: n + start.width + start.behind}}
}

// Start returns where a reservation of up to n jobs begins, which is made again if it is not the first attempt. flight is nil if it is none.
func (q *Queue) Start(now int64, n, attempts int, flight *Flight) Start {
	switch at := q.Latest(); {
	case at.config.Relaxed:
		return Start{width: spread}
	case at.config.Strict || !q.limits.Shared:
		return Start{}
	}
	again := attempts > 1 && flight.collides()
	if flight.attempt() && !again {
		return flight.start()
	}
	s := q.crowd.start(now, n, again)
	s.flight = flight
	return s
}

// Tried notes whether a reservation has leased jobs, and done nothing else: if it is made again, it has collided with others that reserve.
func (q *Queue) Tried(tried bool) { q.crowd.try(tried) }
