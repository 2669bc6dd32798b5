package embedded

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/cache"
)

// mustOpen opens a store and closes it when the test ends.
func mustOpen(t *testing.T, dir string, o Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), dir, o)
	testkit.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// mustTransact runs a transaction that must commit.
func mustTransact(t *testing.T, db kv.DB, f func(kv.Tx)) {
	t.Helper()
	if err := db.Transact(context.Background(), func(tx kv.Tx) error { f(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

// forget has nothing in the cache any more.
func forget(db *DB) { db.cache = cache.New(cache.Usual, db.gaps) }

// withoutCache has no range hot from now on.
func withoutCache(db *DB) {
	limits := cache.Usual
	limits.Bytes = 0
	db.cache = cache.New(limits, db.gaps)
}

// contents returns all pairs of a store, in order.
func contents(t *testing.T, db kv.DB) (all []string) {
	t.Helper()
	err := db.ReadTransact(context.Background(), func(r kv.Reader) error {
		for pair, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			all = append(all, fmt.Sprintf("%s=%s", pair.Key, pair.Value))
		}
		return nil
	})
	testkit.NoError(t, err)
	return all
}

// first returns the first pair of a range, or the last one.
func first(r kv.Reader, span kv.Range, reverse bool) (pair kv.KeyValue, ok bool, err error) {
	for pair, err := range r.Range(span, kv.RangeOptions{Limit: 1, Reverse: reverse}) {
		return pair, err == nil, err
	}
	return pair, false, nil
}

func memFS() *vfs.MemFS { return vfs.NewCrashableMem() }

// copyOf returns the files as the death of the process would leave them.
func copyOf(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
}

// isSegment tells whether a file is one of the write-ahead log.
func isSegment(name string) bool { return strings.HasSuffix(name, ".journal") }
