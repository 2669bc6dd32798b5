package faulty_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/kvtest"
	"github.com/conq-go/conq/kv/memory"
)

// Without faults the wrapper is as good a store as the one that it wraps. -short leaves it to TestConformanceWithFaults.
func TestConformance(t *testing.T) {
	testkit.Long(t)
	t.Run("memory", func(t *testing.T) { kvtest.Run(t, overMemory(faulty.Options{})) })
	t.Run("memory, small limits", func(t *testing.T) {
		kvtest.Run(t, overMemory(faulty.Options{Limits: kv.Limits{Key: 30, Value: 50, Transaction: 2000, Operations: 100}}))
	})
	t.Run("embedded", func(t *testing.T) { kvtest.Run(t, overEmbedded()) })
}

// With faults that a caller does not see, all cases still hold. The others make
// what the cases check come out differently, by design: the number of attempts
// (conflicts), or whether a transaction is acknowledged at all.
func TestConformanceWithFaults(t *testing.T) {
	t.Run("delays", func(t *testing.T) {
		e := overMemory(faulty.Options{
			Delay: 0.1, MaxDelay: 20 * time.Microsecond,
			Latency: time.Microsecond, ReadLatency: time.Microsecond, CommitLatency: 2 * time.Microsecond,
		})
		e.Bubble = true
		kvtest.Run(t, e)
	})
	// Watches are other ones where outcomes may be unknown, also if none is.
	t.Run("certain", func(t *testing.T) {
		kvtest.Run(t, overMemory(faulty.Options{Choose: func() faulty.Fate { return faulty.Fate{} }}))
	})
}

func overMemory(o faulty.Options) kvtest.Engine {
	var offset atomic.Int64 // of the clock
	return kvtest.Engine{
		Open: func(*testing.T) kv.DB {
			return faulty.New(memory.New(memory.Options{
				Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
			}), 1, o)
		},
		Advance: func(d time.Duration) { offset.Add(int64(d)) },
	}
}

func overEmbedded() kvtest.Engine {
	var offset atomic.Int64
	disks := map[kv.DB]vfs.FS{}
	open := func(t *testing.T, files vfs.FS) kv.DB {
		inner, err := embedded.Open(t.Context(), "db", embedded.Options{
			FS:  files,
			Now: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
		})
		testkit.NoError(t, err)
		db := faulty.New(inner, 1, faulty.Options{})
		disks[db] = files
		return db
	}
	return kvtest.Engine{
		Open:    func(t *testing.T) kv.DB { return open(t, vfs.NewMem()) },
		Reopen:  func(t *testing.T, db kv.DB) kv.DB { return open(t, disks[db]) },
		Advance: func(d time.Duration) { offset.Add(int64(d)) },
	}
}
