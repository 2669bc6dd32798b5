// Package guardfs keeps a store's files as an error left them, and the process alive.
//
// It is a file system that passes all on until a change of a file fails, other than of a table. From
// then on it changes nothing: the error is kept, and calls that change files do nothing and succeed.
// So Pebble, which answers such errors by ending the process, goes on until the store is closed. Run
// has calls into Pebble return its fatal errors; Fatal is what Pebble's logger does with one.
//
// Invariants: the error is kept before the call that met it returns; the first one counts; once
// Freeze has returned no file changes any more. All methods may be called by many goroutines at once.
package guardfs

import (
	"errors"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system that a store runs on: its write-ahead log and its Pebble. Errors in tables, which
// Pebble can live with, pass through; a table is written anew.
type FS struct {
	vfs.FS

	// To be set before the file system is used.
	InPlace func() error    // an error if names lead elsewhere by now: see named
	Stopped <-chan struct{} // closed when the store is about to be; nil, if it never is

	frozen  atomic.Bool
	failure atomic.Pointer[error]
	onFail  func(error)
	tired   atomic.Bool // a compaction has failed: the next one has to wait

	// Changes of files hold changing for reading, so that once Freeze has
	// returned, nothing changes any more.
	changing sync.RWMutex
}

// New returns the guarded file system over fs. onFail is called once, with the error that poisons it.
func New(fs vfs.FS, onFail func(error)) *FS {
	return &FS{FS: fs, InPlace: func() error { return nil }, onFail: onFail}
}

// Err returns the error that poisoned the store, or nil.
func (g *FS) Err() error {
	if e := g.failure.Load(); e != nil {
		return *e
	}
	return nil
}

// Fail poisons the store. The first error counts.
func (g *FS) Fail(err error) {
	if g.failure.CompareAndSwap(nil, &err) {
		g.frozen.Store(true)
		g.onFail(err)
	}
}

// Freeze makes all changes to come do nothing, after those under way.
func (g *FS) Freeze() {
	g.frozen.Store(true)
	g.changing.Lock()
	defer g.changing.Unlock()
}

// change runs a change of the file called name. See FS.
func (g *FS) change(name string, f func() error) error {
	g.changing.RLock()
	defer g.changing.RUnlock()
	if g.frozen.Load() {
		return nil
	}
	err := f()
	if err != nil && !isTable(g.PathBase(name)) {
		g.Fail(err)
		return nil
	}
	return err
}

// named runs what uses files by their names, unless these are those of another directory by now: if
// that of an open store is moved, and a new store is made in its place, they are that one's.
func (g *FS) named(f func() error) error {
	if err := g.InPlace(); err != nil {
		g.Fail(err)
		return err
	}
	return f()
}

// renaming is change for what uses files by their names.
func (g *FS) renaming(name string, f func() error) error {
	return g.change(name, func() error { return g.named(f) })
}

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// file runs a change that opens a file, and wraps the file.
func (g *FS) file(name string, open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := g.renaming(name, func() error {
		return g.patiently(func() (err error) { f, err = open(); return err })
	})
	if err != nil {
		return nil, err
	}
	if f == nil { // it does nothing: see guardFile
		if f, err = vfs.NewMem().Create("void", vfs.WriteCategoryUnspecified); err != nil {
			return nil, err
		}
	}
	return &guardFile{File: f, g: g, name: name}, nil
}

// Open opens a file that is read. It fails for a table of a poisoned store, after a rest.
func (g *FS) Open(name string, opts ...vfs.OpenOption) (f vfs.File, err error) {
	if failure := g.Err(); isTable(name) && failure != nil {
		g.wait(failedRest)
		return nil, failure
	}
	err = g.named(func() error {
		return g.patiently(func() (err error) { f, err = g.FS.Open(name, opts...); return err })
	})
	return f, err
}

func (g *FS) List(dir string) (names []string, err error) {
	err = g.patiently(func() (err error) { names, err = g.FS.List(dir); return err })
	return names, err
}

// Patience is how long opening a file waits while the process, or the system, has no descriptor left: connections take and give back
// some all the time, and a store that fails stays so.
const Patience = time.Minute

// patiently calls open again, for Patience, while there is no descriptor left.
func (g *FS) patiently(open func() error) error {
	var waited time.Duration
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := open()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || waited >= Patience || g.frozen.Load() {
			return err
		}
		select {
		case <-g.Stopped:
			return err
		case <-time.After(pause):
			waited += pause
		}
	}
}

// failedRest is how long it takes until a table of a poisoned store could not be opened. Tables that went into the
// void can't be read, and a compaction of them is tried again at once, for as long as the store is open. One that
// had the others opened would rest for each of them, and who opens the store waits for it to end.
const failedRest = 100 * time.Millisecond

// CompactionRest is how long a compaction waits, after one has failed, before it writes. A disk without
// room for its tables often has some for commits, for long; Pebble tries again at once, and had a
// processor and the disk busy with that until there was room. Its scheduler of compactions would be
// the place for that, but Pebble makes it when it opens, and exports none that could be wrapped.
const CompactionRest = 5 * time.Second

// ByCompaction is what Pebble calls what it writes in a compaction.
const ByCompaction vfs.DiskWriteCategory = "pebble-compaction"

// CompactionFailed has the next compaction wait.
func (g *FS) CompactionFailed() { g.tired.Store(true) }

func (g *FS) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-g.Stopped:
	}
}

func (g *FS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if c == ByCompaction && g.tired.CompareAndSwap(true, false) {
		g.wait(CompactionRest)
	}
	return g.file(name, func() (vfs.File, error) { return g.FS.Create(name, c) })
}

func (g *FS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file(name, func() (vfs.File, error) { return g.FS.ReuseForWrite(old, name, c) })
}

func (g *FS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.file(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

func (g *FS) OpenDir(name string) (vfs.File, error) {
	return g.file(name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

func (g *FS) Link(old, name string) error {
	return g.renaming(name, func() error { return g.FS.Link(old, name) })
}

func (g *FS) Rename(old, name string) error {
	return g.renaming(name, func() error { return g.FS.Rename(old, name) })
}

func (g *FS) MkdirAll(dir string, perm os.FileMode) error {
	return g.change(dir, func() error { return g.FS.MkdirAll(dir, perm) })
}

// Remove and RemoveAll return their errors: Pebble copes with them.

func (g *FS) Remove(name string) error { return g.removing(func() error { return g.FS.Remove(name) }) }
func (g *FS) RemoveAll(name string) error {
	return g.removing(func() error { return g.FS.RemoveAll(name) })
}

func (g *FS) removing(f func() error) error {
	g.changing.RLock()
	defer g.changing.RUnlock()
	if g.frozen.Load() {
		return nil
	}
	return g.named(f)
}

// Lock does nothing: the store holds the lock that Pebble would take, and can so
// give it back whatever Pebble does.
func (g *FS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (g *FS) Unwrap() vfs.FS { return g.FS }

// guardFile is a file open for writing.
type guardFile struct {
	vfs.File
	g    *FS
	name string
}

func (f *guardFile) Write(p []byte) (int, error) {
	return f.writing(p, func() (int, error) { return f.File.Write(p) })
}

func (f *guardFile) WriteAt(p []byte, offset int64) (int, error) {
	return f.writing(p, func() (int, error) { return f.File.WriteAt(p, offset) })
}

// writing is change for a write of p, all of which is taken also when the error was kept.
func (f *guardFile) writing(p []byte, write func() (int, error)) (n int, err error) {
	err = f.g.change(f.name, func() (err error) { n, err = write(); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

func (f *guardFile) Preallocate(offset, length int64) error {
	return f.g.change(f.name, func() error { return f.File.Preallocate(offset, length) })
}

func (f *guardFile) Sync() error { return f.g.change(f.name, f.File.Sync) }

// SyncData, which has commits on disk, is worth nothing if the file is no longer found by its name.
func (f *guardFile) SyncData() error { return f.g.renaming(f.name, f.File.SyncData) }

func (f *guardFile) SyncTo(length int64) (full bool, err error) {
	err = f.g.change(f.name, func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}

// Close closes the file even of a poisoned store, so that no handle is left.
func (f *guardFile) Close() error {
	if f.g.frozen.Load() {
		_ = f.File.Close()
		return nil
	}
	return f.g.change(f.name, f.File.Close)
}

// fatal is what Fatal panics with where Run can recover.
type fatal struct{ error }

// Fatal poisons the store and does not return. Where Pebble runs in a goroutine of its own, that
// goroutine ends, which gives back the locks that it holds, and lost is called before; where it runs
// in a caller's, it panics for Run to recover.
func (g *FS) Fatal(err error, lost func()) {
	g.Fail(err)
	if insideRun() {
		panic(fatal{err})
	}
	lost()
	runtime.Goexit()
}

// Run runs a call into Pebble and returns the errors that it panics with.
//
//go:noinline
func Run(call func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fatal:
			err = r.error
		case runtime.Error: // a mistake in the program
			panic(r)
		case error: // Pebble couldn't sync a directory, or a log
			err = r
		default:
			panic(r)
		}
	}()
	return call()
}

// runName is asked of Run itself, so that it is right wherever Run is moved, and whatever it is called.
var runName = runtime.FuncForPC(reflect.ValueOf(Run).Pointer()).Name()

// insideRun tells whether Run is on the stack, however deep that is.
func insideRun() bool {
	pcs := make([]uintptr, 128)
	for skip := 0; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		if n == 0 {
			return false
		}
		frames := runtime.CallersFrames(pcs[:n])
		for more := true; more; {
			var frame runtime.Frame
			if frame, more = frames.Next(); frame.Function == runName {
				return true
			}
		}
	}
}
