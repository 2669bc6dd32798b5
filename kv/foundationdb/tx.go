package foundationdb

import (
	"bytes"
	"cmp"

	"github.com/conq-go/conq/kv"
)

// tx is the kv.Tx of an attempt. Its writes stay in memory until the commit, and
// what it reads is merged with them.
type tx struct{ reader }

// Signals implements kv.Local: there are none, as several processes share the store.
func (x tx) Signals() *kv.Signals { return nil }

// refused keeps err, from a method that can't return it, for the commit, and tells
// whether the method must not go on.
func (t *txn) refused(err error) bool {
	if t.bad == nil {
		t.bad = err
	}
	return err != nil || t.ended
}

func (x tx) Set(key, value []byte) {
	if !x.t.refused(x.t.db.limits.CheckSet(key, value)) {
		x.t.writes.Set(key, value)
	}
}

func (x tx) Clear(key []byte) {
	if !x.t.refused(x.t.db.limits.CheckKey(key)) {
		x.t.writes.Clear(key)
	}
}

func (x tx) ClearRange(r kv.Range) {
	r, err := bounds(r)
	if !x.t.refused(err) && !empty(r) {
		x.t.writes.ClearRange(r)
	}
}

func (x tx) Add(key []byte, delta int64) {
	if !x.t.refused(x.t.db.limits.CheckKey(key)) {
		x.t.writes.Add(key, delta)
	}
}

func (x tx) AddReadConflict(r kv.Range) {
	r, err := bounds(r)
	if err == nil && !x.t.ended {
		err = x.t.fixVersion() // a conflict with what is committed since when
	}
	if !x.t.refused(err) {
		x.t.conflict(r)
	}
}

func (x tx) AddWriteConflict(r kv.Range) {
	r, err := bounds(r)
	if !x.t.refused(err) && !empty(r) {
		x.t.conflicts = append(x.t.conflicts, r)
	}
}

func (x tx) Watch(key []byte) <-chan error {
	w := &watch{key: bytes.Clone(key), told: make(chan error, 1)}
	if err := x.t.db.limits.CheckKey(key); x.t.refused(err) {
		w.tell(cmp.Or(err, kv.ErrClosed))
	} else {
		x.t.watches = append(x.t.watches, w)
	}
	return w.told
}

func (x tx) OnCommit(f func()) {
	if f != nil {
		x.t.onCommit = append(x.t.onCommit, f)
	}
}
