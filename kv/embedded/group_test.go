package embedded

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv"
)

// syncCounter counts the syncs of logs.
type syncCounter struct {
	vfs.FS
	n atomic.Int64
}

func (c *syncCounter) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := c.FS.Create(name, category)
	if err == nil && isLog(name) {
		f = countedFile{f, c}
	}
	return f, err
}

type countedFile struct {
	vfs.File
	c *syncCounter
}

func (f countedFile) SyncData() error { f.c.n.Add(1); return f.File.SyncData() }
func (f countedFile) Sync() error     { return f.SyncData() }

// While one writer's sync is held up, others come. The first of them asks for the
// next sync, and all who come until that begins share the one after it.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{FS: memFS(), open: make(chan struct{})}
		counter := &syncCounter{FS: gate}
		db, err := Open("store", Options{FS: counter})
		if err != nil {
			t.Fatal(err)
		}
		gate.shut.Store(true)
		before := counter.n.Load()
		var done atomic.Int64
		write := func(i int) {
			err := db.Transact(context.Background(), func(tx kv.Tx) error {
				tx.Set(fmt.Append(nil, i), nil)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
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
		if n := counter.n.Load() - before; n != 3 {
			t.Errorf("%d syncs for a writer, one that came, and 18 that came after it, want 3", n)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A writer who is alone again after others were there is not held up for them.
func TestAloneAgain(t *testing.T) {
	h := newHorizon(1)
	h.last = 5
	if h.enter() {
		t.Error("alone, though five are expected")
	}
	version := uint64(1)
	sync := func() uint64 { version++; return version }
	if err := h.settle(2, sync, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	h.leave()
	if !h.enter() {
		t.Error("not alone, though nobody else came")
	}
	h.leave()
	if version != 2 {
		t.Errorf("%d syncs, want 1", version-1)
	}
}
