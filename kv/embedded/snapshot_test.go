package embedded

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// A snapshot goes with its transaction.
func TestSnapshotsGo(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	open := func(what string, want int) {
		t.Helper()
		if got := db.pebble.Metrics().Snapshots.Count; got != want {
			t.Errorf("%s: %d snapshots, want %d", what, got, want)
		}
	}
	read := func() {
		t.Helper()
		testkit.NoError(t, db.ReadTransact(context.Background(), func(r kv.Reader) error {
			_, err := r.Get([]byte("k"))
			open("in a transaction", 1)
			return err
		}))
	}
	write := func() { mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), nil) }) }
	open("at first", 0)
	read()
	open("after a reader", 0)
	mustTransact(t, db, func(tx kv.Tx) {
		if _, err := tx.Snapshot().Get([]byte("k")); err != nil {
			t.Error(err)
		}
		write()
		tx.Clear([]byte("other"))
		open("in a transaction that is not the latest", 1)
	})
	open("after that", 0)
	testkit.Check(t, db.Close())
}

// A commit ends transactions that are too old while they end themselves.
func TestTooOldEndsTwice(t *testing.T) {
	var now atomic.Int64
	db := mustOpen(t, "store", Options{
		FS: memFS(), Durability: Memory, Age: time.Second, Now: func() time.Time { return time.Unix(0, now.Load()) },
	})
	for range 200 {
		old := newTx(context.Background(), db)
		if _, err := old.Get([]byte("k")); err != nil {
			t.Fatal(err)
		}
		now.Add(int64(time.Minute))
		var both sync.WaitGroup
		both.Go(old.end)
		both.Go(func() { mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), nil) }) })
		both.Wait()
		if db.txns.Len() > 0 || db.pebble.Metrics().Snapshots.Count > 0 {
			t.Fatal("something is still open")
		}
	}
}
