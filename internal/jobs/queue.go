package jobs

import (
	"cmp"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Config is how the queue works, and what belongs to one process.
type Config struct {
	Settings                                      // as long as none are stored
	Skew     int64                                // how much later than its deadline a lease ends for others, in microseconds
	NextTick NextTick                             // of periodic jobs; nil if there are none
	NewID    func(context.Context) (int64, error) // it may wait, until the context ends
	Again    func(at int64)                       // called when a transaction has committed after which the rate of the queue lets more start then; may be nil
	Soon     func(at int64)                       // called when a transaction has committed after which something is due then; may be nil
	Recalled func(id int64)                       // called when a transaction has committed that has recalled the lease of a job, or AllRecalled; may be nil
	Aside    func(*AsideError)                    // called with what can't be read, and is passed over; may be nil
	Shards   int                                  // over how many keys a count is spread, of which a Queue uses one; at least 1
}

// Queue is the recipe of one work queue. It is safe for concurrent use.
type Queue struct {
	keys
	config Config
	limits kv.Limits

	// Of one of At:
	version int64 // of the settings; 0 if none were ever stored
	paused  bool
	stored  []byte // what all of that was read from

	read headers // of a transaction; see Having

	defaults Settings
	shard    int64                  // of counts, in which this one counts
	latest   *atomic.Pointer[Queue] // what At returned last
	payloads *atomic.Int64          // how large payloads are, about
	crowd    *crowd                 // where others reserve, too
	counting *counting
}

// NewQueue returns the recipe for a queue of that name.
func NewQueue(name string, limits kv.Limits, config Config) *Queue {
	if config.Settings == (Settings{}) {
		config.Settings = DefaultSettings
	}
	config.KeyLimit, config.Lease = max(1, config.KeyLimit), cmp.Or(config.Lease, DefaultSettings.Lease)
	config.Backoff = cmp.Or(config.Backoff, DefaultSettings.Backoff)
	q := &Queue{
		keys: keysOf(name), config: config, limits: limits, defaults: config.Settings, shard: rand.Int64N(int64(max(1, config.Shards))),
		latest: new(atomic.Pointer[Queue]), payloads: new(atomic.Int64), crowd: new(crowd), counting: new(counting),
	}
	q.payloads.Store(unknownPayload)
	return q
}

// Load returns the header of a job, or ErrNotFound.
func (q *Queue) Load(r kv.Reader, id int64) (*Job, error) {
	key := withInts(q.headers, id)
	value, err := q.headerOf(r, key, id)
	switch {
	case err != nil:
		return nil, err
	case value == nil:
		return nil, ErrNotFound
	}
	return decode(key, id, value)
}

// loadIn is Load for a job that has an entry in an index: it must be there, and where
// the entry says.
func (q *Queue) loadIn(r kv.Reader, state State, entry []byte) (*Job, error) {
	id, err := q.idOf(state, entry)
	if err != nil {
		return nil, err
	}
	j, err := q.Load(r, id)
	if err == ErrNotFound {
		return nil, corrupt(entry, "job %d has no header", id)
	}
	if err == nil && (j.State != state || string(q.index(j)) != string(entry)) {
		return nil, corrupt(entry, "job %d is %v, and elsewhere", id, j.State)
	}
	return j, err
}

// move brings a job into another state, or to another place in its own. change alters what else it wants, between
// leaving its old entry and making the new one. It may be nil.
func (q *Queue) move(tx kv.Tx, j *Job, to State, change func()) {
	from := j.State
	q.leaveIndex(tx, j)
	j.State = to
	if change != nil {
		change()
	}
	if to != from {
		q.count(tx, from, -1)
		q.count(tx, to, 1)
	}
	q.enterIndex(tx, j)
	q.save(tx, j)
}

// leave removes the entry and the count of a job.
func (q *Queue) leave(tx kv.Tx, j *Job) {
	q.count(tx, j.State, -1)
	q.leaveIndex(tx, j)
}

func (q *Queue) leaveIndex(tx kv.Tx, j *Job) {
	tx.Clear(q.index(j))
	if j.State == Leased {
		j.Token = 0
	}
}

// enter makes the entry, the count and the header of a job.
func (q *Queue) enter(tx kv.Tx, j *Job) {
	q.enterIndex(tx, j)
	q.count(tx, j.State, 1)
	q.save(tx, j)
}

func (q *Queue) enterIndex(tx kv.Tx, j *Job) {
	entry := []byte{}
	if j.State == Leased {
		entry = tuple.AppendInt(nil, j.Token)
	}
	tx.Set(q.index(j), entry)
	switch j.State {
	case Scheduled:
		q.soon(tx, j.Time)
	case Leased:
		q.soon(tx, j.Time+q.config.Skew)
	}
}

// soon tells who waits for what is due.
func (q *Queue) soon(tx kv.Tx, at int64) {
	if q.config.Soon != nil {
		tx.OnCommit(func() { q.config.Soon(at) })
	}
}

func (q *Queue) save(tx kv.Tx, j *Job) {
	delete(q.read, j.ID)
	tx.Set(withInts(q.headers, j.ID), q.header(j))
}

// countOf returns how many jobs there are in a state, and conflicts with those that come to it and leave it.
func (q *Queue) countOf(r kv.Reader, s State) (n int64, err error) {
	for pair, err := range r.Range(q.countsOf(s), kv.RangeOptions{}) {
		if err != nil {
			return 0, err
		}
		_, count, err := q.parseCount(pair)
		if err != nil && !q.aside(pair.Key, err) {
			return 0, err
		}
		n += count
	}
	return n, nil
}

func (q *Queue) countsOf(s State) kv.Range { return rangeOf(withInts(q.counts, int64(s))) }

// Counts returns how many jobs there are in each state, through a snapshot.
func (q *Queue) Counts(r kv.Reader) (map[State]int64, error) {
	counts := make(map[State]int64)
	for pair, err := range r.Snapshot().Range(rangeOf(q.counts), kv.RangeOptions{}) {
		if err != nil {
			return nil, err
		}
		s, count, err := q.parseCount(pair)
		if err != nil && !q.aside(pair.Key, err) {
			return nil, err
		}
		counts[s] += count
	}
	return counts, nil
}

// parseCount reads a count of jobs in a state.
func (q *Queue) parseCount(pair kv.KeyValue) (s State, n int64, err error) {
	of, _, ok := tuple.NextInt(pair.Key[len(q.counts):])
	if !ok || len(pair.Value) != 8 {
		return 0, 0, corrupt(pair.Key, "it is no count")
	}
	return State(of), int64(binary.LittleEndian.Uint64(pair.Value)), nil
}

// admit makes a job ready that wants to be, or blocks it where its key has no slot, its rate no room, or others wait
// before it. It has no entry, or has left it. One that is tried again has its slot already, and is ahead of those that are
// blocked; only if the rate has no room it gives the slot up, and waits like these, in its place.
func (q *Queue) admit(tx kv.Tx, j *Job, now int64) error {
	j.State = Ready
	if j.Key == "" {
		q.enter(tx, j)
		return nil
	}
	s, err := q.loadSlots(tx, j.Key)
	if err != nil {
		return err
	}
	before, first := s, j.HasSlot || s.wake == 0
	s.leave(0, j.HasSlot)
	if j.HasSlot = false; first && q.roomAt(s, now) == now {
		s.enter(j)
		q.enter(tx, j)
		q.saveSlots(tx, j.Key, s)
		return nil
	}
	j.State = Blocked
	q.enter(tx, j)
	if s.wake == 0 {
		s.wake = awaited
	}
	if !q.isSet(s, now) {
		if err := q.letIn(tx, j.Key, &s, now); err != nil {
			return err
		}
	}
	if s != before {
		q.saveSlots(tx, j.Key, s)
	}
	return nil
}

// remove takes a job out of the store. Its slot goes to the next one of its key, and its claim ends,
// unless the user wants that to last longer.
func (q *Queue) remove(tx kv.Tx, j *Job, now int64) error {
	was := j.State
	q.leave(tx, j)
	if j.Findable {
		tx.Clear(FindKey(j.ID))
	}
	delete(q.read, j.ID)
	tx.Clear(withInts(q.headers, j.ID))
	q.clearPayload(tx, j)
	if was == Done {
		tx.ClearRange(kv.PrefixRange(withInts(q.results, j.ID)))
		return nil // the rest happened when it was done
	}
	if was == Dead && !j.Claims {
		return nil // that has happened, too
	}
	q.endClaim(tx, j, now)
	return q.freeSlot(tx, j.Key, was, j.HasSlot, now)
}

// finish keeps a job that is acknowledged.
func (q *Queue) finish(tx kv.Tx, j *Job, now int64, result []byte) error {
	if err := q.checkResult(result); err != nil {
		return err
	}
	had := j.HasSlot
	q.move(tx, j, Done, func() { j.Time, j.HasSlot, j.Cancelled = now+q.config.Keep, false, false })
	if result != nil {
		q.setPieces(tx, q.results, j.ID, result)
	}
	q.endClaim(tx, j, now)
	return q.freeSlot(tx, j.Key, Leased, had, now)
}

// bury makes a job dead. It gives up its slot, and its claim, unless the settings let it keep that.
func (q *Queue) bury(tx kv.Tx, j *Job, now int64) error {
	was, had := j.State, j.HasSlot
	if j.Claims = q.config.UniqueWhileDead && j.Unique != ""; !j.Claims {
		q.endClaim(tx, j, now)
	}
	j.Buries++
	q.move(tx, j, Dead, func() { j.Time, j.HasSlot, j.Cancelled = now, false, false })
	return q.freeSlot(tx, j.Key, was, had, now)
}

// Clear removes all jobs, and claims. Holders have lost their leases. Periodic jobs stay, and whether
// the queue is paused.
func (q *Queue) Clear(tx kv.Tx) {
	if q.config.Recalled != nil {
		tx.OnCommit(func() { q.config.Recalled(AllRecalled) })
	}
	clear(q.read)
	for _, state := range States {
		tx.ClearRange(rangeOf(q.indexes[state]))
	}
	for _, prefix := range [][]byte{q.headers, q.values, q.results, q.slots, q.wakes, q.claims, q.ends, q.counts} {
		tx.ClearRange(rangeOf(prefix))
	}
}

// smallPayload is up to how many bytes a payload lies in the header: two keys a job less to write, and one to read, for some more bytes when
// it is leased.
const smallPayload = 512

// setPayload stores a payload, or has the header take it, which is to be stored next.
func (q *Queue) setPayload(tx kv.Tx, j *Job, payload []byte) {
	if len(payload) <= smallPayload && q.maxHeader() == headerBytes {
		j.Pieces, j.payload = 0, append(make([]byte, 0, len(payload)), payload...)
		return
	}
	j.Pieces = q.setPieces(tx, q.values, j.ID, payload)
}

// setPieces stores a payload or a result, over several keys where the engine's values are smaller, and returns over
// how many.
func (q *Queue) setPieces(tx kv.Tx, prefix []byte, id int64, value []byte) (pieces int64) {
	size := q.limits.Value
	if size == 0 || len(value) <= size {
		tx.Set(withInts(prefix, id), value)
		return 1
	}
	for ; len(value) > 0; pieces++ {
		n := min(size, len(value))
		tx.Set(withInts(prefix, id, pieces), value[:n])
		value = value[n:]
	}
	return pieces
}

func (q *Queue) clearPayload(tx kv.Tx, j *Job) {
	switch j.Pieces {
	case 0:
		return
	case 1:
		tx.Clear(withInts(q.values, j.ID))
		return
	}
	tx.ClearRange(rangeOf(withInts(q.values, j.ID)))
}

// Payload returns what a job has to be done with. It is written once, together with the header
// that was read, so it does not conflict.
func (q *Queue) Payload(r kv.Reader, j *Job) ([]byte, error) {
	if j.payload != nil {
		q.sawPayload(len(j.payload))
		return j.payload, nil
	}
	key := withInts(q.values, j.ID)
	if j.Pieces == 1 {
		value, err := r.Snapshot().Get(key)
		if err == nil && value == nil {
			err = corrupt(key, "the payload of job %d is missing", j.ID)
		}
		q.sawPayload(len(value))
		return value, err
	}
	var payload []byte
	pieces := int64(0)
	for pair, err := range r.Snapshot().Range(rangeOf(key), kv.RangeOptions{}) {
		if err != nil {
			return nil, err
		}
		payload = append(payload, pair.Value...)
		pieces++
	}
	if pieces != j.Pieces {
		return nil, corrupt(key, "job %d has %d of %d pieces of its payload", j.ID, pieces, j.Pieces)
	}
	q.sawPayload(len(payload))
	return payload, nil
}

// Result returns what a job was acknowledged with, or nil.
func (q *Queue) Result(r kv.Reader, id int64) (result []byte, err error) {
	for pair, err := range r.Range(kv.PrefixRange(withInts(q.results, id)), kv.RangeOptions{}) {
		if err != nil {
			return nil, err
		}
		if result = append(result, pair.Value...); result == nil {
			result = []byte{}
		}
	}
	return result, nil
}
