package overlay

import (
	"bytes"

	"github.com/conq-go/conq/kv"
)

// Writer is the writing half of a kv.Tx: it buffers what is written within the limits, and keeps
// for the commit what else a transaction leaves until then.
type Writer struct {
	Overlay
	Limits    *kv.Limits
	Conflicts []kv.Range // write conflict ranges, none of them empty
	Committed []func()   // given to OnCommit
	first     [1]func()  // room for the first of them
	Bad       error      // the first one of a method that returns none
	Ended     bool       // then writes do nothing
}

// Refused keeps err for the commit, and tells whether a write must not go on.
func (w *Writer) Refused(err error) bool {
	if w.Bad == nil {
		w.Bad = err
	}
	return err != nil || w.Ended
}

// Set implements kv.Tx.
func (w *Writer) Set(key, value []byte) {
	if !w.Refused(w.Limits.CheckSet(key, value)) {
		w.Overlay.Set(key, value)
	}
}

// Clear implements kv.Tx.
func (w *Writer) Clear(key []byte) {
	if !w.Refused(w.Limits.CheckKey(key)) {
		w.Overlay.Clear(key)
	}
}

// ClearRange implements kv.Tx.
func (w *Writer) ClearRange(r kv.Range) {
	r, err := r.Bounds()
	if !w.Refused(err) && bytes.Compare(r.Begin, r.End) < 0 {
		w.Overlay.ClearRange(r)
	}
}

// Add implements kv.Tx.
func (w *Writer) Add(key []byte, delta int64) {
	if !w.Refused(w.Limits.CheckKey(key)) {
		w.Overlay.Add(key, delta)
	}
}

// AddWriteConflict implements kv.Tx.
func (w *Writer) AddWriteConflict(r kv.Range) {
	r, err := r.Bounds()
	if !w.Refused(err) && bytes.Compare(r.Begin, r.End) < 0 {
		w.Conflicts = append(w.Conflicts, Clone(r))
	}
}

// OnCommit implements kv.Tx.
func (w *Writer) OnCommit(f func()) {
	if f != nil {
		if len(w.Committed) == 0 {
			w.Committed = w.first[:0]
		}
		w.Committed = append(w.Committed, f)
	}
}
