package embedded

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// A store that nobody uses gives the memory of its cache back.
func TestIdleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
		for n := range 100 {
			mustTransact(t, db, func(tx kv.Tx) {
				for _, err := range tx.Range(kv.PrefixRange(itemKey(n, 0)), kv.RangeOptions{}) {
					testkit.NoError(t, err)
				}
				tx.Set(itemKey(n, 0), nil)
			})
		}
		if ranges, _ := db.cache.Len(); ranges == 0 {
			t.Error("nothing is in the cache: the test tests too little")
		}
		<-time.After(5 * restTime) // by the clock of synctest
		synctest.Wait()
		ranges, lastKeys := db.cache.Len()
		testkit.Equal(t, "hot ranges and last keys", ranges+lastKeys, 0)
		testkit.Check(t, db.Close())
	})
}
