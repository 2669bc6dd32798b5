package embedded

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// While one writer's sync is held up, others come. All of them share the next one.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{FS: memFS(), open: make(chan struct{})}
		db, err := Open(t.Context(), "store", Options{FS: gate})
		testkit.NoError(t, err)
		gate.shut.Store(true)
		before := gate.syncs.Load()
		var done atomic.Int64
		write := func(i int) {
			err := db.Transact(context.Background(), func(tx kv.Tx) error {
				tx.Set(fmt.Append(nil, i), nil)
				return nil
			})
			testkit.Check(t, err)
			done.Add(1)
		}
		var writers sync.WaitGroup
		for i := range 20 {
			writers.Go(func() { write(i) })
			if i < 2 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if n := done.Load(); n != 0 {
			t.Errorf("%d writers were acknowledged and the log is not on disk", n)
		}
		close(gate.open)
		writers.Wait()
		if n := gate.syncs.Load() - before; n != 2 {
			t.Errorf("%d syncs for a writer, and 19 that came meanwhile, want 2", n)
		}
		testkit.Check(t, db.Close())
	})
}
