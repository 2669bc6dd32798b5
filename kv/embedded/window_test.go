package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
)

// When the transaction expires that was open for too long, what others wrote since is not
// missed by those that begin later, while its function still runs.
func TestExpiredWindow(t *testing.T) {
	for writes := range 4 { // while the old one is open
		var now atomic.Int64
		db := mustOpen(t, fmt.Sprint(writes), Options{
			FS: memFS(), Durability: Memory, Age: time.Second, Now: func() time.Time { return time.Unix(0, now.Load()) },
		})
		write := func(key string) {
			t.Helper()
			err := db.Transact(t.Context(), func(tx kv.Tx) error {
				tx.Set([]byte(key), nil)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		err := db.ReadTransact(t.Context(), func(r kv.Reader) error {
			if _, err := r.Get([]byte("a")); err != nil {
				return err
			}
			for range writes {
				write("b")
			}
			now.Add(int64(2 * time.Second))
			write("c") // and now it has expired
			attempts := 0
			return db.Transact(context.Background(), func(tx kv.Tx) error {
				if _, err := tx.Get([]byte("d")); err != nil {
					return err
				}
				if attempts++; attempts == 1 {
					write("d")
				}
				tx.Set([]byte("e"), nil)
				if attempts == 3 {
					t.Error("a transaction conflicts with nothing")
				}
				tx.OnCommit(func() {
					if attempts != 2 {
						t.Errorf("%d writes: %d attempts, want 2: a conflict is missed", writes, attempts)
					}
				})
				return nil
			})
		})
		if err != nil && !errors.Is(err, kv.ErrTooOld) {
			t.Error(err)
		}
	}
}
