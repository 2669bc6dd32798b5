package guardfs

import (
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
)

// A call into Pebble returns the errors with which Pebble panics, and mistakes end the program.
func TestRun(t *testing.T) {
	if err := Run(func() error { panic(error(syscall.EIO)) }); !errors.Is(err, syscall.EIO) {
		t.Errorf("a directory that can't be synced: %v", err)
	}
	for _, mistake := range []func() error{
		func() error { panic("no error") },
		func() error { var none []error; return none[0] },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a mistake was taken for an error of the disk")
				}
			}()
			t.Errorf("it returned %v", Run(mistake))
		}()
	}
}

// A fatal error inside of Run is its error, however deep the stack is; elsewhere it ends its goroutine.
func TestFatal(t *testing.T) {
	for _, depth := range []int{1, 1000} {
		var told error
		g := New(vfs.NewMem(), func(err error) { told = err })
		lost := false
		err := Run(func() error { return nested(depth, func() { g.Fatal(syscall.EIO, func() { lost = true }) }) })
		if !errors.Is(err, syscall.EIO) || told != syscall.EIO || g.Err() != syscall.EIO || lost {
			t.Errorf("%d calls deep: Run returned %v, the failure is %v, lost %v", depth, err, g.Err(), lost)
		}
		ended := make(chan bool)
		go func() {
			defer close(ended)
			g.Fatal(syscall.ENOSPC, func() { lost = true })
			t.Error("Fatal returned")
		}()
		<-ended
		if !lost || g.Err() != syscall.EIO {
			t.Errorf("outside of Run: lost %v, the failure is %v", lost, g.Err())
		}
	}
}

func nested(depth int, f func()) error {
	if depth == 0 {
		f()
		return nil
	}
	return nested(depth-1, f)
}

// After an error in a file that is no table, changes succeed and do nothing. Errors in tables are returned.
func TestPoison(t *testing.T) {
	mem := vfs.NewMem()
	g := New(mem, func(error) {})
	if _, err := g.Create("none/1.sst", vfs.WriteCategoryUnspecified); err == nil || g.Err() != nil {
		t.Errorf("a table: error %v, and the failure is %v", err, g.Err())
	}
	f, err := g.Create("none/log", vfs.WriteCategoryUnspecified)
	if err != nil || g.Err() == nil {
		t.Fatalf("error %v, and the failure is %v", err, g.Err())
	}
	if n, err := f.Write([]byte("void")); n != 4 || err != nil {
		t.Errorf("a write after that: %d, %v", n, err)
	}
	testkit.Check(t, g.MkdirAll("dir", 0o755))
	if names, err := mem.List(""); len(names) > 0 || err != nil {
		t.Errorf("there are %q, %v", names, err)
	}
}

// A compaction of a poisoned store rests once and ends, however many tables it would read.
func TestPoisonedTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		f, err := mem.Create("1.sst", vfs.WriteCategoryUnspecified)
		testkit.NoError(t, errors.Join(err, f.Close()))
		g := New(mem, func(error) {})
		f, err = g.Open("1.sst")
		testkit.Check(t, errors.Join(err, f.Close()))
		g.Fail(syscall.EIO)
		began := time.Now()
		if _, err := g.Open("1.sst"); err != syscall.EIO || time.Since(began) != failedRest {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// scarceFS is a file system without descriptors, for so many calls that need one.
type scarceFS struct {
	vfs.FS
	err  error
	left atomic.Int64
}

func (s *scarceFS) lacks() error {
	if s.left.Add(-1) >= 0 {
		return &os.PathError{Op: "open", Path: "x", Err: s.err}
	}
	return nil
}

func (s *scarceFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := s.lacks(); err != nil {
		return nil, err
	}
	return s.FS.Create(name, c)
}

func (s *scarceFS) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := s.lacks(); err != nil {
		return nil, err
	}
	return s.FS.Open(name, opts...)
}

func (s *scarceFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := s.lacks(); err != nil {
		return nil, err
	}
	return s.FS.OpenReadWrite(name, c, opts...)
}

func (s *scarceFS) OpenDir(name string) (vfs.File, error) {
	if err := s.lacks(); err != nil {
		return nil, err
	}
	return s.FS.OpenDir(name)
}

func (s *scarceFS) List(dir string) ([]string, error) {
	if err := s.lacks(); err != nil {
		return nil, err
	}
	return s.FS.List(dir)
}

// Where there is no descriptor for a while, what opens a file waits, and nothing fails; but not for ever, nor beyond the end of the store.
func TestScarceDescriptors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range []error{syscall.EMFILE, syscall.ENFILE} {
			s := &scarceFS{FS: vfs.NewMem(), err: err}
			g := New(s, func(error) {})
			opens := map[string]func() error{
				"create": func() error { return drop(g.Create("a", vfs.WriteCategoryUnspecified)) },
				"open":   func() error { return drop(g.Open("a")) },
				"write":  func() error { return drop(g.OpenReadWrite("a", vfs.WriteCategoryUnspecified)) },
				"dir":    func() error { return drop(g.OpenDir("")) },
				"list":   func() error { _, err := g.List(""); return err },
			}
			testkit.NoError(t, opens["create"]())
			for what, open := range opens {
				s.left.Store(50)
				if got := open(); got != nil || g.Err() != nil || s.left.Load() >= 0 {
					t.Errorf("%s, %v for a while: error %v, the store's %v, after %d calls", what, err, got, g.Err(), 50-s.left.Load())
				}
			}
			s.left.Store(1 << 40)
			began := time.Now()
			if got := opens["open"](); !errors.Is(got, err) || time.Since(began) < Patience {
				t.Errorf("open, %v for ever: error %v after %v", err, got, time.Since(began))
			}
			stopped := make(chan struct{})
			g.Stopped = stopped
			close(stopped)
			began = time.Now()
			if got := opens["open"](); !errors.Is(got, err) || time.Since(began) > time.Second {
				t.Errorf("open of a store that ends, %v: error %v after %v", err, got, time.Since(began))
			}
			g.Stopped = nil
			if opens["create"](); !errors.Is(g.Err(), err) {
				t.Errorf("create, %v for ever: the store's error is %v", err, g.Err())
			}
		}
	})
}

func drop(f vfs.File, err error) error {
	if err == nil {
		err = f.Close()
	}
	return err
}
