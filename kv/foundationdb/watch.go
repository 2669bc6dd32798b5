package foundationdb

import (
	"bytes"
	"context"
	"runtime"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/retry"
)

// watch is a channel that tells when a key has another value than a transaction
// left there.
//
// The library's own watches are part of the transaction that makes them: they
// conflict, and are set off by what it writes afterwards. So the transaction notes the
// value when it commits, and the library's watch is made in one of its own, which
// begins after the commit and compares first. What changes in between is seen by
// the comparison; what changes later, by the watch.
type watch struct {
	key, value []byte     // nil for absent
	told       chan error // has room for one
}

// tell ends w, with nil for a change.
func (w *watch) tell(err error) {
	if err != nil {
		w.told <- err
	}
	close(w.told)
}

// look notes the values that the attempt leaves at the keys that it watches. Those
// that it has not written are read, all at the same time.
func (t *txn) look() error {
	asked := make([]future[[]byte], len(t.watches))
	for i, w := range t.watches {
		value, own := t.writes.Own(w.key)
		if w.value = value; !own {
			asked[i] = t.tr.get(t.db.key(w.key))
		}
	}
	for i, w := range t.watches {
		if asked[i] == nil {
			continue
		}
		value, err := await(t.ctx, asked[i])
		if err != nil {
			return t.fault(err)
		}
		w.value = t.writes.Added(w.key, value)
	}
	return nil
}

// startWatches has the watches of a committed attempt wait, each in a goroutine
// that ends with it: at a change, at the end of the caller's context, or when the
// store closes.
func (t *txn) startWatches() {
	for _, w := range t.watches {
		ctx, leave := t.db.within(t.caller)
		go func() {
			defer leave()
			w.tell(t.db.follow(ctx, w))
		}()
	}
	t.watches = nil
}

// follow waits until the key of w has another value.
func (db *DB) follow(ctx context.Context, w *watch) error {
	c := &call{db: db, ctx: ctx}
	tr, err := db.client.begin()
	if err != nil {
		return c.fault(err)
	}
	defer runtime.KeepAlive(tr)
	defer tr.cancel()
	for {
		err := c.fault(w.changed(ctx, tr, db.key(w.key)))
		switch {
		case err == nil:
			return nil
		case c.codeOf(err) == codeTooManyWatches:
			if retry.Sleep(ctx, unwatched); ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err = kv.ErrConflict // has tr made as new, which its own error does not
		}
		c.retries = 0 // their limit is for transactions that somebody waits for
		if err := c.pause(tr, err); err != nil {
			return err
		}
	}
}

// unwatched is how often a value is compared that the library has no watch for: it has 10,000, unless
// the program gives it more. Beyond that, news is learnt up to so much later.
const unwatched = time.Second

// changed compares the value of key once, and if it has not changed, waits.
func (w *watch) changed(ctx context.Context, tr transaction, key []byte) error {
	value, err := await(ctx, tr.get(key))
	if err != nil || !bytes.Equal(value, w.value) || (value == nil) != (w.value == nil) {
		return err
	}
	change := tr.watch(key)
	defer change.Cancel() // also if the commit was given up: it would count until the binding's finalizer runs
	if _, err := await(ctx, tr.commit()); err != nil {
		return err
	}
	_, err = await(ctx, change)
	return err
}
