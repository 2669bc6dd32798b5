package embedded

import (
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

func TestStats(t *testing.T) {
	db, err := Open(t.Context(), t.TempDir(), Options{})
	testkit.NoError(t, err)
	defer db.Close()
	bytes := db.DiskBytes()
	before := db.Syncs().Count
	for range 3 {
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			tx.Set([]byte("a"), make([]byte, 100_000))
			return nil
		}))
	}
	syncs, known := kv.SyncsOf(db)
	if !known || syncs.Count < before+3 || syncs.Took <= 0 {
		t.Errorf("syncs are %+v after %d, known %v", syncs, before, known)
	}
	if grown := db.DiskBytes() - bytes; grown < 100_000 {
		t.Errorf("the store has grown by %d bytes", grown)
	}
}
