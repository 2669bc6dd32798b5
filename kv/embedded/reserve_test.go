package embedded

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// smallDisk is a disk with room for so many bytes.
type smallDisk struct {
	vfs.FS
	mu   sync.Mutex
	size uint64
	set  map[string]uint64 // set aside for files without content
}

func newSmallDisk(size uint64) *smallDisk {
	return &smallDisk{FS: memFS(), size: size, set: make(map[string]uint64)}
}

// free returns how much room there is. The lock is held.
func (d *smallDisk) free() uint64 {
	used := uint64(0)
	names, _ := d.FS.List("store")
	for _, name := range names {
		path := d.FS.PathJoin("store", name)
		if info, err := d.FS.Stat(path); err == nil {
			used += max(uint64(info.Size()), d.set[path])
		}
	}
	return d.size - min(used, d.size)
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return vfs.DiskUsage{AvailBytes: d.free(), TotalBytes: d.size}, nil
}

func (d *smallDisk) resize(size uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.size = size
}

func (d *smallDisk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.set, name)
	return d.FS.Remove(name)
}

func (d *smallDisk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.free() == 0 {
		return nil, &os.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
	}
	f, err := d.FS.Create(name, c)
	return smallFile{f, d, name}, err
}

func (d *smallDisk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, opts...)
	return smallFile{f, d, name}, err
}

type smallFile struct {
	vfs.File
	d    *smallDisk
	name string
}

// room has a write refused for which there is none.
func (f smallFile) fits(bytes int) error {
	if f.d.free() < uint64(bytes) {
		return &os.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
	}
	return nil
}

func (f smallFile) Write(p []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.fits(len(p)); err != nil {
		return 0, err
	}
	return f.File.Write(p)
}

func (f smallFile) WriteAt(p []byte, offset int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	info, err := f.File.Stat()
	if err != nil {
		return 0, err
	}
	if err := f.fits(int(max(0, offset+int64(len(p))-info.Size()))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, offset)
}

func (f smallFile) Preallocate(_, length int64) error {
	if filepath.Base(f.name) != reserveFile {
		return nil
	}
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.fits(int(length)); err != nil {
		return err
	}
	f.d.set[f.name] = uint64(length)
	return nil
}

func setOne(db *DB, key []byte, value []byte) error {
	return db.Transact(context.Background(), func(tx kv.Tx) error { tx.Set(key, value); return nil })
}

// A store that has filled its disk opens with its reserve, has all that was acknowledged, takes
// nothing more, is drained, and takes items again when there is room.
func TestFullDisk(t *testing.T) {
	testkit.Long(t)
	synctest.Test(t, func(t *testing.T) {
		disk := newSmallDisk(3 * reserveSize)
		o := Options{FS: disk, MemTable: 1 << 20}
		db := mustOpen(t, "store", o)
		random := rand.NewChaCha8([32]byte{})
		stored := 0
		var err error
		for ; ; stored++ {
			value := make([]byte, 100<<10)
			_, _ = random.Read(value)
			if err = setOne(db, itemKey(0, stored), value); err != nil {
				break
			}
		}
		if !errors.Is(err, kv.ErrFull) || stored < 100 {
			t.Fatalf("%d items, then %v", stored, err)
		}
		_ = db.Close()

		disk.resize(disk.size - disk.room()) // as if others had used up the rest
		if db, err = Open(t.Context(), "store", o); err != nil {
			t.Fatalf("the full store does not open: %v", err)
		}
		defer func() { db.Close() }()
		if err := setOne(db, []byte("one more"), []byte("x")); !errors.Is(err, kv.ErrFull) {
			t.Errorf("a full store takes an item: %v", err)
		}
		mustTransact(t, db, func(tx kv.Tx) { // what adds no more than it removes is let through
			tx.Clear(itemKey(0, 0))
			tx.Set(itemKey(1, 0), []byte("moved"))
		})
		if n := len(contents(t, db)); n < stored {
			t.Errorf("%d items of %d that were acknowledged", n, stored)
		}
		for i := range stored + 1 {
			mustTransact(t, db, func(tx kv.Tx) { tx.Clear(itemKey(0, i)) })
		}
		mustTransact(t, db, func(tx kv.Tx) { tx.Clear(itemKey(1, 0)) })
		<-time.After(10 * reclaimTime) // by the clock of synctest
		if err := setOne(db, []byte("again"), []byte("x")); err != nil {
			t.Errorf("after the drain: %v", err)
		}
		if _, err := disk.Stat("store/" + reserveFile); err != nil {
			t.Errorf("there is no new reserve: %v", err)
		}
	})
}

func (d *smallDisk) room() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.free()
}

// A disk that is too small for a store is not called full without a figure.
func TestSmallDisk(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: newSmallDisk(20 << 20)})
	defer db.Close()
	testkit.WantError(t, setOne(db, []byte("a"), nil), kv.ErrFull, "fewer than 32 MB are free")
}

// Who has the store open is only told: that it can't be written keeps nobody out.
func TestOwnerOnFullDisk(t *testing.T) {
	disk := newSmallDisk(3 * reserveSize)
	db := mustOpen(t, "store", Options{FS: disk})
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("a"), []byte("b")) })
	testkit.NoError(t, db.Close())
	testkit.NoError(t, disk.Remove("store/"+reserveFile))
	disk.resize(3*reserveSize - disk.room())
	noteOwner(disk, "store")
	if _, err := disk.Stat("store/" + ownerFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file %s names a process that is gone: %v", ownerFile, err)
	}
}
