package embedded

import (
	"cmp"
	"context"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// tx implements kv.Tx: the store at one version with the transaction's own writes over it, and
// what the transaction has read, to be checked at its commit.
type tx struct {
	txn
	reader   // its Reader methods
	snapshot reader

	overlay.Writer            // its methods that write
	reads          []kv.Range // read conflict ranges
	watched        []*watch
	mayBeLazy      bool
	noSync         bool   // see kv.NoSync
	awaits         uint64 // up to which version commits have to be durable when this one is acknowledged
}

// NoSync implements kv.NoSync.
func (t *tx) NoSync() { t.noSync = t.db.o.Durability == Always }

// Signals implements kvext.Local: they are the store's.
func (t *tx) Signals() *kvext.Signals { return t.db.Signals() }

func newTx(ctx context.Context, db *DB) *tx {
	t := &tx{txn: txn{db: db, ctx: ctx}, Writer: overlay.Writer{Limits: &db.limits}}
	t.reader.t = t
	t.snapshot = reader{t, true}
	return t
}

// alive returns an error once the transaction has ended, or should.
func (t *tx) alive() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		return t.ended
	}
	return t.check()
}

func (t *tx) AddReadConflict(r kv.Range) {
	r, err := r.Bounds()
	if t.Refused(err) {
		return
	}
	if err := t.reading(); err != nil { // a conflict since when: its version says it
		t.Refused(err)
		return
	}
	r = overlay.Clone(r)
	t.depends(r)
	t.mu.Unlock()
	t.reads = append(t.reads, r)
}

func (t *tx) Watch(key []byte) <-chan error {
	w := &watch{key: string(key), ch: make(chan error, 1)}
	if err := t.Limits.CheckKey(key); t.Refused(err) {
		w.end(cmp.Or(err, kv.ErrClosed))
		return w.ch
	}
	if err := t.reading(); err != nil { // a change since when: its version says it
		t.Refused(err)
		w.end(err)
		return w.ch
	}
	t.depends(keyRange(key))
	t.mu.Unlock()
	t.watched = append(t.watched, w)
	return w.ch
}

// end ends the transaction, if it has not committed, without a trace.
func (t *tx) end() {
	if t.Ended {
		return
	}
	t.Ended = true
	t.shut(kv.ErrClosed)
	for _, w := range t.watched {
		w.end(kv.ErrConflict)
	}
	t.watched = nil
}
