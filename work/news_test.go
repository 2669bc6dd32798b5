package work

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// A worker that waits learns at once, without a watch, of a job that is put through the store that it
// uses, whatever the handle.
func TestNewsWithinProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := testkit.Deaf(faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Limits: kv.Limits{Shared: true}}))
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
