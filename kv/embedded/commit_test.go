package embedded

import (
	"errors"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/conq-go/conq/kv"
)

// No tombstone may begin at the empty key: see leastKey. That it clears the same is
// the conformance suite's.
func TestTombstonesBeginAtAKey(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	for _, begin := range []string{"", "a"} {
		tx := newTx(t.Context(), db)
		tx.ClearRange(kv.Range{Begin: []byte(begin), End: []byte("b")})
		entries := tx.effects().batch.Reader()
		kind, from, to, ok, err := entries.Next()
		if !ok || err != nil || kind != pebble.InternalKeyKindRangeDelete || string(from) != max(begin, "\x00") || string(to) != "b" {
			t.Errorf("clearing from %q on wrote kind %v from %q to %q, %v, %v", begin, kind, from, to, ok, err)
		}
		tx.end()
	}
}

// An addition under way when the store fails tells that, as reads do, and not what Pebble makes of
// tables which were not written any more.
func TestAddOfFailedStore(t *testing.T) {
	var fail func()
	db := mustOpen(t, "store", Options{MemTable: smallMemTable, FS: errorfs.Wrap(memFS(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if fail == nil || op.Kind != errorfs.OpFileReadAt {
			return nil
		}
		fail()
		return syscall.EIO
	}))})
	mustTransact(t, db, func(tx kv.Tx) { tx.Add([]byte("n"), 1) })
	flushed(t, db)
	db.mu.Lock()
	clear(db.counters) // else it need not be read
	db.mu.Unlock()
	fail = func() { db.guard.Fail(syscall.EDQUOT) }
	err := db.Transact(t.Context(), func(tx kv.Tx) error { tx.Add([]byte("n"), 1); return nil })
	if !errors.Is(err, ErrFailed) || !errors.Is(err, syscall.EDQUOT) {
		t.Errorf("adding to what can't be read, as the store has failed: %v", err)
	}
}
