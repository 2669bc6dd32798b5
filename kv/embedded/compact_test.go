package embedded

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
)

// roomlessTables is a disk on which there is no room for tables from some moment on.
type roomlessTables struct{ full atomic.Bool }

func (r *roomlessTables) MaybeError(op errorfs.Op) error {
	if r.full.Load() && op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".sst") {
		return syscall.ENOSPC
	}
	return nil
}

func (r *roomlessTables) String() string { return "<no room for tables>" }

// fillTable has ten keys in a table of their own, and Pebble at rest, or at a disk that has it wait.
func fillTable(t *testing.T, db *DB) {
	t.Helper()
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range 10 {
			tx.Set(fmt.Appendf(nil, "%03d", 100*i+int(db.version)), nil)
		}
	})
	db.catchUp()
	if _, err := db.pebble.AsyncFlush(); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// A store that has failed does not have Pebble try compactions of tables that were not written without
// a pause: as long as it was open, that took a processor.
func TestFailedStoreRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := new(roomlessTables)
		db := mustOpen(t, "store", Options{FS: errorfs.Wrap(memFS(), disk), Durability: Memory, MemTable: smallMemTable})
		for range 3 { // one less than has Pebble compact them
			fillTable(t, db)
		}
		disk.full.Store(true)
		fillTable(t, db)
		<-time.After(time.Second)
		if db.failure() == nil {
			t.Error("the store has not failed")
		}
		if n := db.pebble.Metrics().Compact.FailedCount; n == 0 || n > 10 { // each rests for 100 ms
			t.Errorf("%d compactions failed in a second", n)
		}
	})
}

// compactionsFail is a disk on which there is no room for what compactions write from some moment on. It
// counts how often they try after that, and lets nobody go on who does so again and again.
type compactionsFail struct {
	vfs.FS
	full  atomic.Bool
	count atomic.Int64
	done  chan struct{}
}

func (c *compactionsFail) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if category != guardfs.ByCompaction || !c.full.Load() {
		return c.FS.Create(name, category)
	}
	if c.count.Add(1) > 100 {
		<-c.done
	}
	return nil, &os.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
}

// A store has no compaction tried again without a pause where there is no room for what it writes. It is as
// usable as before, and compacted when there is room; who closes it waits for no pause.
func TestCompactionsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &compactionsFail{FS: memFS(), done: make(chan struct{})}
		db := mustOpen(t, "store", Options{FS: disk, Durability: Memory, MemTable: smallMemTable})
		defer close(disk.done)
		disk.full.Store(true)
		const minute = 12 * guardfs.CompactionRest
		for range 6 {
			fillTable(t, db)
			<-time.After(minute / 6)
		}
		if n := disk.count.Load(); n < 2 || n > int64(minute/guardfs.CompactionRest)+2 {
			t.Errorf("%d compactions failed in a minute, not one every %v", n, guardfs.CompactionRest)
		}
		testkit.Check(t, db.failure())
		before := db.pebble.Metrics().Levels[0].TablesCount
		disk.full.Store(false)
		<-time.After(2 * guardfs.CompactionRest)
		if after := db.pebble.Metrics().Levels[0].TablesCount; before < 4 || after >= before {
			t.Errorf("there are %d tables of level 0 with room, %d without", after, before)
		}

		tried := disk.count.Load()
		disk.full.Store(true)
		for range 5 {
			fillTable(t, db)
		}
		if disk.count.Load() == tried {
			t.Error("there is no compaction that waits when the store is closed")
		}
		began := time.Now()
		testkit.Check(t, db.Close())
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v to close the store", took)
		}
	})
}
