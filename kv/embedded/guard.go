package embedded

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// guard is the file system that a store runs on: its journal and its Pebble. It poisons.
// Pebble answers an error in writing its log or its manifest by
// ending the process. So the first such error is kept, and from then on each
// change of a file does nothing and succeeds: Pebble goes on, into the void,
// until the store is closed, and the directory stays as the error left it. The
// error is set before the call that met it returns, so a commit that looks for
// it after its sync can't miss it.
//
// Errors in tables, which Pebble can live with, pass through; a table is written
// anew.
type guard struct {
	vfs.FS

	frozen  atomic.Bool
	failure atomic.Pointer[error]
	onFail  func(error)
	inPlace func() error    // an error if names lead elsewhere by now: see named
	stopped <-chan struct{} // closed when the store is about to be; nil, if it never is
	tired   atomic.Bool     // a compaction has failed: the next one has to wait

	// Changes of files hold changing for reading, so that once freeze has
	// returned, nothing changes any more.
	changing sync.RWMutex
}

func newGuard(fs vfs.FS, onFail func(error)) *guard {
	return &guard{FS: fs, onFail: onFail, inPlace: func() error { return nil }}
}

// err returns the error that poisoned the store, or nil.
func (g *guard) err() error {
	if e := g.failure.Load(); e != nil {
		return *e
	}
	return nil
}

// fail poisons the store. The first error counts.
func (g *guard) fail(err error) {
	if g.failure.CompareAndSwap(nil, &err) {
		g.frozen.Store(true)
		g.onFail(err)
	}
}

// freeze makes all changes to come do nothing, after those under way.
func (g *guard) freeze() {
	g.frozen.Store(true)
	g.changing.Lock()
	defer g.changing.Unlock()
}

// change runs a change of the file called name. See guard.
func (g *guard) change(name string, f func() error) error {
	g.changing.RLock()
	defer g.changing.RUnlock()
	if g.frozen.Load() {
		return nil
	}
	err := f()
	if err != nil && !isTable(g.PathBase(name)) && !isReserve(name) {
		g.fail(err)
		return nil
	}
	return err
}

// named runs what uses files by their names, unless these are those of another directory by now: if
// that of an open store is moved, and a new store is made in its place, they are that one's.
func (g *guard) named(f func() error) error {
	if err := g.inPlace(); err != nil {
		g.fail(err)
		return err
	}
	return f()
}

// renaming is change for what uses files by their names.
func (g *guard) renaming(name string, f func() error) error {
	return g.change(name, func() error { return g.named(f) })
}

func isTable(name string) bool {
	return strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob")
}

// file runs a change that opens a file, and wraps the file.
func (g *guard) file(name string, open func() (vfs.File, error)) (vfs.File, error) {
	var f vfs.File
	err := g.renaming(name, func() (err error) { f, err = open(); return err })
	if err != nil {
		return nil, err
	}
	if f == nil {
		f = void{}
	}
	return &guardFile{File: f, g: g, name: name}, nil
}

// Open opens a file that is read.
func (g *guard) Open(name string, opts ...vfs.OpenOption) (f vfs.File, err error) {
	if isTable(name) {
		g.rest()
	}
	err = g.named(func() (err error) { f, err = g.FS.Open(name, opts...); return err })
	return f, err
}

// failedRest is how long who opens a table of a poisoned store waits.
const failedRest = 100 * time.Millisecond

// rest has a poisoned store do little. Tables that went into the void can't be read, and a compaction
// of them is tried again at once, for as long as the store is open: that took a processor.
func (g *guard) rest() {
	if g.err() != nil {
		g.wait(failedRest)
	}
}

// tiredRest is how long a compaction waits, after one has failed, before it writes. A disk without
// room for its tables often has some for commits, for long; Pebble tries again at once, and had a
// processor and the disk busy with that until there was room. Its scheduler of compactions would be
// the place for that, but Pebble makes it when it opens, and exports none that could be wrapped.
const tiredRest = 5 * time.Second

// byCompaction is what Pebble calls what it writes in a compaction.
const byCompaction vfs.DiskWriteCategory = "pebble-compaction"

func (g *guard) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-g.stopped:
	}
}

func (g *guard) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if c == byCompaction && g.tired.CompareAndSwap(true, false) {
		g.wait(tiredRest)
	}
	return g.file(name, func() (vfs.File, error) { return g.FS.Create(name, c) })
}

func (g *guard) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return g.file(name, func() (vfs.File, error) { return g.FS.ReuseForWrite(old, name, c) })
}

func (g *guard) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return g.file(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, c, opts...) })
}

func (g *guard) OpenDir(name string) (vfs.File, error) {
	return g.file(name, func() (vfs.File, error) { return g.FS.OpenDir(name) })
}

func (g *guard) Link(old, name string) error {
	return g.renaming(name, func() error { return g.FS.Link(old, name) })
}

func (g *guard) Rename(old, name string) error {
	return g.renaming(name, func() error { return g.FS.Rename(old, name) })
}

func (g *guard) MkdirAll(dir string, perm os.FileMode) error {
	return g.change(dir, func() error { return g.FS.MkdirAll(dir, perm) })
}

// Remove and RemoveAll return their errors: Pebble copes with them.

func (g *guard) Remove(name string) error {
	g.changing.RLock()
	defer g.changing.RUnlock()
	if g.frozen.Load() {
		return nil
	}
	return g.named(func() error { return g.FS.Remove(name) })
}

func (g *guard) RemoveAll(name string) error {
	g.changing.RLock()
	defer g.changing.RUnlock()
	if g.frozen.Load() {
		return nil
	}
	return g.named(func() error { return g.FS.RemoveAll(name) })
}

// Lock does nothing: the store holds the lock that Pebble would take, and can so
// give it back whatever Pebble does.
func (g *guard) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (g *guard) Unwrap() vfs.FS { return g.FS }

// guardFile is a file open for writing.
type guardFile struct {
	vfs.File
	g    *guard
	name string
}

func (f *guardFile) Write(p []byte) (int, error) {
	n := len(p)
	err := f.g.change(f.name, func() (err error) { n, err = f.File.Write(p); return err })
	if err == nil {
		n = len(p) // also when the error was kept
	}
	return n, err
}

func (f *guardFile) WriteAt(p []byte, offset int64) (int, error) {
	n := len(p)
	err := f.g.change(f.name, func() (err error) { n, err = f.File.WriteAt(p, offset); return err })
	if err == nil {
		n = len(p)
	}
	return n, err
}

func (f *guardFile) Preallocate(offset, length int64) error {
	return f.g.change(f.name, func() error { return f.File.Preallocate(offset, length) })
}

func (f *guardFile) Sync() error     { return f.g.change(f.name, f.File.Sync) }
func (f *guardFile) SyncData() error { return f.g.change(f.name, f.File.SyncData) }

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

// void stands for a file that a poisoned store would have made.
type void struct{}

func (void) Close() error                           { return nil }
func (void) Read([]byte) (int, error)               { return 0, io.EOF }
func (void) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (void) Write(p []byte) (int, error)            { return len(p), nil }
func (void) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (void) Preallocate(int64, int64) error         { return nil }
func (void) Stat() (vfs.FileInfo, error)            { return voidInfo{}, nil }
func (void) Sync() error                            { return nil }
func (void) SyncTo(int64) (bool, error)             { return true, nil }
func (void) SyncData() error                        { return nil }
func (void) Prefetch(int64, int64) error            { return nil }
func (void) Fd() uintptr                            { return vfs.InvalidFd }

type voidInfo struct{}

func (voidInfo) Name() string           { return "" }
func (voidInfo) Size() int64            { return 0 }
func (voidInfo) Mode() os.FileMode      { return 0 }
func (voidInfo) ModTime() time.Time     { return time.Time{} }
func (voidInfo) IsDir() bool            { return false }
func (voidInfo) Sys() any               { return nil }
func (voidInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

// pebbleLogger passes Pebble's messages on and keeps its fatal ones from ending
// the process.
type pebbleLogger struct{ db *DB }

func (l pebbleLogger) Infof(string, ...any) {}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.db.log.Error("pebble", "message", fmt.Sprintf(format, args...))
}

// fatal is what Fatalf panics with where a caller of ours can recover.
type fatal struct{ error }

// Fatalf must not return. Where Pebble runs in a goroutine of its own, that
// goroutine ends, which gives back the locks that it holds; where it runs in a
// caller's, it panics for guarded to recover.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = cause // what it is matters more than what it kept from being done
		}
	}
	l.db.guard.fail(err)
	if calledBy("kv/embedded.guarded") {
		panic(fatal{err})
	}
	l.db.maim()
	runtime.Goexit()
}

// guarded runs a call into Pebble and returns the errors that it panics with.
func guarded(call func() error) (err error) {
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

func calledBy(function string) bool {
	pcs := make([]uintptr, 128)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, function) {
			return true
		}
		if !more {
			return false
		}
	}
}
