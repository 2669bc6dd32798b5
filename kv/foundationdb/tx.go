package foundationdb

import (
	"bytes"
	"cmp"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// tx is the kv.Tx of an attempt. Its writes stay in memory until the commit, and
// what it reads is merged with them.
type tx struct {
	reader
	*overlay.Writer
}

// Signals implements kvext.Local: there are none, as several processes share the store.
func (x tx) Signals() *kvext.Signals { return nil }

func (x tx) AddReadConflict(r kv.Range) {
	r, err := r.Bounds()
	if err == nil && !x.Ended {
		err = x.t.fixVersion() // a conflict with what is committed since when
	}
	if !x.Refused(err) {
		x.t.conflict(overlay.Clone(r))
	}
}

func (x tx) Watch(key []byte) <-chan error {
	w := &watch{key: bytes.Clone(key), told: make(chan error, 1)}
	if err := x.Limits.CheckKey(key); x.Refused(err) {
		w.tell(cmp.Or(err, kv.ErrClosed))
	} else {
		x.t.watches = append(x.t.watches, w)
	}
	return w.told
}
