package embedded

import (
	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// counters has the latest values of keys that transactions add to. A commit that adds to one needs its value, and
// to read it in Pebble would have Pebble take all that was committed before: with a count or two a job, no job would be put
// and taken within the backlog. The store's lock is held for all of it.
type counters map[string][]byte

// mostCounters bounds the memory: it is some 2 MB.
const mostCounters = 16 << 10

// sum puts the results of additions in the batch, and in their changes.
func (db *DB) sum(e *effects) error {
	db.counted = db.counted || len(e.adds) > 0
	for _, c := range e.adds {
		value, known := db.counters[string(c.Key)]
		if !known {
			var err error
			if value, err = db.storedCounter(c.Key); err != nil {
				return err
			}
		}
		c.Value = overlay.Sum(value, c.Delta)
		operation{kind: set, key: c.Key, value: c.Value}.write(e.batch)
	}
	return nil
}

// restCounters forgets all counters if nothing was added to one since the last call.
func (db *DB) restCounters() {
	db.mu.Lock()
	defer db.mu.Unlock()
	if !db.counted {
		db.counters = make(counters)
	}
	db.counted = false
}

func (db *DB) storedCounter(key []byte) ([]byte, error) {
	db.catchUp()
	value, closer, err := db.pebble.Get(key)
	if err == pebble.ErrNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, db.readError(err)
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

// written takes in what a commit writes.
func (c counters) written(e *effects) {
	if len(c) == 0 && len(e.adds) == 0 {
		return
	}
	for _, r := range e.cleared {
		for key := range c {
			if key >= string(r.Begin) && (len(r.End) == 0 || key < string(r.End)) {
				delete(c, key)
			}
		}
	}
	for _, change := range e.changes {
		if change.Kind != overlay.Add {
			delete(c, string(change.Key))
			continue
		}
		if len(c) >= mostCounters {
			clear(c)
		}
		c[string(change.Key)] = change.Value
	}
}
