package embedded

import (
	"strings"
	"testing"

	"github.com/conq-go/conq/kv"
)

// What was on disk and is not what was written is damage, and no torn end.
func TestJournalDamaged(t *testing.T) {
	fs := killed(t, 5)
	name := segmentsOf(t, fs)[0]
	rewrite(t, fs, name, func(data []byte) []byte { data[headerSize+20] ^= 1; return data })
	db, err := Open("store", Options{FS: fs})
	if err == nil {
		db.Close()
		t.Fatal("a damaged journal was opened")
	}
	for _, want := range []string{name, "damaged at byte 0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// So is what has changed since a store was closed, or since a crash was mended: all of that was on
// disk, whatever the durability.
func TestJournalDamagedLater(t *testing.T) {
	for _, durability := range []Durability{Always, Interval, Memory} {
		for _, crashed := range []bool{false, true} {
			fs := memFS()
			if crashed {
				fs = killed(t, 5)
			}
			db := mustOpen(t, "store", Options{FS: fs, Durability: durability})
			if !crashed {
				mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), []byte("a value")) })
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			name := segmentsOf(t, fs)[0]
			rewrite(t, fs, name, func(data []byte) []byte { data[headerSize+15] ^= 1; return data })
			db, err := Open("store", Options{FS: fs, Durability: durability})
			if err == nil {
				got := contents(t, db)
				db.Close()
				t.Errorf("%v, after a crash %v: a damaged journal was opened, with %q", durability, crashed, got)
			} else if want := "damaged at byte 0"; !strings.Contains(err.Error(), want) {
				t.Errorf("%v, after a crash %v: error %q does not say %q", durability, crashed, err, want)
			}
		}
	}
}
