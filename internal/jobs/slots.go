package jobs

import (
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// slots is what is stored of a key.
type slots struct {
	used  int64 // by jobs that are ready, leased, or tried again later
	next  int64 // the theoretical arrival time of its rate; see Rate
	ready int64 // of these, those that are ready: the rate lets all of them start at once
	wake  int64 // 0 is that no job of it is blocked; else awaited, or the time of its entry in wakes
}

// awaited is the wake of a key whose blocked jobs wait until another one of its jobs ends or starts.
const awaited = -1

func (s *slots) ints() []*int64 { return []*int64{&s.used, &s.next, &s.ready, &s.wake} }

func (q *Queue) loadSlots(r kv.Reader, key string) (s slots, err error) {
	at := withString(q.slots, key)
	value, err := r.Get(at)
	if err != nil || value == nil {
		return s, err
	}
	err = decodeInts(at, value, s.ints()...)
	return s, err
}

func (q *Queue) saveSlots(tx kv.Tx, key string, s slots) {
	at := withString(q.slots, key)
	if s == (slots{}) {
		tx.Clear(at)
		return
	}
	tx.Set(at, withInts(nil, s.used, s.next, s.ready, s.wake))
	if s.used == 0 && s.wake == 0 {
		tx.Set(q.endKey(s.next, endsRate, key), nil) // until then its rate is remembered
	}
}

// roomAt returns when a job of a key that has no slot may become ready, with all that are ready starting before it: now,
// later, or awaited if time alone does not bring that about.
func (q *Queue) roomAt(s slots, now int64) int64 {
	if s.used >= q.config.KeyLimit {
		return awaited
	}
	return q.rateAt(s, now)
}

// rateAt is roomAt as far as the rate is concerned.
func (q *Queue) rateAt(s slots, now int64) int64 {
	rate := q.config.KeyRate
	switch {
	case !rate.limits():
		return now
	case s.ready >= rate.N:
		return awaited
	}
	at, _ := rate.start(max(s.next, now)+s.ready*rate.each(), now)
	return at
}

// isSet tells whether the next look at a key's blocked jobs is at a time that is right still: if the clock was set back,
// or a rate is gone, it may be too late.
func (q *Queue) isSet(s slots, now int64) bool {
	return s.wake > now && s.wake <= q.lastWake(now) && s.used < q.config.KeyLimit
}

// lastWake is when at the latest blocked jobs that wait for a rate are looked at.
func (q *Queue) lastWake(now int64) int64 {
	if !q.config.KeyRate.limits() {
		return now
	}
	return q.config.KeyRate.clamp(Never, now)
}

// mayStart tells whether the rate of a key lets one of its ready jobs start now.
func (q *Queue) mayStart(s slots, now int64) bool {
	at, _ := q.config.KeyRate.start(s.next, now)
	return at <= now
}

// leave accounts for a job of a key that has left a state, with its slot if it had one.
func (s *slots) leave(was State, had bool) {
	if had {
		s.used = max(0, s.used-1)
	}
	if had && was == Ready {
		s.ready = max(0, s.ready-1)
	}
}

// enter accounts for a job that becomes ready.
func (s *slots) enter(j *Job) {
	s.used++
	s.ready++
	j.HasSlot = true
}

// freeSlot gives back the slot of a job that had one in the state that it was in, and lets in others of its key.
func (q *Queue) freeSlot(tx kv.Tx, key string, was State, had bool, now int64) error {
	if !had {
		return nil
	}
	s, err := q.loadSlots(tx, key)
	if err != nil {
		return err
	}
	s.leave(was, had)
	if err := q.letIn(tx, key, &s, now); err != nil {
		return err
	}
	q.saveSlots(tx, key, s)
	return nil
}

// letIn makes blocked jobs of a key ready, in their order, as far as it has slots and its rate has room, and notes when to
// go on. Where more come in than one, as the limit was raised, it does a few at a time.
func (q *Queue) letIn(tx kv.Tx, key string, s *slots, now int64) error {
	if s.wake == 0 {
		return nil
	}
	const most = 16
	s.next = q.config.KeyRate.clamp(s.next, now)
	wake := now // there is more of it
	for n := range most {
		if n > 0 && !q.smallFits(tx, handOperations+2) { // and the slots, and when to go on
			break
		}
		if at := q.roomAt(*s, now); at != now {
			wake = at
			break
		}
		j, err := q.firstBlocked(tx, key)
		if err != nil {
			return err
		}
		if j == nil {
			wake = 0
			break
		}
		q.move(tx, j, Ready, func() { s.enter(j) })
	}
	q.setWake(tx, key, s, wake)
	return nil
}

// setWake has the next blocked job of a key looked at in another way, or at another time.
func (q *Queue) setWake(tx kv.Tx, key string, s *slots, wake int64) {
	if s.wake == wake {
		return
	}
	if s.wake > 0 {
		tx.Clear(q.wakeKey(s.wake, key))
	}
	if wake > 0 {
		tx.Set(q.wakeKey(wake, key), nil)
		q.soon(tx, wake)
	}
	s.wake = wake
}

func (k *keys) wakeKey(at int64, key string) []byte { return withString(withInts(k.wakes, at), key) }

func (q *Queue) firstBlocked(tx kv.Tx, key string) (*Job, error) {
	return q.firstIn(tx, Blocked, rangeOf(withString(q.indexes[Blocked], key)))
}

// firstIn returns the first job of a part of an index that can be read, or nil.
func (q *Queue) firstIn(r kv.Reader, state State, over kv.Range) (j *Job, err error) {
	return j, firstOf(r, over, func(entry []byte) (bool, error) {
		found, err := q.loadIn(r, state, entry)
		if q.aside(entry, err) {
			return false, nil
		}
		j = found
		return true, err
	})
}

// firstOf calls f with keys until one is good. That is mostly the first one, which is read by itself.
func firstOf(r kv.Reader, over kv.Range, f func(key []byte) (good bool, err error)) error {
	const more = 100
	for some := 1; ; some = more {
		n := 0
		for pair, err := range r.Range(over, kv.RangeOptions{Limit: some, KeysOnly: true}) {
			if err != nil {
				return err
			}
			if good, err := f(pair.Key); good || err != nil {
				return err
			}
			n++
			over.Begin = kv.After(pair.Key)
		}
		if n < some {
			return nil
		}
	}
}

// decodeInts reads a tuple of integers.
func decodeInts(key, value []byte, to ...*int64) error {
	ok := true
	for _, i := range to {
		if *i, value, ok = tuple.NextInt(value); !ok {
			return corrupt(key, "its value is not a tuple of %d integers", len(to))
		}
	}
	if len(value) > 0 {
		return corrupt(key, "its value has more than %d integers", len(to))
	}
	return nil
}
