package embedded

import (
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

func TestStats(t *testing.T) {
	db, err := Open(t.TempDir(), Options{})
	testkit.NoError(t, err)
	defer db.Close()
	bytes := db.DiskBytes()
	before, _ := db.Syncs()
	for range 3 {
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			tx.Set([]byte("a"), make([]byte, 100_000))
			return nil
		}))
	}
	n, took := db.Syncs()
	if n < before+3 || took <= 0 {
		t.Errorf("%d syncs took %v", n-before, took)
	}
	if grown := db.DiskBytes() - bytes; grown < 100_000 {
		t.Errorf("the store has grown by %d bytes", grown)
	}
}
