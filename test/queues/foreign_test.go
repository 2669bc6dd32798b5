package queues

import (
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/faulty"
)

// verbsIn are the errors of all verbs in a transaction.
func verbsIn(f fixture, tx kv.Tx) map[string]error {
	q, p := f.q.In(tx), f.p.In(tx)
	all := map[string]error{
		"Enqueue": q.Enqueue("x"), "EnqueueAll": q.EnqueueAll([]string{"x", "y"}), "Dequeue": drop(q.Dequeue()),
		"DequeueN": drop(q.DequeueN(2)), "Peek": drop(q.Peek()), "Len": drop(q.Len()), "Clear": q.Clear(),
		"Push": p.Push("x", 1), "PushAll": p.PushAll([]conq.Prioritized[string]{{Value: "x", Priority: 1}}), "PopMin": drop(p.PopMin()),
		"PopMax": drop(p.PopMax()), "PopN Min": drop(p.PopN(conq.Min, 2)), "PopN Max": drop(p.PopN(conq.Max, 2)), "Peek Min": drop(p.Peek(conq.Min)),
		"Peek Max": drop(p.Peek(conq.Max)), "Len of priorities": drop(p.Len()), "Clear of priorities": p.Clear(), "All": nil, "All of priorities": nil,
	}
	for _, err := range q.All() {
		all["All"] = err
	}
	for _, err := range p.All() {
		all["All of priorities"] = err
	}
	return all
}

// Each verb refuses a transaction of another store, and nothing changes in either.
func TestForeignTransaction(t *testing.T) {
	disk, err := embedded.Open(t.Context(), t.TempDir(), embedded.Options{Durability: embedded.Memory})
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.NoError(t, disk.Close()) })
	below := testkit.NewMemory(t, kv.Limits{})
	stores := []kv.DB{testkit.NewMemory(t, kv.Limits{}), testkit.NewMemory(t, kv.Limits{}), disk, faulty.New(below, 1, faulty.Options{})}
	fixtures, before := make([]fixture, len(stores)), make([][]kv.KeyValue, len(stores))
	for i, db := range stores {
		fixtures[i] = newFixture(t, db, nil)
		testkit.NoError(t, fixtures[i].q.EnqueueAll(t.Context(), []string{"a", "b", "c"}))
		testkit.NoError(t, fixtures[i].p.Push(t.Context(), "d", 1))
		before[i] = testkit.Everything(t, db)
	}
	for i, f := range fixtures {
		for j, db := range stores {
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				if i == j {
					return drop(f.q.In(tx).Peek())
				}
				for verb, err := range verbsIn(f, tx) {
					if err == nil {
						t.Errorf("%s on store %d took a transaction of store %d", verb, i, j)
						continue
					}
					testkit.WantError(t, err, kv.ErrInvalid, "another store")
				}
				return nil
			}))
		}
	}
	for i, db := range stores {
		testkit.EqualPairs(t, testkit.Everything(t, db), before[i])
	}

	// What lies below a store that adds faults is the same store.
	testkit.NoError(t, below.Transact(t.Context(), func(tx kv.Tx) error { return fixtures[3].q.In(tx).Enqueue("e") }))
	testkit.EqualSlices(t, "items", testkit.List(t, fixtures[3].q.All(t.Context())), []string{"a", "b", "c", "e"})
}
