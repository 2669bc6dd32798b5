package embedded

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
)

// faults makes changes of files fail: the one with the number from, counted
// from 1, and with all set every later one too, as on a full disk.
type faults struct {
	count atomic.Int64
	from  atomic.Int64
	all   bool
	error error
}

func (f *faults) MaybeError(op errorfs.Op) error {
	switch op.Kind {
	case errorfs.OpCreate, errorfs.OpLink, errorfs.OpRename, errorfs.OpReuseForWrite, errorfs.OpMkdirAll,
		errorfs.OpFilePreallocate, errorfs.OpFileWrite, errorfs.OpFileWriteAt,
		errorfs.OpFileSync, errorfs.OpFileSyncData:
	default:
		return nil
	}
	n, from := f.count.Add(1), f.from.Load()
	if from > 0 && (n == from || f.all && n > from) {
		return fmt.Errorf("change %d of %s: %w", n, op.Path, f.error)
	}
	return nil
}

func (f *faults) String() string { return "<faults>" }

// faultsFrom returns faults that begin with a change.
func faultsFrom(from int64, all bool, err error) *faults {
	f := &faults{all: all, error: err}
	f.from.Store(from)
	return f
}

// TestDiskErrors has each change of a file fail in turn, once and from then on,
// while writers are at work. Whatever fails: no panic, nobody waits for ever,
// the errors say what is wrong, the failed store stays failed, and once the disk
// works again all that was acknowledged is there, whole.
func TestDiskErrors(t *testing.T) {
	part := int64(25) // each change at first, then fewer and fewer
	if testing.Short() {
		part = 5
	}
	for _, durability := range []Durability{Always, Interval} {
		for _, all := range []bool{true, false} {
			t.Run(fmt.Sprintf("%v/all=%v", durability, all), func(t *testing.T) {
				if !all {
					testkit.Long(t)
				}
				none := &faults{}
				diskErrors(t, none, durability)
				t.Logf("%d changes of files", none.count.Load())
				for from := int64(1); from <= none.count.Load(); from += 1 + from/part {
					diskErrors(t, faultsFrom(from, all, syscall.ENOSPC), durability)
				}
			})
		}
	}
}

func diskErrors(t *testing.T, f *faults, durability Durability) {
	t.Helper()
	fs := memFS()
	o := Options{FS: errorfs.Wrap(fs, f), Durability: durability, MemTable: smallMemTable}
	db, err := Open(t.Context(), "store", o)
	if err != nil {
		checkDiskError(t, f, err)
	}
	var least, most [crashWriters]int64
	if db != nil {
		least, most = diskWork(t, f, db)
		if err := db.Close(); err != nil {
			checkDiskError(t, f, err)
		}
	}
	unsynced := 0 // a power failure
	if durability == Interval {
		unsynced = 100
	}
	checkImage(t, fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(1, 2))}), least, most)
	checkImage(t, fs, least, most)
}

// diskWork writes until it is done or the store fails. It returns what was
// acknowledged and what was attempted.
func diskWork(t *testing.T, f *faults, db *DB) (least, most [crashWriters]int64) {
	var writers sync.WaitGroup
	for w := range crashWriters {
		writers.Go(func() {
			for n := int64(1); n <= 12; n++ {
				most[w] = n
				if err := writeRound(db, w, n, 3<<10); err != nil {
					checkDiskError(t, f, err)
					if !errors.Is(err, ErrFailed) {
						t.Errorf("fault %d: %v, want ErrFailed", f.from.Load(), err)
					}
					if err := writeRound(db, w, n, 0); !errors.Is(err, ErrFailed) {
						t.Errorf("fault %d: the next call returns %v, want ErrFailed", f.from.Load(), err)
					}
					return
				}
				least[w] = n
			}
		})
	}
	writers.Wait()
	return least, most
}

func checkDiskError(t *testing.T, f *faults, err error) {
	t.Helper()
	if f.from.Load() == 0 || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "free some space, or inodes") {
		t.Errorf("fault %d: error %q does not say that the disk is full and what to do", f.from.Load(), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testkit.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	dirWith := func(name, text string) string {
		dir := t.TempDir()
		testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		return dir
	}
	open := t.TempDir()
	mustOpen(t, open, Options{})
	link := filepath.Join(t.TempDir(), "link")
	testkit.NoError(t, os.Symlink(open, link))
	me := strconv.Itoa(os.Getpid())
	for _, c := range []struct {
		name, dir string
		want      []string
	}{
		{"no name", "", []string{"no directory"}},
		{"a file", file, []string{file, "is a file"}},
		{"below a file", filepath.Join(file, "x"), []string{file, "not a directory"}},
		{"another program's directory", dirWith("go.mod", ""), []string{"go.mod", "no store"}},
		{"another program's CONQ", dirWith("CONQ", "hello"), []string{"CONQ", "hello"}},
		{"a newer format", dirWith("CONQ", "conq embedded store, format 5\n"), []string{"format 5", "up to 4", "newer build"}},
		{"in use", open, []string{"pid " + me, "conq serve"}},
		{"in use by another name", link, []string{"pid " + me, "conq serve"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := listing(c.dir)
			db, err := Open(t.Context(), c.dir, Options{})
			if err == nil {
				db.Close()
				t.Fatal("it was opened")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %q", err, want)
				}
			}
			if after := listing(c.dir); after != before {
				t.Errorf("the directory held %s before, and %s after", before, after)
			}
		})
	}
}

func listing(dir string) string {
	entries, _ := os.ReadDir(dir)
	return fmt.Sprint(entries)
}

func TestOpenReadOnlyDirectory(t *testing.T) {
	for _, reason := range []error{syscall.EROFS, syscall.EACCES} {
		fs := memFS()
		testkit.NoError(t, fs.MkdirAll("store", 0o755))
		_, err := Open(t.Context(), "store", Options{FS: errorfs.Wrap(fs, faultsFrom(1, true, reason))})
		if !errors.Is(err, kv.ErrReadOnly) || !errors.Is(err, reason) {
			t.Errorf("error %v, want ErrReadOnly with %v", err, reason)
		}
	}
}

func TestOptions(t *testing.T) {
	for url, want := range map[string]string{
		"embedded:":                          "no directory given",
		"embedded:x?durability=never":        `durability "never" is not one of always, interval, memory`,
		"embedded:x?interval=1":              `interval "1" is not a positive duration such as 10ms`,
		"embedded:x?interval=0s":             `interval "0s" is not a positive duration such as 10ms`,
		"embedded:x?interval=-1s":            `interval "-1s" is not a positive duration such as 10ms`,
		"embedded:x?interval":                `interval "" is not a positive duration such as 10ms`,
		"embedded:x?sync=off":                `unknown option "sync"; there are durability and interval`,
		"embedded:x?interval=1s&interval=2s": `option "interval" is given twice`,
		"embedded:x?interval=%":              `invalid URL escape "%"`,
	} {
		db, err := kv.Open(t.Context(), url)
		if err == nil {
			db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", url, err, want)
		}
		if !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("%s: %v is no kv.ErrInvalid", url, err)
		}
	}
	if _, err := Open(t.Context(), "x", Options{Durability: 9, FS: memFS()}); err == nil {
		t.Error("an unknown durability was taken")
	}
	db, err := kv.Open(t.Context(), "embedded:"+filepath.Join(t.TempDir(), "new", "store")+"?durability=interval&interval=1ms")
	testkit.NoError(t, err)
	defer db.Close()
	if o := db.(*DB).o; o.Durability != Interval || o.Interval.String() != "1ms" {
		t.Errorf("opened with %v, %v", o.Durability, o.Interval)
	}
}

// TestInterval checks that Interval does sync in the end, and Memory writes all
// at Close.
func TestSyncedLater(t *testing.T) {
	for _, durability := range []Durability{Interval, Memory} {
		fs := memFS()
		db := mustOpen(t, "store", Options{FS: fs, Durability: durability})
		testkit.NoError(t, writeRound(db, 0, 1, 0))
		if durability == Interval {
			_ = db.wal.Sync() // what the ticker does
		} else if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		checkImage(t, fs.CrashClone(vfs.CrashCloneCfg{}), [crashWriters]int64{1}, [crashWriters]int64{1})
	}
}

// With Interval, what was committed is on disk after that time, without any other call.
func TestSyncedAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := memFS()
		db := mustOpen(t, "store", Options{FS: fs, Durability: Interval, Interval: time.Second})
		for n := range int64(3) {
			testkit.NoError(t, writeRound(db, 0, n+1, 0))
			if n > 0 { // the first one of a segment is synced, so that the segment can be missed
				checkImage(t, fs.CrashClone(vfs.CrashCloneCfg{}), [crashWriters]int64{n}, [crashWriters]int64{n})
			}
			<-time.After(2 * time.Second)
			synctest.Wait()
			checkImage(t, fs.CrashClone(vfs.CrashCloneCfg{}), [crashWriters]int64{n + 1}, [crashWriters]int64{n + 1})
		}
		testkit.Check(t, db.Close())
	})
}

// unreadable has reads of tables fail, once it is told to.
type unreadable struct{ now atomic.Bool }

func (u *unreadable) MaybeError(op errorfs.Op) error {
	if u.now.Load() && op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") {
		return syscall.EIO
	}
	return nil
}

func (u *unreadable) String() string { return "<unreadable>" }

// A read that is under way when the store fails tells that, and not what Pebble makes of tables which
// were not written any more.
func TestReadsOfFailedStore(t *testing.T) {
	testkit.Long(t)
	for _, fails := range []bool{false, true} {
		fs, u := memFS(), new(unreadable)
		db := mustOpen(t, "store", Options{FS: fs})
		for i := range 400 {
			mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%05d", i), make([]byte, 8<<10)) })
		}
		testkit.NoError(t, db.Close())
		db = mustOpen(t, "store", Options{FS: errorfs.Wrap(fs, u)})
		err := db.ReadTransact(t.Context(), func(r kv.Reader) (err error) {
			for _, err = range r.Range(kv.Range{Begin: []byte("0"), End: []byte("1")}, kv.RangeOptions{}) {
				if u.now.Store(true); fails {
					db.guard.Fail(syscall.EDQUOT)
				}
			}
			if _, got := r.Get([]byte("00300")); fails == errors.Is(got, syscall.EIO) {
				t.Errorf("the store has failed: %v; Get returns %v", fails, got)
			}
			return err
		})
		if errors.Is(err, ErrFailed) != fails || errors.Is(err, syscall.EIO) == fails {
			t.Errorf("the store has failed: %v; the loop ends with %v", fails, err)
		}
	}
}

func openUnreadable(t *testing.T) (*DB, *unreadable) {
	u := new(unreadable)
	return mustOpen(t, "store", Options{FS: errorfs.Wrap(memFS(), u), MemTable: smallMemTable, Cache: 1}), u
}

// flushed has all that a store has in tables, and nothing in the cache.
func flushed(t *testing.T, db *DB) {
	t.Helper()
	db.catchUp()
	testkit.NoError(t, db.pebble.Flush())
	forget(db)
}

// unknowable is a file system that can't tell of the log's files whether they are there.
type unknowable struct{ vfs.FS }

func (u unknowable) Stat(name string) (vfs.FileInfo, error) {
	if isSegment(u.PathBase(name)) {
		return nil, syscall.EIO
	}
	return u.FS.Stat(name)
}

// A commit for which no segment can be begun is not acknowledged.
func TestSegmentNotBegun(t *testing.T) {
	for _, durability := range []Durability{Always, Interval} {
		db := mustOpen(t, "store", Options{FS: unknowable{memFS()}, Durability: durability})
		if err := writeRound(db, 0, 1, 0); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: %v", durability, err)
		}
		if err := db.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("%v: Close: %v", durability, err)
		}
	}
}

// Every kind of read tells when a table can't be read: to one that took it for empty, a queue would.
func TestReadsUnreadable(t *testing.T) {
	db, u := openUnreadable(t)
	mustTransact(t, db, func(tx kv.Tx) {
		tx.Set([]byte("k"), []byte("v"))
		tx.Set([]byte("large"), make([]byte, 16*smallMemTable)) // more than there is memory for
	})
	flushed(t, db)
	large := kv.PrefixRange([]byte("large"))
	if err := db.ReadTransact(t.Context(), func(r kv.Reader) error { _, _, err := first(r, large, false); return err }); err != nil {
		t.Fatal(err)
	}
	span := kv.PrefixRange([]byte("k"))
	for name, read := range map[string]func(r kv.Reader) error{
		"get":        func(r kv.Reader) error { _, err := r.Get([]byte("k")); return err },
		"first":      func(r kv.Reader) error { _, _, err := first(r, span, false); return err },
		"last":       func(r kv.Reader) error { _, _, err := first(r, span, true); return err },
		"last key":   func(r kv.Reader) error { _, err := kvext.LastKey(r, span, kv.Range{}); return err },
		"last in it": func(r kv.Reader) error { _, err := kvext.LastKey(r, span, span); return err },
		"large":      func(r kv.Reader) error { _, _, err := first(r, large, false); return err }, // whose key is in the cache
		"last keys":  func(r kv.Reader) error { _, err := kvext.LastKeys(r, []kv.Range{span}, kv.Range{}, nil); return err },
	} {
		for _, snapshot := range []bool{false, true} {
			u.now.Store(true)
			err := db.Transact(t.Context(), func(tx kv.Tx) error {
				if snapshot {
					return read(tx.Snapshot())
				}
				return read(tx)
			})
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("%s, snapshot %v: %v, want an error of the disk", name, snapshot, err)
			}
		}
	}
}

// An addition to a number that can't be read is an error, and what its transaction has written
// besides is not there either.
func TestAddUnreadable(t *testing.T) {
	db, u := openUnreadable(t)
	mustTransact(t, db, func(tx kv.Tx) { tx.Add([]byte("n"), 1) })
	flushed(t, db)
	db.mu.Lock()
	clear(db.counters) // else it need not be read
	db.mu.Unlock()
	u.now.Store(true)
	err := db.Transact(t.Context(), func(tx kv.Tx) error {
		tx.Add([]byte("n"), 1)
		tx.Set([]byte("x"), nil)
		return nil
	})
	if !errors.Is(err, syscall.EIO) {
		t.Errorf("adding to what can't be read: %v", err)
	}
	u.now.Store(false)
	mustTransact(t, db, func(tx kv.Tx) { tx.Add([]byte("n"), 1) })
	if got := contents(t, db); !slices.Equal(got, []string{"n=\x02\x00\x00\x00\x00\x00\x00\x00"}) {
		t.Errorf("there is %q", got)
	}
}

// A fatal error of Pebble's fails the store. It is the error of the call that met it, or ends Pebble's
// goroutine, for which Close does not wait then.
func TestFatal(t *testing.T) {
	for _, ours := range []bool{true, false} {
		db := mustOpen(t, "store", Options{FS: memFS()})
		fatal := func() error {
			pebbleLogger{db}.Fatalf("MANIFEST set current failed: %v", syscall.EIO)
			t.Error("it returned")
			return nil
		}
		if ours {
			if err := guardfs.Run(fatal); !errors.Is(err, syscall.EIO) {
				t.Errorf("a call returned %v", err)
			}
		} else {
			go func() { _ = fatal() }()
			<-db.maimed
		}
		select {
		case <-db.maimed:
			if ours {
				t.Error("the goroutine that has called is taken for one of Pebble's")
			}
		default:
		}
		if err := writeRound(db, 0, 1, 0); !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EIO) {
			t.Errorf("a call after that: %v", err)
		}
		if err := db.Close(); !errors.Is(err, ErrFailed) {
			t.Errorf("Close: %v", err)
		}
	}
}
