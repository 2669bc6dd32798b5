package embedded

import (
	"context"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv"
)

// view is the store at one version, shared by the transactions that began
// there. The store's lock guards refs.
type view struct {
	version uint64
	snap    *pebble.Snapshot
	refs    int
}

// openTxns lists the transactions that hold a view, in the order in which they
// got it, which is that of their versions. The store's lock guards it.
type openTxns struct {
	first, last *txn
}

func (l *openTxns) push(t *txn) {
	t.prev, t.listed = l.last, true
	if l.last == nil {
		l.first = t
	} else {
		l.last.next = t
	}
	l.last = t
}

func (l *openTxns) remove(t *txn) {
	if !t.listed {
		return
	}
	if t.prev == nil {
		l.first = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.last = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next, t.listed = nil, nil, false
}

func (l *openTxns) all() (ts []*txn) {
	for t := l.first; t != nil; t = t.next {
		ts = append(ts, t)
	}
	return ts
}

// txn is the part of a transaction that reads: its view of the store.
type txn struct {
	db  *DB
	ctx context.Context

	// view is set by the first read, and started tells when.
	view    *view
	started time.Time

	// mu keeps Close from closing Pebble under a read.
	mu      sync.Mutex
	ended   error
	cursors map[*cursor]struct{}

	prev, next *txn // in db.txns
	listed     bool
}

// begin gives the transaction a view of the latest version, if it has none yet.
func (t *txn) begin() error {
	if t.view != nil {
		return nil
	}
	started := t.db.o.Now()
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if t.db.closed {
		return kv.ErrClosed
	}
	v := t.db.view
	if v == nil || v.version != t.db.version {
		v = &view{version: t.db.version, snap: t.db.pebble.NewSnapshot()}
		t.db.view = v
	}
	v.refs++
	t.view, t.started = v, started
	t.db.txns.push(t)
	return nil
}

// version is that of the view, or 0 when nothing was read.
func (t *txn) version() uint64 {
	if t.view == nil {
		return 0
	}
	return t.view.version
}

// check returns the error with which a read or the commit must fail now.
func (t *txn) check() error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if err := t.db.usable(); err != nil {
		return err
	}
	if t.view != nil && t.db.o.Now().Sub(t.started) > t.db.o.Age {
		return kv.ErrTooOld
	}
	return nil
}

// reading prepares a read: it returns with t.mu held, unless with an error.
func (t *txn) reading() error {
	t.mu.Lock()
	err := t.ended
	if err == nil {
		err = t.check()
	}
	if err == nil {
		err = t.begin()
	}
	if err != nil {
		t.mu.Unlock()
	}
	return err
}

// get returns the stored value of a key, in a new slice, or nil.
func (t *txn) get(key []byte) ([]byte, error) {
	if err := t.reading(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	value, closer, err := t.view.snap.Get(key)
	if err == pebble.ErrNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value = append([]byte{}, value...)
	return value, closer.Close()
}

// shut ends the transaction's reads with err.
func (t *txn) shut(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.ended = err
	}
	for c := range t.cursors {
		c.iter.Close()
	}
	t.cursors = nil
	if t.view != nil {
		t.release()
	}
}

// release gives the view back.
func (t *txn) release() {
	t.db.mu.Lock()
	snap := t.releaseLocked()
	t.db.mu.Unlock()
	if snap != nil {
		snap.Close()
	}
}

// releaseLocked is release with the lock held. It returns the snapshot that is
// to be closed when the lock isn't held any more, if there is one.
func (t *txn) releaseLocked() *pebble.Snapshot {
	v := t.view
	if v == nil {
		return nil
	}
	t.view = nil
	t.db.txns.remove(t)
	if t.db.txns.first == nil {
		t.db.window = window{} // nobody needs it
	}
	v.refs--
	if v.refs > 0 {
		return nil
	}
	if t.db.view == v {
		t.db.view = nil
	}
	return v.snap
}
