package embedded

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/conq-go/conq/kv"
)

// tableOpens is a disk on which there is no room for tables from some moment on. It counts how often
// one is opened after that, and lets nobody go on who does so again and again.
type tableOpens struct {
	full  atomic.Bool
	count atomic.Int64
	done  chan struct{}
}

const manyOpens = 100

func (o *tableOpens) MaybeError(op errorfs.Op) error {
	switch {
	case !o.full.Load() || !strings.HasSuffix(op.Path, ".sst"):
	case op.Kind == errorfs.OpFileWrite:
		return syscall.ENOSPC
	case op.Kind == errorfs.OpOpen && o.count.Add(1) > manyOpens:
		<-o.done
	}
	return nil
}

func (o *tableOpens) String() string { return "<table opens>" }

// A store that has failed does not have Pebble try compactions of tables that were not written without
// a pause: as long as it was open, that took a processor.
func TestFailedStoreRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &tableOpens{done: make(chan struct{})}
		db := mustOpen(t, "store", Options{FS: errorfs.Wrap(memFS(), disk), Durability: Memory, MemTable: smallMemTable})
		defer close(disk.done)
		fill := func() {
			mustTransact(t, db, func(tx kv.Tx) {
				for i := range 10 {
					tx.Set(fmt.Appendf(nil, "%03d", 100*i+int(db.version)), nil)
				}
			})
			db.catchUp()
			_, err := db.pebble.AsyncFlush()
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for range 3 { // one less than has Pebble compact them
			fill()
		}
		disk.full.Store(true)
		fill()
		<-time.After(time.Second)
		if db.failure() == nil {
			t.Error("the store has not failed")
		}
		if n := disk.count.Load(); n == 0 || n > manyOpens {
			t.Errorf("tables were opened %d times in a second", n)
		}
	})
}
