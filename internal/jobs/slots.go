package jobs

import (
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// slots is what is stored of a key.
type slots struct {
	used int64 // by jobs that are out of blocked
	next int64 // the theoretical arrival time of its rate; see Rate
}

func (q *Queue) loadSlots(r kv.Reader, key string) (s slots, err error) {
	at := withString(q.slots, key)
	value, err := r.Get(at)
	if err != nil || value == nil {
		return s, err
	}
	err = decodeInts(at, value, &s.used, &s.next)
	return s, err
}

func (q *Queue) saveSlots(tx kv.Tx, key string, s slots) {
	at := withString(q.slots, key)
	if s == (slots{}) {
		tx.Clear(at)
		return
	}
	tx.Set(at, withInts(nil, s.used, s.next))
	if s.used == 0 {
		tx.Set(q.endKey(s.next, endsRate, key), nil) // until then its rate is remembered
	}
}

// takeSlot tells whether a job has a slot of its key, or needs none. It gives it one if there is one.
func (q *Queue) takeSlot(tx kv.Tx, j *Job) (bool, error) {
	if j.Key == "" || j.HasSlot {
		return true, nil
	}
	slots, err := q.loadSlots(tx, j.Key)
	if err != nil || slots.used >= q.config.KeyLimit {
		return false, err
	}
	slots.used++
	q.saveSlots(tx, j.Key, slots)
	j.HasSlot = true
	return true, nil
}

// freeSlot hands the slot of a job that had one to the next job of its key that is blocked, or gives it
// back. Where the limit was raised meanwhile more jobs than one come in, a few at a time.
func (q *Queue) freeSlot(tx kv.Tx, key string, had bool) error {
	if !had {
		return nil
	}
	s, err := q.loadSlots(tx, key)
	if err != nil {
		return err
	}
	s.used = max(0, s.used-1)
	const most = 16
	for range most {
		if s.used >= q.config.KeyLimit {
			break
		}
		j, err := q.firstBlocked(tx, key)
		if err != nil {
			return err
		}
		if j == nil {
			break
		}
		s.used++
		q.move(tx, j, Ready, func() { j.HasSlot = true })
	}
	q.saveSlots(tx, key, s)
	return nil
}

func (q *Queue) firstBlocked(tx kv.Tx, key string) (*Job, error) {
	of := withString(q.indexes[Blocked], key)
	for entry, err := range tx.Range(rangeOf(of), kv.RangeOptions{Limit: 1}) {
		if err != nil {
			return nil, err
		}
		return q.loadIn(tx, Blocked, entry.Key)
	}
	return nil, nil
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
