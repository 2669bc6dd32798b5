package guardfs

import (
	"errors"
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
