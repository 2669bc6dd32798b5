package testkit

import (
	"context"
	"sync/atomic"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
)

// Hooked is a kv.DB that reports other limits, those that are not 0, and lets a test look at each
// attempt of a transaction.
type Hooked struct {
	kv.DB
	Bounds  kv.Limits
	Attempt func(kv.Tx) kv.Tx // called for each attempt; may wrap
	Reader  func(kv.Reader) kv.Reader
}

// Signals implements kvext.Local, which embedding hides.
func (h *Hooked) Signals() *kvext.Signals { return kvext.NewsOf(h.DB) }

// Deaf returns a store whose watches tell nothing, as if they took for ever.
func Deaf(db kv.DB) *Hooked {
	return &Hooked{DB: db, Attempt: func(tx kv.Tx) kv.Tx { return deafTx{tx} }}
}

type deafTx struct{ kv.Tx }

func (deafTx) Watch([]byte) <-chan error { return make(chan error) }

func (h *Hooked) Limits() kv.Limits {
	l := h.DB.Limits()
	if h.Bounds.Value > 0 {
		l.Value = h.Bounds.Value
	}
	if h.Bounds.Transaction > 0 {
		l.Transaction = h.Bounds.Transaction
	}
	if h.Bounds.Operations > 0 {
		l.Operations = h.Bounds.Operations
	}
	return l
}

func (h *Hooked) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return h.DB.Transact(ctx, func(tx kv.Tx) error {
		if h.Attempt != nil {
			tx = h.Attempt(tx)
		}
		return f(tx)
	})
}

func (h *Hooked) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	return h.DB.ReadTransact(ctx, func(r kv.Reader) error {
		if h.Reader != nil {
			r = h.Reader(r)
		}
		return f(r)
	})
}

// Counted returns db and a counter of the attempts of its transactions.
func Counted(db kv.DB) (*Hooked, *atomic.Int64) {
	var attempts atomic.Int64
	return &Hooked{DB: db, Attempt: func(tx kv.Tx) kv.Tx {
		attempts.Add(1)
		return tx
	}}, &attempts
}
