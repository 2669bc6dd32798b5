package work

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// deaf is a store whose watches tell nothing, as if they took for ever.
type deaf struct{ kv.DB }

func (s deaf) Signals() *kv.Signals { return kv.NewsOf(s.DB) }

func (s deaf) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return s.DB.Transact(ctx, func(tx kv.Tx) error { return f(deafTx{tx}) })
}

type deafTx struct{ kv.Tx }

func (deafTx) Watch([]byte) <-chan error { return make(chan error) }

// A worker that waits learns at once, without a watch, of a job that is put through the store that it
// uses, whatever the handle.
func TestNewsWithinProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := deaf{faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Limits: kv.Limits{Shared: true}})}
		waits, puts := open(t, db, Options{}), open(t, db, Options{})
		var got *Lease[string]
		go func() {
			var err error
			got, err = waits.Reserve(context.Background())
			noError(t, err)
		}()
		synctest.Wait()
		_, err := puts.Put(context.Background(), "job")
		noError(t, err)
		synctest.Wait() // no time passes
		if got == nil || got.Value != "job" {
			t.Errorf("got %v", got)
		} else {
			noError(t, got.Ack(context.Background()))
		}
		noError(t, waits.Close())
		noError(t, puts.Close())
		noError(t, db.Close())
	})
}
