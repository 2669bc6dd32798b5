package embedded

import (
	"crypto/rand"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// Close gives back the space of what was drained just before, and leaves what is alive.
func TestCloseReclaims(t *testing.T) {
	testkit.Long(t)
	const items, size = 600, 64 << 10
	defer func(before time.Duration) { closeTime = before }(closeTime)
	closeTime = time.Minute // with the race detector a compaction is slow
	fs := memFS()
	o := Options{FS: fs, Durability: Memory, MemTable: 4 << 20}
	db := mustOpen(t, "store", o)
	mustTransact(t, db, func(tx kv.Tx) { tx.Set(itemKey(2, 0), []byte("stays")) })
	for n := range items {
		value := make([]byte, size)
		_, _ = rand.Read(value)
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(itemKey(1, n), value) })
	}
	db.catchUp()
	testkit.NoError(t, db.pebble.Flush())
	before := inTables(t, fs)
	for range items {
		mustTransact(t, db, func(tx kv.Tx) {
			pair, ok, err := first(tx, kv.Range{Begin: itemKey(1, 0), End: itemKey(1, items)}, false)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			tx.Clear(pair.Key)
		})
	}
	testkit.NoError(t, db.Close())
	if after := inTables(t, fs); before < items*size*9/10 || after > before/10 {
		t.Errorf("tables had %d bytes, and have %d", before, after)
	}
	again := mustOpen(t, "store", o)
	if got := contents(t, again); len(got) != 1 {
		t.Errorf("%d pairs, want the one that stays", len(got))
	}
}

// Tables are so large that a store has few of them.
func TestFewTables(t *testing.T) {
	testkit.Long(t)
	const bytes = 96 << 20
	dir := t.TempDir()
	db := mustOpen(t, dir, Options{Durability: Memory})
	for n := range bytes >> 20 {
		value := make([]byte, 1<<20)
		_, _ = rand.Read(value)
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%06d", n), value) })
	}
	testkit.NoError(t, db.Close())
	files, err := os.ReadDir(dir)
	if err != nil || len(files) > 24 {
		t.Errorf("%d files have %d MB: %v", len(files), bytes>>20, err)
	}
}
