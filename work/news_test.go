package work

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// A worker that waits learns at once, without a watch, of a job that is put through the store that it
// uses, whatever the handle. So does one of a union.
func TestNewsWithinProcess(t *testing.T) {
	for _, union := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { newsWithinProcess(t, union) })
	}
}

func newsWithinProcess(t *testing.T, union bool) {
	db := testkit.Deaf(faulty.New(memory.New(memory.Options{}), 1, faulty.Options{Limits: kv.Limits{Shared: true}}))
	waits, puts := open(t, db, Options{}), open(t, db, Options{})
	other, err := Open(context.Background(), db, "another", queue.String())
	noError(t, err)
	source := Source[string](waits)
	if union {
		source, err = NewUnion(other, waits)
		noError(t, err)
	}
	var got *Lease[string]
	go func() {
		all, err := source.ReserveWaitN(context.Background(), 1)
		noError(t, err)
		got = all[0]
	}()
	synctest.Wait()
	_, err = puts.Put(context.Background(), "job")
	noError(t, err)
	synctest.Wait() // no time passes
	if got == nil || got.Value != "job" {
		t.Errorf("got %v", got)
	} else {
		noError(t, got.Ack(context.Background()))
	}
	noError(t, waits.Close())
	noError(t, other.Close())
	noError(t, puts.Close())
	noError(t, db.Close())
}
