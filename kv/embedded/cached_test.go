package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// cachingFS is a file system whose log is on a disk with a cache, as the system has one. What
// was to be written when a sync failed is still read, and is never written: the cache takes it for
// written, and forgets it in a power failure.
type cachingFS struct {
	vfs.FS
	fail         int               // which sync of the log fails, counted from 1
	syncs        int               // that there were
	dirty, clean map[diskByte]byte // what is on disk where the cache has something else
}

type diskByte struct {
	path   string
	offset int64
}

func newCachingFS(fail int) *cachingFS {
	return &cachingFS{FS: memFS(), fail: fail, dirty: map[diskByte]byte{}, clean: map[diskByte]byte{}}
}

func (c *cachingFS) Create(name string, k vfs.DiskWriteCategory) (vfs.File, error) {
	return c.file(name)(c.FS.Create(name, k))
}

func (c *cachingFS) OpenReadWrite(name string, k vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return c.file(name)(c.FS.OpenReadWrite(name, k, opts...))
}

func (c *cachingFS) file(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil || !isSegment(c.PathBase(name)) {
			return f, err
		}
		return &cachedFile{f, c, name}, nil
	}
}

// powerFailure has the files be what is on disk.
func (c *cachingFS) powerFailure(t *testing.T) {
	t.Helper()
	for _, changed := range []map[diskByte]byte{c.dirty, c.clean} {
		for at, was := range changed {
			f, err := c.FS.OpenReadWrite(at.path, vfs.WriteCategoryUnspecified)
			if err == nil {
				_, err = f.WriteAt([]byte{was}, at.offset)
				err = errors.Join(err, f.Close())
			}
			testkit.NoError(t, err)
		}
		clear(changed)
	}
}

type cachedFile struct {
	vfs.File
	fs   *cachingFS
	path string
}

func (f *cachedFile) WriteAt(p []byte, offset int64) (int, error) {
	was := make([]byte, len(p)) // zeros behind the end
	if _, err := f.ReadAt(was, offset); err != nil && err != io.EOF {
		return 0, err
	}
	for i, b := range was {
		at := diskByte{f.path, offset + int64(i)}
		if onDisk, ok := f.fs.clean[at]; ok {
			b = onDisk
			delete(f.fs.clean, at)
		}
		if _, ok := f.fs.dirty[at]; !ok {
			f.fs.dirty[at] = b
		}
	}
	return f.File.WriteAt(p, offset)
}

func (f *cachedFile) SyncData() error {
	f.fs.syncs++
	failed := f.fs.syncs == f.fs.fail
	for at, was := range f.fs.dirty {
		if at.path == f.path {
			delete(f.fs.dirty, at)
			if failed {
				f.fs.clean[at] = was
			}
		}
	}
	if failed {
		return syscall.EIO
	}
	return f.File.SyncData()
}

// Whichever sync of the log fails, once: when the store is opened again, all that it then has is on
// disk, also what the failed sync was to bring there.
func TestFailedSyncForgotten(t *testing.T) {
	testkit.Long(t)
	n := 1
	for {
		fs := newCachingFS(n)
		failedSync(t, fs)
		if t.Failed() || fs.syncs < n {
			break
		}
		n++
	}
	if n < 10 {
		t.Errorf("%d syncs failed in turn, which are too few", n-1)
	}
}

func failedSync(t *testing.T, fs *cachingFS) {
	t.Helper()
	var seen []string
	for life := range 3 {
		db, err := Open(t.Context(), "store", Options{FS: fs, MemTable: smallMemTable})
		if errors.Is(err, syscall.EIO) { // once
			db, err = Open(t.Context(), "store", Options{FS: fs, MemTable: smallMemTable})
		}
		if err != nil {
			t.Fatalf("sync %d failed: opening %d: %v", fs.fail, life, err)
		}
		for i := range 3 {
			key := fmt.Sprintf("%d %d", life, i)
			err := db.Transact(context.Background(), func(tx kv.Tx) error { tx.Set([]byte(key), nil); return nil })
			if err == nil {
				seen = append(seen, key+"=")
			} else if !errors.Is(err, syscall.EIO) {
				t.Fatalf("sync %d failed: %v", fs.fail, err)
			}
		}
		failed := db.Close() // or earlier
		if failed != nil && !errors.Is(failed, syscall.EIO) {
			t.Fatalf("sync %d failed: closing %d: %v", fs.fail, life, failed)
		}
		if failed != nil {
			db = mustOpen(t, "store", Options{FS: fs, MemTable: smallMemTable})
			seen = contents(t, db) // this was acknowledged, too
			testkit.NoError(t, db.Close())
			fs.powerFailure(t)
		}
	}
	fs.powerFailure(t)
	db, err := Open(t.Context(), "store", Options{FS: fs.FS, MemTable: smallMemTable})
	if err != nil {
		t.Fatalf("sync %d failed: opening after a power failure: %v", fs.fail, err)
	}
	defer db.Close()
	if got := contents(t, db); !slices.Equal(got, seen) {
		t.Errorf("sync %d failed: there is %q, want %q", fs.fail, got, seen)
	}
}
