package embedded

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/kvtest"
)

// TestContract runs the conformance suite, with memtables so small that what it writes goes through flushes and
// compactions too: in directories for one durability, and if it is thorough for all; otherwise on files in memory, and
// with -short not, as others run them at once then: TestCrash and TestLives.
func TestContract(t *testing.T) {
	for _, durability := range []Durability{Always, Interval, Memory} {
		t.Run(durability.String(), func(t *testing.T) {
			if durability != Always {
				testkit.Long(t)
			}
			o := Options{Durability: durability, MemTable: 256 << 10}
			if durability != Always && !testkit.Thorough() {
				o.FS = memFS()
			}
			kvtest.Run(t, engine(o))
		})
	}
}

func engine(o Options) kvtest.Engine {
	var offset atomic.Int64
	o.Now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	dirs := map[kv.DB]string{}
	open := func(t *testing.T, dir string) kv.DB {
		db := mustOpen(t, dir, o)
		dirs[db] = dir
		return db
	}
	return kvtest.Engine{
		Open:    func(t *testing.T) kv.DB { return open(t, t.TempDir()) },
		Reopen:  func(t *testing.T, db kv.DB) kv.DB { return open(t, dirs[db]) },
		Advance: func(d time.Duration) { offset.Add(int64(d)) },
	}
}
