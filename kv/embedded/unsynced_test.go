package embedded

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// A transaction that is not synced returns when the operating system has it. It waits for what it has seen of others, and whoever has
// seen it, and is not so itself, waits for it.
func TestNoSync(t *testing.T) {
	noSync := func(do func(kv.Tx) error) func(kv.Tx) error {
		return func(tx kv.Tx) error { kv.NoSync(tx); return do(tx) }
	}
	set := func(key string) func(kv.Tx) error {
		return func(tx kv.Tx) error { tx.Set([]byte(key), nil); return nil }
	}
	get := func(key string) func(kv.Tx) error {
		return func(tx kv.Tx) error { _, err := tx.Get([]byte(key)); return err }
	}
	both := func(f, g func(kv.Tx) error) func(kv.Tx) error {
		return func(tx kv.Tx) error {
			if err := f(tx); err != nil {
				return err
			}
			return g(tx)
		}
	}
	scan := func(tx kv.Tx) error {
		_, _, err := first(tx, kv.PrefixRange([]byte("a")), false)
		return err
	}
	for what, c := range map[string]struct {
		before []func(kv.Tx) error
		do     func(kv.Tx) error
		waits  bool
	}{
		"a write":                               {do: noSync(set("b"))},
		"that has seen what is on disk":         {do: noSync(both(get("old"), set("b")))},
		"beside a write":                        {before: []func(kv.Tx) error{set("a")}, do: noSync(both(get("old"), set("b")))},
		"that has seen a write":                 {before: []func(kv.Tx) error{set("a")}, do: noSync(both(get("a"), set("b"))), waits: true},
		"that has seen a write by a loop":       {before: []func(kv.Tx) error{set("a")}, do: noSync(both(scan, set("b"))), waits: true},
		"that has seen a write in a snapshot":   {before: []func(kv.Tx) error{set("a")}, do: noSync(func(tx kv.Tx) error { tx.Set([]byte("b"), nil); _, err := tx.Snapshot().Get([]byte("a")); return err })},
		"that has seen another":                 {before: []func(kv.Tx) error{noSync(set("a"))}, do: noSync(both(get("a"), set("b")))},
		"that has seen one that has seen":       {before: []func(kv.Tx) error{set("a"), noSync(both(get("a"), set("b")))}, do: noSync(both(get("b"), set("c"))), waits: true},
		"that only reads":                       {before: []func(kv.Tx) error{set("a"), noSync(set("b"))}, do: noSync(get("b"))},
		"that only reads, and has seen a write": {before: []func(kv.Tx) error{set("a"), noSync(set("b"))}, do: noSync(both(get("a"), get("b"))), waits: true},
		"another that reads it":                 {before: []func(kv.Tx) error{noSync(set("a"))}, do: get("a"), waits: true},
		"another that writes":                   {before: []func(kv.Tx) error{noSync(set("a"))}, do: set("b"), waits: true},
	} {
		for _, others := range []int{0, 3 * mostUnsynced / 2} {
			t.Run(fmt.Sprintf("%s/%d others", what, others), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fs := memFS()
					gate := &syncGate{FS: fs, open: make(chan struct{})}
					db, err := Open(t.Context(), "store", Options{FS: gate})
					testkit.NoError(t, err)
					testkit.NoError(t, db.Transact(t.Context(), set("old")))
					gate.shut.Store(true)
					for _, f := range c.before {
						go func() { testkit.Check(t, db.Transact(context.Background(), f)) }()
						synctest.Wait()
					}
					for i := range others {
						go func() {
							testkit.Check(t, db.Transact(context.Background(), noSync(set(fmt.Sprint("other", i)))))
						}()
						synctest.Wait()
					}
					var done atomic.Bool
					go func() {
						testkit.Check(t, db.Transact(context.Background(), c.do))
						done.Store(true)
					}()
					synctest.Wait()
					exact := others == 0 || len(c.before) == 0 // with so many others, it also waits for what it may not have seen
					if waits := !done.Load(); waits != c.waits && (exact || c.waits) {
						t.Errorf("waits for the disk: %t, want %t", waits, c.waits)
					}
					close(gate.open)
					synctest.Wait()
					if !done.Load() {
						t.Error("waits after the log was on disk")
					}
					testkit.Check(t, db.Close())
				})
			})
		}
	}
}

// What is not synced at once is with the operating system when it is acknowledged, and on disk an interval later.
func TestNoSyncIsSyncedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := memFS()
		db, err := Open(t.Context(), "store", Options{FS: fs, Interval: 10 * time.Millisecond})
		testkit.NoError(t, err)
		defer db.Close()
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("a"), nil) })
		there := func(unsynced int) int {
			image := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rand.New(rand.NewPCG(1, 2))})
			all, err := contentsOf(image)
			testkit.NoError(t, err)
			return len(all)
		}
		for i := range 3 {
			mustTransact(t, db, func(tx kv.Tx) { kv.NoSync(tx); tx.Set([]byte{'b', byte(i)}, nil) })
			if killed, cut := there(100), there(0); killed != 2+i || cut != 1 {
				t.Errorf("%d pairs after the death of the process, %d after a power failure; want %d, 1", killed, cut, 2+i)
			}
			time.Sleep(3 * time.Millisecond)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := there(0); n != 4 {
			t.Errorf("%d pairs after a power failure 10 ms later, want 4", n)
		}
	})
}
