package embedded

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/internal/linked"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/cache"
	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/conq-go/conq/kv/internal/retry"
)

// txn is the part of a transaction that reads: its version of the store, which its
// first read sets.
type txn struct {
	db  *DB
	ctx context.Context

	version  uint64 // 0 before the first read
	started  time.Time
	snap     *pebble.Snapshot // what is in Pebble at that version
	readOnly bool             // it can't write: once it has a snapshot, it conflicts with nothing

	// A transaction that is lazy has no snapshot until it reads what is not in the cache.
	// If the store has changed by then, the transaction moves on to its latest
	// version, provided that nothing which it has observed was written to. This is
	// the snapshot extension of Riegel, Felber and Fetzer's lazy snapshot algorithm.
	lazy     bool
	observed []kv.Range

	// compared is up to which version a commit that waits has compared what the transaction has read,
	// which reads no more then, or 0: see renew.
	compared uint64

	// mu keeps Close from closing Pebble under a read.
	mu      sync.Mutex
	ended   error
	cursors linked.List[cursor] // those that are open
	open    bool                // it has begun, and not been released

	place linked.Place[txn] // in db.txns, under the store's lock: others end those that are too old
}

// needed returns the version from which the transaction needs the conflict log.
func (t *txn) needed() uint64 { return max(t.version, t.compared) }

// covers tells whether the conflict log reaches back to what the transaction has read. The store's lock is held.
func (t *txn) covers() bool { return t.place.Taken() && t.compared == 0 }

// maxLazy is how many attempts of a transaction may be lazy: of a pop that conflicted with a push, the
// next one mostly can.
const maxLazy = 4

// begin gives the transaction the latest version, if it has none yet.
func (t *txn) begin() error {
	if t.version != 0 {
		return nil
	}
	if err := t.enter(t.db.o.Now()); err != nil || t.lazy {
		return err
	}
	return t.look()
}

// enter makes the transaction one of those that are open.
func (t *txn) enter(now time.Time) error {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if t.db.closed.Load() {
		return kv.ErrClosed
	}
	t.version, t.started, t.open = t.db.version, now, true
	t.db.txns.Add(&t.place, t)
	return nil
}

// observe notes what a lazy transaction depends on: what it has read, from a key to where a
// cursor is now.
func (t *txn) observe(c cache.Cursor, from []byte) {
	if t.snap == nil && !bytes.Equal(from, c.Pos) {
		to := c.Pos
		c.Pos = from
		t.depends(c.UpTo(to))
	}
}

// depends is observe with the range, which is kept as it is.
func (t *txn) depends(r kv.Range) {
	if t.snap != nil {
		return
	}
	t.observed = append(t.observed, r)
}

// look gives the transaction its snapshot, of the latest version: it has read nothing yet, or is lazy.
func (t *txn) look() error {
	if t.snap != nil {
		return nil
	}
	t.db.catchUp() // mostly, before others have to wait for it
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if err := t.moveOn(); err != nil {
		return err
	}
	t.db.catchUp()
	t.snap = t.db.pebble.NewSnapshot()
	return nil
}

// moveOn moves a lazy transaction on to the latest version. The lock is held.
func (t *txn) moveOn() error {
	db := t.db
	switch {
	case db.closed.Load():
		return kv.ErrClosed
	case !t.place.Taken():
		return kv.ErrTooOld
	case t.version == db.version:
		return nil
	}
	t.observed = normalized(t.observed)
	if anyWrote(db.recent.Since(t.version), t.observed) {
		t.ended = kv.ErrConflict // also for a function that does not look at the error
		return t.ended
	}
	db.txns.Remove(&t.place)
	t.version = db.version
	db.txns.Add(&t.place, t)
	return nil
}

// check returns the error with which a read or the commit must fail now.
func (t *txn) check() error {
	if err := t.wanted(); err != nil {
		return err
	}
	if t.version != 0 && (t.compared != 0 || t.tooOld(t.db.o.Now())) {
		return kv.ErrTooOld
	}
	return nil
}

// wanted is check without the time.
func (t *txn) wanted() error {
	return cmp.Or(retry.Ended(t.ctx), t.db.usable())
}

func (t *txn) tooOld(now time.Time) bool { return now.Sub(t.started) > t.db.o.Age }

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
func (t *txn) get(key kv.Range) ([]byte, error) {
	if err := t.reading(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	value, known := t.db.cache.Get(key.Begin, t.version)
	if known {
		t.depends(key)
		return value, nil
	}
	return t.getStored(key.Begin)
}

// lastKey returns the last stored key of a range, or nil, if it is in the cache. The key must
// not be changed. A lazy transaction does not depend on it: one that pushes to several priorities
// asks for several, and would conflict with all others that do.
func (t *txn) lastKey(span kv.Range) (key []byte, known bool, err error) {
	if err := t.reading(); err != nil {
		return nil, false, err
	}
	defer t.mu.Unlock()
	key, known = t.db.cache.LastKey(span, t.version)
	return key, known, nil
}

// lookForLast is lastKey for what is not in the cache. If there is no key, it has the cache know
// all that is empty around the range, as far as among goes: soon others in it may be asked for, as
// those of priorities that are times.
//
// All of it is read at one version: what was in the cache could change before the rest is looked
// for, so that a lazy transaction would conflict.
func (t *txn) lookForLast(span, among kv.Range) ([]byte, error) {
	if err := t.reading(); err != nil {
		return nil, err
	}
	err := t.look()
	t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	key, err := t.firstKey(kv.Range{Begin: overlay.Least(among.Begin, span.Begin), End: span.End}, true)
	if err != nil || bytes.Compare(key, span.Begin) >= 0 && key != nil {
		return key, err
	}
	if bytes.Compare(span.End, among.End) < 0 {
		_, err = t.firstKey(kv.Range{Begin: span.End, End: among.End}, false)
	}
	t.db.cache.LastKey(span, t.version) // so that the cache knows what is asked for
	return nil, err
}

// firstKey returns the first stored key of a range, or the last one, or nil.
func (t *txn) firstKey(span kv.Range, reverse bool) ([]byte, error) {
	span = overlay.Clone(span)
	c, err := t.cursor(span, kv.RangeOptions{Limit: 1, Reverse: reverse, KeysOnly: true})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	from := span.Begin
	if reverse {
		from = span.End
	}
	pair, _, err := c.Seek(from)
	return pair.Key, err
}

// known appends the pairs of a range, up to a limit, if all of them are in the cache.
func (t *txn) known(span kv.Range, o kv.RangeOptions, to []kv.KeyValue) (found []kv.KeyValue, known bool, err error) {
	if err := t.reading(); err != nil {
		return to, false, err
	}
	defer t.mu.Unlock()
	c := cache.NewCursor(span, o.Reverse)
	from := c.Pos
	pairs := t.db.cache.Read(&c, nil, o.Limit, t.version)
	if len(pairs) < o.Limit && !c.Done() || slices.ContainsFunc(pairs, cache.Pair.Large) {
		return to, false, nil
	}
	t.observe(c, from)
	return appendCopies(to, pairs, o), true, nil
}

// appendCopies appends pairs, of which the values are the caller's.
func appendCopies(to []kv.KeyValue, pairs []cache.Pair, o kv.RangeOptions) []kv.KeyValue {
	to = slices.Grow(to, len(pairs))
	for _, p := range pairs {
		found := kv.KeyValue{Key: p.Key()}
		if !o.KeysOnly {
			found.Value = bytes.Clone(p.Value())
		}
		to = append(to, found)
	}
	return to
}

// getStored returns what get does, from Pebble.
func (t *txn) getStored(key []byte) ([]byte, error) {
	if err := t.look(); err != nil {
		return nil, err
	}
	value, closer, err := t.snap.Get(key)
	if err == pebble.ErrNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, t.db.readError(err)
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
	for c := t.cursors.First(); c != nil; c = t.cursors.First() {
		c.close()
	}
	if t.open {
		t.db.mu.Lock()
		t.leave()
		t.db.mu.Unlock()
	}
	t.closeSnapshot()
}

// leave makes the transaction one that is not open any more. The store's lock is held.
func (t *txn) leave() {
	t.open = false
	t.db.txns.Remove(&t.place)
	delete(t.db.expired, t)
	if t.db.txns.Len() == 0 {
		t.db.recent = recentWrites{} // nobody needs it
	}
}

// closeSnapshot is for when the store's lock is not held: Pebble looks for compactions then.
func (t *txn) closeSnapshot() {
	if t.snap != nil {
		t.snap.Close()
		t.snap = nil
	}
}
