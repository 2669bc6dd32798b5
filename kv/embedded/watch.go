package embedded

import (
	"context"

	"github.com/conq-go/conq/kv"
)

// watch waits for a change of one key. Whoever takes it out of the table ends
// it, so that it ends once.
type watch struct {
	key     string
	version uint64 // that its transaction has seen or made
	ch      chan error
	forget  func() bool // stops waiting for the context's end
}

// end closes the channel, with an error if there is one.
func (w *watch) end(err error) {
	if w.forget != nil {
		w.forget()
	}
	if err != nil {
		w.ch <- err
	}
	close(w.ch)
}

// watches are the watches of committed transactions, by key. The store's lock
// guards it.
type watches map[string]map[*watch]struct{}

func (ws watches) add(w *watch) {
	if ws[w.key] == nil {
		ws[w.key] = make(map[*watch]struct{})
	}
	ws[w.key][w] = struct{}{}
}

func (ws watches) remove(w *watch) bool {
	if _, ok := ws[w.key][w]; !ok {
		return false
	}
	delete(ws[w.key], w)
	if len(ws[w.key]) == 0 {
		delete(ws, w.key)
	}
	return true
}

// fire ends the watches of the keys that a commit wrote.
func (ws watches) fire(e *effects) {
	if len(ws) == 0 {
		return
	}
	for _, c := range e.changes {
		ws.fireKey(string(c.Key))
	}
	if len(e.cleared) == 0 {
		return
	}
	cleared := writes{Ranges: e.cleared}
	for key := range ws {
		if cleared.In(kv.KeyRange([]byte(key))) {
			ws.fireKey(key)
		}
	}
}

func (ws watches) fireKey(key string) {
	for w := range ws[key] {
		w.end(nil)
	}
	delete(ws, key)
}

// fireAll ends all watches, each with the error that why returns for it.
func (ws watches) fireAll(why func(*watch) error) {
	for _, of := range ws {
		for w := range of {
			w.end(why(w))
		}
	}
	clear(ws)
}

// watch starts w for a transaction that read at version and commits now: ends
// it at once if the key has been written since. The lock is held.
func (db *DB) watch(ctx context.Context, w *watch, since []writes) {
	key := kv.KeyRange([]byte(w.key))
	for i := range since {
		if since[i].In(key) {
			w.end(nil)
			return
		}
	}
	if db.failure() != nil { // see failWatches
		w.end(db.failedWatch(w))
		return
	}
	db.watches.add(w)
	w.forget = context.AfterFunc(ctx, func() {
		db.mu.Lock()
		defer db.mu.Unlock()
		if db.watches.remove(w) {
			w.end(context.Cause(ctx))
		}
	})
}
