package faulty

import (
	"bytes"
	"cmp"
	"context"
	"iter"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
)

// reader reads through t. The transaction below must not be touched once t has
// ended: it may be held back, and commit at any time.
type reader struct {
	*txn
	inner    kv.Reader
	snapshot bool // its reads don't conflict
}

func (r reader) Context() context.Context { return r.ctx }

func (r reader) Snapshot() kv.Reader {
	if r.ended {
		return r
	}
	return reader{r.txn, r.inner.Snapshot(), true}
}

func (r reader) Get(key []byte) ([]byte, error) {
	if err := r.read(kv.Read{Key: key}); err != nil {
		return nil, err
	}
	if err := r.db.limits.CheckKey(key); err != nil {
		return nil, err
	}
	if !r.snapshot && !r.owns(key) {
		r.readsKey(key)
	}
	return r.inner.Get(key)
}

func (r reader) Range(rng kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	var pairs iter.Seq2[kv.KeyValue, error]
	if !r.ended {
		pairs = r.inner.Range(rng, opts) // at once, as the caller may reuse what rng holds
	}
	what := copied(kv.Read{Range: rng, Options: opts})
	return func(yield func(kv.KeyValue, error) bool) {
		if err := r.read(what); err != nil {
			yield(kv.KeyValue{}, err)
			return
		}
		if !r.snapshot {
			r.reads(1)
		}
		n := 0
		for pair, err := range pairs {
			if n++; err == nil {
				err = r.next(n)
			}
			if err != nil {
				yield(kv.KeyValue{}, err)
				return
			}
			if !yield(pair, nil) {
				return
			}
			if r.ended { // while the loop was left hanging
				yield(kv.KeyValue{}, kv.ErrClosed)
				return
			}
		}
	}
}

// next is what comes before the nth pair of a range.
func (r reader) next(n int) error {
	if n > 1 {
		r.pairs++
	}
	if n == 2 {
		r.mayFail()
		return cmp.Or(r.pause(0), r.alive())
	}
	return r.alive()
}

// Prefetch implements kv.Prefetch: what was asked for takes no wait but that of the next read.
func (r reader) Prefetch(reads []kv.Read) {
	for _, read := range reads {
		r.asked = append(r.asked, copied(read))
	}
}

// LastKeys implements kvext.LastKeys, with one wait for all.
func (r reader) LastKeys(spans []kv.Range, among kv.Range, to [][]byte) ([][]byte, error) {
	if err := r.read(kv.Read{Key: []byte{}}); err != nil { // like no other
		return nil, err
	}
	if !r.snapshot {
		r.reads(len(spans))
	}
	return kvext.LastKeys(r.inner, spans, among, to)
}

// tx is the kv.Tx of a transaction.
type tx struct{ reader }

// Signals implements kvext.Local: they are those of the store below, which may be reached in other ways.
func (t *tx) Signals() *kvext.Signals { return kvext.SignalsOf(t.db.inner) }

func (t *tx) below() kv.Tx { return t.session.tx }

func (t *tx) Set(key, value []byte) {
	if !t.refused(t.db.limits.CheckSet(key, value)) {
		t.writes.Set(key, value)
		t.below().Set(key, value)
	}
}

func (t *tx) Clear(key []byte) {
	if !t.refused(t.db.limits.CheckKey(key)) {
		t.writes.Clear(key)
		t.below().Clear(key)
	}
}

func (t *tx) ClearRange(r kv.Range) {
	if bounds, err := r.Bounds(); !t.refused(err) {
		t.writes.ClearRange(bounds)
		t.below().ClearRange(r)
	}
}

func (t *tx) Add(key []byte, delta int64) {
	if !t.refused(t.db.limits.CheckKey(key)) {
		t.writes.Add(key, delta)
		t.below().Add(key, delta)
	}
}

func (t *tx) AddReadConflict(r kv.Range) {
	_, err := r.Bounds()
	if err == nil && !t.ended {
		err = t.fixVersion() // a conflict with what is committed since when
	}
	if t.refused(err) {
		return
	}
	if bytes.Equal(r.End, kv.After(r.Begin)) {
		t.readsKey(r.Begin)
	} else {
		t.reads(1)
	}
	t.below().AddReadConflict(r)
}

func (t *tx) AddWriteConflict(r kv.Range) {
	if _, err := r.Bounds(); !t.refused(err) {
		t.conflicts++
		t.below().AddWriteConflict(r)
	}
}

func (t *tx) OnCommit(f func()) {
	if !t.ended && f != nil {
		t.onCommit = append(t.onCommit, f)
	}
}

// Watch implements kv.Tx. Where outcomes may be unknown, or news is late, the caller gets a
// channel that tells so, in place of the one from the store below, which knows.
func (t *tx) Watch(key []byte) <-chan error {
	if t.ended {
		return (&watch{told: make(chan error, 1)}).tell(kv.ErrClosed)
	}
	if err := t.db.limits.CheckKey(key); t.refused(err) {
		return (&watch{told: make(chan error, 1)}).tell(err)
	}
	t.session.watched = true
	below := t.below().Watch(key)
	if !t.db.o.unknown() && t.db.o.Cluster == nil {
		return below
	}
	t.unknowing = t.unknowing || !t.owns(key)
	w := &watch{below: below, told: make(chan error, 1)}
	t.watches = append(t.watches, w)
	return w.told
}

// watch is a channel given to the caller, for one of the store below.
type watch struct {
	below <-chan error
	told  chan error // has room for one
}

// tell ends the watch.
func (w *watch) tell(err error) <-chan error {
	if err != nil {
		w.told <- err
	}
	close(w.told)
	return w.told
}

// follow ends the watch as that of the store below ends, with a change when the cluster tells of it.
func (t *txn) follow(w *watch) { w.tell(t.news(w.below)) }

func (t *txn) news(below <-chan error) error {
	c := t.db.o.Cluster
	if c == nil {
		return <-below
	}
	if c.figures.compares {
		_ = cmp.Or(t.wait(askVersion), t.wait(askRead)) // below ends with the context
	}
	select {
	case err := <-below:
		return err
	default:
	}
	if err := <-below; err != nil {
		return err
	}
	return t.sleep(c.news())
}

// tellWatches ends all watches with an error, or has them live on without one.
func (t *txn) tellWatches(err error) {
	for _, w := range t.watches {
		if err == nil {
			go t.follow(w)
		} else {
			w.tell(err)
		}
	}
	t.watches = nil
}
