package memory

import (
	"context"
	"testing"

	"github.com/conq-go/conq/kv"
)

// TestKeepsOnlyWhatOpenTransactionsNeed looks inside, as what is kept for too
// long can't be seen from outside.
func TestKeepsOnlyWhatOpenTransactionsNeed(t *testing.T) {
	db := New(Options{})
	write := func(f func(kv.Tx)) {
		t.Helper()
		if err := db.Transact(t.Context(), func(tx kv.Tx) error { f(tx); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	key := []byte("k")
	for range 3 {
		write(func(tx kv.Tx) { tx.Set(key, nil) })
	}
	if len(db.commits) > 0 {
		t.Errorf("%d commits are kept of transactions that only write, with nothing open", len(db.commits))
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := db.ReadTransact(ctx, func(r kv.Reader) error {
		_, err := r.Get(key)
		for range 3 {
			write(func(tx kv.Tx) { tx.Set(key, nil) })
		}
		if len(db.commits) != 3 {
			t.Errorf("%d commits are kept for a transaction that is older than 3", len(db.commits))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var told <-chan error
	if err := db.Transact(ctx, func(tx kv.Tx) error { told = tx.Watch(key); return nil }); err != nil {
		t.Fatal(err)
	}
	if db.watches.Len() != 1 {
		t.Errorf("%d keys are watched, want 1", db.watches.Len())
	}
	cancel()
	<-told
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(db.commits)+len(db.open)+db.watches.Len() > 0 {
		t.Errorf("with nothing open the store keeps %d commits, %d versions and %d watches",
			len(db.commits), len(db.open), db.watches.Len())
	}
}
