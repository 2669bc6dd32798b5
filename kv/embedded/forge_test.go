package embedded

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv"
)

// A value may have what is a record of another segment, and be in a file that is that later. It
// can't be meant for it, as who has put it there does not know the number.
func TestJournalForged(t *testing.T) {
	for shift := range recordAlign { // where in a segment a value begins is up to its key
		forgeJournal(t, shift)
	}
}

func forgeJournal(t *testing.T, shift int) {
	var b pebble.Batch
	if err := b.Set([]byte("forged"), nil, nil); err != nil {
		t.Fatal(err)
	}
	value := make([]byte, shift)
	for len(value) < 30_000 {
		for n := uint64(6); n < 20; n++ {
			value = appendRecord(value, n, 1<<20, b.Repr())
		}
	}
	fs := memFS()
	db := mustOpen(t, "store", Options{FS: fs, MemTable: smallMemTable})
	set := func(key string, value []byte) {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte(key), value) })
	}
	for i := range 60 {
		if i%12 == 0 {
			for j := range 8 {
				set(fmt.Sprintf("large %d", j), value)
			}
		}
		set(fmt.Sprintf("small %02d", i), make([]byte, 8*i))
		again := mustOpen(t, "store", Options{FS: copyOf(fs)})
		if got := contents(t, again); slices.Contains(got, "forged=") || len(got) != 8+1+i {
			t.Fatalf("%d pairs, want %d; one that nobody has set: %v", len(got), 8+1+i, slices.Contains(got, "forged="))
		}
	}
}
