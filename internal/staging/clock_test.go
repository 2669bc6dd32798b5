package staging

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// Results of consumers that died before the clock was set back go back when they have waited as long as any, and those of others,
// which are in front of them then, do not.
func TestResultsBeforeClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{Shared: true})
		fill(t, db, 10)
		s := stage(db, Options{Lease: 10 * time.Second})
		give := func(from, n int, deadline time.Time) {
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				var items []kv.KeyValue
				for item, err := range testQueue.Items(tx, Front, 100) {
					if err != nil {
						return err
					}
					items = append(items, item)
				}
				for i, item := range items[from : from+n] {
					tx.Clear(item.Key)
					s.setResult(tx, result{deadline.UnixNano() + int64(i), newID(), []kv.KeyValue{item}})
				}
				return nil
			}))
		}
		there := func() (n int) {
			testkit.NoError(t, s.Expire(t.Context()))
			testkit.NoError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
				n = 0
				for _, err := range testQueue.Items(r, Front, 100) {
					if err != nil {
						return err
					}
					n++
				}
				return nil
			}))
			return n
		}
		give(0, 3, time.Now().Add(time.Hour+10*time.Second))
		testkit.Equal(t, "items", there(), 7)
		time.Sleep(9 * time.Second)
		testkit.Equal(t, "items after 9 s", there(), 7)
		time.Sleep(2 * time.Second)
		testkit.Equal(t, "items after 11 s", there(), 10)

		give(0, 2, time.Now().Add(time.Hour))
		testkit.Equal(t, "items", there(), 8)
		time.Sleep(9 * time.Second)
		give(0, 1, time.Now().Add(10*time.Second))
		testkit.Equal(t, "items beside a live one", there(), 7)
		time.Sleep(5 * time.Second)
		testkit.Equal(t, "items beside a live one", there(), 7)
		time.Sleep(6 * time.Second)
		testkit.Equal(t, "items when it has died, too", there(), 10)
	})
}
