package conq

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// Items that a consumer was given by staging and never collected come back to
// those who do not stage, too.
func TestExpireWithoutStaging(t *testing.T) {
	for _, mode := range []Staging{StagingAuto, StagingNever} {
		synctest.Test(t, func(t *testing.T) {
			db := newMemory(t, kv.Limits{})
			staged, err := OpenQueue(db, "q", String(), Options{Staging: StagingAlways})
			noError(t, err)
			plain, err := OpenQueue(db, "q", String(), Options{Staging: mode})
			noError(t, err)
			noError(t, staged.EnqueueAll(t.Context(), []string{"a", "b", "c"}))
			// A consumer has been given the first item, and dies.
			noError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return abandon(tx, &staged.store) }))
			first, err := plain.Dequeue(t.Context())
			noError(t, err)
			equal(t, "first, while the result is kept for its owner", first, "b")
			pass(time.Minute)
			rest, err := plain.DequeueN(t.Context(), 3)
			noError(t, err)
			equalSlices(t, "rest", rest, []string{"a", "c"})
			equal(t, "keys left", len(stored(t, db)), 0)
		})
	}
}

// abandon makes the first item of a queue the result of a staged request that
// nobody collects, as docs/format.md describes it.
func abandon(tx kv.Tx, s *store) error {
	for item, err := range s.forwards(tx, 1) {
		if err != nil {
			return err
		}
		deadline, op := time.Now().Add(10*time.Second).UnixNano(), make([]byte, 16)
		key := func(elems ...any) []byte {
			key, err := tuple.Tuple(elems).Append(stageSpace(s.name))
			if err != nil {
				panic(err)
			}
			return key
		}
		state, err := tuple.Tuple{1, deadline}.Pack()
		if err != nil {
			return err
		}
		tx.Clear(item.Key)
		tx.Set(key(0, deadline, op), nil)
		tx.Set(key(2, op), state)
		tx.Set(key(2, op, 0, item.Key), item.Value)
	}
	return nil
}

// Those who wait get what a dead consumer left, although nobody enqueues.
func TestWaitForExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newMemory(t, kv.Limits{})
		q, err := OpenQueue(db, "q", String())
		noError(t, err)
		noError(t, q.Enqueue(t.Context(), "a"))
		noError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return abandon(tx, &q.store) }))
		v, err := q.DequeueWait(t.Context())
		noError(t, err)
		equal(t, "item", v, "a")
	})
}
