package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
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
	"github.com/conq-go/conq/kv/embedded/internal/wal"
)

// A store that is new, below a symbolic link, is known by one name from the beginning.
func TestOpenTwice(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	testkit.NoError(t, os.Symlink(t.TempDir(), link))
	name := filepath.Join(link, "new", "store")
	mustOpen(t, name, Options{})
	if second, err := Open(t.Context(), name, Options{}); err == nil {
		second.Close()
		t.Error("it was opened twice")
	}
}

// A new store survives a power failure, and so do the directories above it that are new.
func TestNewDirectories(t *testing.T) {
	for _, dir := range []string{"store", "a/store", "a/b/store"} {
		fs := memFS()
		db := mustOpen(t, dir, Options{FS: fs})
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), []byte("v")) })
		again := mustOpen(t, dir, Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
		if got := contents(t, again); !slices.Equal(got, []string{"k=v"}) {
			t.Errorf("%s has %q after a power failure", dir, got)
		}
	}
}

// A path that is a link to what is not there is told as one.
func TestDanglingLink(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(t.TempDir(), "none", "store"), link); err != nil {
		t.Skip(err)
	}
	for _, dir := range []string{link, filepath.Join(link, "store")} {
		_, err := Open(t.Context(), dir, Options{})
		if want := link + " is a symbolic link to what is not there"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("opening %s: %v, want %q", dir, err, want)
		}
	}
}

// TestOpenDiskErrors opens a store of which a part is in tables, and a part in the log, while
// each change of a file fails in turn, once and from then on: that is an error of Open, or nothing
// has happened, and all is there when the disk works again.
func TestOpenDiskErrors(t *testing.T) {
	testkit.Long(t)
	fs, want := storeInParts(t)
	none := &faults{}
	openDiskErrors(t, none, copyOf(fs), want)
	if none.count.Load() < 10 {
		t.Errorf("only %d changes of files to open a store", none.count.Load())
	}
	for _, all := range []bool{true, false} {
		for from := int64(1); from <= none.count.Load(); from++ {
			openDiskErrors(t, faultsFrom(from, all, syscall.ENOSPC), copyOf(fs), want)
		}
	}
}

func openDiskErrors(t *testing.T, f *faults, fs *vfs.MemFS, want []string) {
	t.Helper()
	db, err := Open(t.Context(), "store", Options{FS: errorfs.Wrap(fs, f), MemTable: smallMemTable})
	if err != nil {
		checkDiskError(t, f, err)
	} else {
		_ = db.Close() // what failed then may have been after Open
	}
	again := mustOpen(t, "store", Options{FS: fs})
	if got := contents(t, again); !slices.Equal(got, want) {
		t.Errorf("fault %d, all %v: there are %d pairs, not %d", f.from.Load(), f.all, len(got), len(want))
	}
}

// Opening fails at once on a full disk, however many tables there are.
func TestOpenFailsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // with a clock that stands still unless all wait for it
		fs, _ := storeInParts(t)
		began := time.Now()
		db, err := Open(t.Context(), "store", Options{FS: errorfs.Wrap(copyOf(fs), faultsFrom(1, true, syscall.ENOSPC)), MemTable: smallMemTable})
		if err == nil {
			_ = db.Close()
			t.Fatal("it was opened")
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// storeInParts returns a store that was not closed, and what is in it: more than it keeps in the
// log when it is opened.
func storeInParts(t *testing.T) (*vfs.MemFS, []string) {
	fs := memFS()
	db := mustOpen(t, "store", Options{FS: fs, MemTable: smallMemTable})
	for i := range 2 * littleBytes / 4096 {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%04d", i), make([]byte, 4096)) })
	}
	return copyOf(fs), contents(t, db)
}

// Close ends transactions that were open for too long, too.
func TestCloseExpired(t *testing.T) {
	var now atomic.Int64
	db := mustOpen(t, t.TempDir(), Options{
		Durability: Memory, Age: time.Second, Now: func() time.Time { return time.Unix(0, now.Load()) },
	})
	for i := range 50 {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%02d", i), make([]byte, 5000)) })
	}
	withoutCache(db) // so that it has to read what is closed
	err := db.ReadTransact(context.Background(), func(r kv.Reader) error {
		n := 0
		for _, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			if n++; n == 1 {
				now.Add(int64(2 * time.Second))
				mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("x"), nil) })
				if err := db.Close(); err != nil {
					t.Error("closing:", err)
				}
			}
		}
		return nil
	})
	if !errors.Is(err, kv.ErrClosed) {
		t.Errorf("the loop ended with %v, want ErrClosed", err)
	}
}

// Close ends all loops of a transaction, whichever of them has ended before.
func TestCloseUnderLoops(t *testing.T) {
	for first := range 3 {
		db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("a"), nil); tx.Set([]byte("b"), nil) })
		withoutCache(db) // so that they read in Pebble
		err := db.ReadTransact(t.Context(), func(r kv.Reader) (err error) {
			var loops []func() (kv.KeyValue, error, bool)
			var stops []func()
			for range 3 {
				next, stop := iter.Pull2(r.Range(kv.Range{}, kv.RangeOptions{}))
				defer stop()
				if _, err, ok := next(); err != nil || !ok {
					t.Fatal(err, ok)
				}
				loops, stops = append(loops, next), append(stops, stop)
			}
			stops[first]()
			if err := db.Close(); err != nil {
				t.Errorf("closing after loop %d has ended: %v", first, err)
			}
			for _, next := range slices.Delete(loops, first, first+1) {
				if _, err, _ = next(); !errors.Is(err, kv.ErrClosed) {
					t.Errorf("after loop %d another one ended with %v, want ErrClosed", first, err)
				}
			}
			return err
		})
		if !errors.Is(err, kv.ErrClosed) {
			t.Errorf("the transaction ended with %v, want ErrClosed", err)
		}
	}
}

// When a store fails, who watches is told: that it has, and if it is so, that it is not known
// whether his transaction was committed. So are those who wait for signals.
func TestWatchFailure(t *testing.T) {
	f := &faults{error: syscall.EIO, all: true}
	db := mustOpen(t, "store", Options{FS: errorfs.Wrap(memFS(), f)})
	var before, own, after <-chan error
	mustTransact(t, db, func(tx kv.Tx) { before = tx.Watch([]byte("a")); tx.Set([]byte("x"), nil) })
	news := db.Signals().Wait("topic")
	f.from.Store(f.count.Load() + 1)
	err := db.Transact(context.Background(), func(tx kv.Tx) error {
		own = tx.Watch([]byte("b"))
		tx.Set([]byte("y"), nil)
		return nil
	})
	if !errors.Is(err, kv.ErrCommitUnknown) {
		t.Fatalf("a commit that is not on disk returned %v", err)
	}
	<-news
	for name, ch := range map[string]<-chan error{"before": before, "own": own} {
		err := <-ch
		if !errors.Is(err, ErrFailed) || errors.Is(err, kv.ErrCommitUnknown) != (name == "own") {
			t.Errorf("watch %s was told %v", name, err)
		}
	}
	err = db.Transact(context.Background(), func(tx kv.Tx) error { after = tx.Watch([]byte("c")); return nil })
	if after != nil || !strings.Contains(fmt.Sprint(err), "failed") {
		t.Errorf("after that a transaction ran, and returned %v", err)
	}
}

// Of a watch that has told, its context keeps nothing, which may be that of the whole program.
func TestWatchForgotten(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	by := 0
	for i := range 3 {
		var told <-chan error
		err := db.Transact(testkit.CountedContext{Context: ctx, By: &by}, func(tx kv.Tx) error { told = tx.Watch([]byte("k")); return nil })
		if err != nil || by != 1 {
			t.Fatalf("%v; the context is waited for by %d", err, by)
		}
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), []byte{byte(i)}) })
		if err := <-told; err != nil || by != 0 {
			t.Errorf("it was told %v; the context is waited for by %d", err, by)
		}
	}
}

// roomy is a file system that is full until a file is removed.
type roomy struct {
	vfs.FS
	file string
}

func (r *roomy) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if r.file != "" {
		return nil, &os.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
	}
	return r.FS.Create(name, c)
}

func (r *roomy) Remove(name string) error {
	err := r.FS.Remove(name)
	if err == nil && r.PathBase(name) == r.file {
		r.file = ""
	}
	return err
}

// A store on a full disk is opened with the room that a file of the log has which is kept to be
// used again.
func TestOpenFullDisk(t *testing.T) {
	for _, spare := range []bool{true, false} {
		fs := memFS()
		db := mustOpen(t, "store", Options{FS: fs, MemTable: smallMemTable})
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), []byte("v")) })
		testkit.NoError(t, db.Close())
		if spare {
			f, err := fs.Create(fs.PathJoin("store", wal.Spare), vfs.WriteCategoryUnspecified)
			testkit.NoError(t, errors.Join(err, f.Close()))
		}
		db, err := Open(t.Context(), "store", Options{FS: &roomy{fs, wal.Spare}})
		if !spare {
			if !errors.Is(err, kv.ErrFull) {
				t.Errorf("without anything to remove: %v, want kv.ErrFull", err)
			}
			continue
		}
		testkit.NoError(t, err)
		if got := contents(t, db); !slices.Equal(got, []string{"k=v"}) {
			t.Errorf("it has %q", got)
		}
		mustTransact(t, db, func(tx kv.Tx) { tx.Clear([]byte("k")) })
		testkit.Check(t, db.Close())
	}
}

// lockless is a file system that locks nothing.
type lockless struct {
	vfs.FS
	error
}

func (l lockless) Lock(string) (io.Closer, error) { return nil, l.error }

func TestOpenWithoutLocks(t *testing.T) {
	for _, c := range []struct{ err, is error }{
		{syscall.ENOLCK, syscall.ENOLCK},
		{&os.PathError{Op: "open", Path: "LOCK", Err: syscall.EACCES}, kv.ErrReadOnly}, // it can't be made
	} {
		_, err := Open(t.Context(), "store", Options{FS: lockless{memFS(), c.err}})
		if !errors.Is(err, c.is) || c.is == syscall.ENOLCK && !strings.Contains(err.Error(), "its file LOCK can't be locked") {
			t.Errorf("where nothing can be locked, as %v: %v", c.err, err)
		}
	}
}

// lockedFor is a file system whose files are locked by another for so many tries.
type lockedFor struct {
	vfs.FS
	tries *int
}

func (l lockedFor) Lock(name string) (io.Closer, error) {
	if *l.tries--; *l.tries >= 0 {
		return nil, syscall.EAGAIN
	}
	return l.FS.Lock(name)
}

// A lock that another process gives up soon is waited for, and one that it keeps is not for long.
func TestLockWaits(t *testing.T) {
	tries := 3
	mustOpen(t, "store", Options{FS: lockedFor{memFS(), &tries}})
	tries = 1000
	if _, err := Open(t.Context(), "store", Options{FS: lockedFor{memFS(), &tries}}); !errors.Is(err, ErrInUse) || tries < 980 {
		t.Errorf("after %d tries: %v", 1000-tries, err)
	}
}

// A disk is full for a user whose quota is used up.
func TestFull(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		if err := plain(&os.PathError{Op: "write", Path: "f", Err: errno}); !errors.Is(err, kv.ErrFull) || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// Options that no store can have are refused by name, with what is allowed, before there is a directory.
func TestOpenBadOptions(t *testing.T) {
	for _, c := range []struct {
		Options
		want string
	}{
		{Options{MemTable: leastMemTable - 1}, "Options.MemTable is 4095: it can be 4096 to"},
		{Options{MemTable: largestMemTable + 1}, "it can be 4096 to"},
		{Options{MemTable: -1}, "must not be negative"},
		{Options{Durability: 9}, "no such durability"},
	} {
		fs := memFS()
		c.FS = fs
		_, err := Open(t.Context(), "store", c.Options)
		if !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want an ErrInvalid with %q", err, c.want)
		}
		if _, err := fs.Stat("store"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after %q there is a directory: %v", c.want, err)
		}
	}
	if err := mustOpen(t, "store", Options{FS: memFS(), MemTable: leastMemTable}).Close(); err != nil {
		t.Error("with the least MemTable:", err)
	}
}
