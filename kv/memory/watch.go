package memory

import (
	"cmp"
	"context"
	"slices"
)

// watch waits for a write to its key. It is told once, when it is taken out
// of tx.watches or DB.watches.
type watch struct {
	key    string
	told   chan error  // has room for one
	missed bool        // the write came before the commit
	stop   func() bool // stops waiting for the context
}

// tell ends w, with nil for a change.
func (w *watch) tell(err error) {
	if err != nil {
		w.told <- err
	}
	close(w.told)
}

// Watch implements kv.Tx.
func (h handle) Watch(key []byte) <-chan error {
	w := &watch{key: string(key), told: make(chan error, 1)}
	if err := cmp.Or(h.db.limits.CheckKey(key), h.read()); h.refused(err) {
		w.tell(err)
	} else {
		h.watches = append(h.watches, w)
	}
	return w.told
}

// register makes the watches of t, which is committed, wait.
func (db *DB) register(t *tx) {
	for _, w := range t.watches {
		if w.missed {
			w.tell(nil)
			continue
		}
		others, _ := db.watches.Get(w.key)
		db.watches.Set(w.key, append(others, w))
		w.stop = context.AfterFunc(t.ctx, func() { db.unwatch(w, context.Cause(t.ctx)) })
	}
	t.watches = nil
}

// unwatch ends w with err if it still waits.
func (db *DB) unwatch(w *watch, err error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	waiting, _ := db.watches.Get(w.key)
	i := slices.Index(waiting, w)
	if i < 0 {
		return
	}
	if waiting = slices.Delete(waiting, i, i+1); len(waiting) == 0 {
		db.watches.Delete(w.key)
	} else {
		db.watches.Set(w.key, waiting)
	}
	w.tell(err)
}

// tell ends all watches of the keys in s.
func (db *DB) tell(s span, err error) {
	for _, key := range keysIn(&db.watches, s) {
		waiting, _ := db.watches.Delete(key)
		for _, w := range waiting {
			w.stop()
			w.tell(err)
		}
	}
}
