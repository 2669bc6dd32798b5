package embedded

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// Where nothing else is written, the space of what was removed is given back, whether key by key,
// as ranges, or all in a long batch.
func TestSettle(t *testing.T) {
	testkit.Long(t)
	const queues, items = 10, 100
	for name, remove := range map[string]func(*testing.T, *DB){
		"keys": func(t *testing.T, db *DB) {
			for n := range queues * items {
				mustTransact(t, db, func(tx kv.Tx) { tx.Clear(itemKey(n/items, n%items)) })
			}
		},
		"ranges": func(t *testing.T, db *DB) {
			for n := range queues {
				mustTransact(t, db, func(tx kv.Tx) {
					tx.ClearRange(kv.Range{Begin: itemKey(n, 0), End: itemKey(n, items)})
				})
			}
		},
		"long batch": func(t *testing.T, db *DB) {
			mustTransact(t, db, func(tx kv.Tx) {
				for n := range queues * items {
					tx.Clear(itemKey(n/items, n%items))
				}
				tx.Set([]byte("zeros"), make([]byte, 2*backlogPart)) // takes nearly nothing in a table
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testSettle(t, queues, items, remove) })
		})
	}
}

func testSettle(t *testing.T, queues, items int, remove func(*testing.T, *DB)) {
	const size = 8 << 10
	fs := memFS()
	db := mustOpen(t, "store", Options{FS: fs, Durability: Memory})
	random := rand.New(rand.NewPCG(1, 2))
	for n := range queues * items {
		mustTransact(t, db, func(tx kv.Tx) {
			value := make([]byte, size)
			for i := range value {
				value[i] = byte(random.Uint32())
			}
			tx.Set(itemKey(n/items, n%items), value)
		})
	}
	db.catchUp()
	testkit.NoError(t, db.pebble.Flush())
	before := inTables(t, fs)
	remove(t, db)
	<-time.After(3 * reclaimTime) // by the clock of synctest: what goes on in the background is done then
	synctest.Wait()
	if after := inTables(t, fs); before < int64(queues*items*size) || after > before/10 {
		t.Errorf("tables had %d bytes, and have %d", before, after)
	}
	testkit.Check(t, db.Close())
}

func itemKey(queue, item int) []byte { return fmt.Appendf(nil, "queue %d item %06d", queue, item) }

// inTables returns how many bytes tables have.
func inTables(t *testing.T, fs vfs.FS) (bytes int64) {
	t.Helper()
	names, err := fs.List("store")
	testkit.NoError(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		info, err := fs.Stat(fs.PathJoin("store", name))
		testkit.NoError(t, err)
		bytes += info.Size()
	}
	return bytes
}
