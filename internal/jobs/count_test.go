package jobs

import (
	"context"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// adding notes what is added to.
type adding struct {
	kv.Tx
	keys map[string]bool
}

func (a adding) Add(key []byte, delta int64) {
	a.keys[string(key)] = true
	a.Tx.Add(key, delta)
}

// Those who put jobs, reserve some and acknowledge some through one handle add to keys of their own, and who extends a lease to none: on
// some engines they would wait for each other.
func TestCountsApart(t *testing.T) {
	const now = second
	db := memory.New(memory.Options{})
	defer db.Close()
	q := NewQueue("q", kv.Limits{}, Config{NewID: func(context.Context) (int64, error) { return 1, nil }, Shards: 32})
	run := func(f func(tx kv.Tx) error) map[string]bool {
		keys := make(map[string]bool)
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return f(adding{tx, keys}) }))
		return keys
	}
	put := run(func(tx kv.Tx) error {
		_, err := q.Put(tx, q.Places(), now, &New{})
		return err
	})
	reserve := run(func(tx kv.Tx) error {
		f, err := q.Reserve(tx, now, Request{N: 1, MaxBytes: 1, NewToken: func() int64 { return 9 }, Terms: func(int) Terms { return Terms{} }})
		testkit.Equal(t, "reserved", len(f.Jobs), 1)
		return err
	})
	extend := run(func(tx kv.Tx) error {
		_, err := q.Extend(tx, 1, 9, now, 2*now)
		return err
	})
	ack := run(func(tx kv.Tx) error { return q.Ack(tx, 1, 9, now, nil) })
	for what, n := range map[string][2]int{
		"put": {len(put), 1}, "reserve": {len(reserve), 2}, "extend": {len(extend), 0}, "ack": {len(ack), 1},
	} {
		testkit.Equal(t, what, n[0], n[1])
	}
	for key := range reserve {
		if put[key] || ack[key] {
			t.Errorf("who reserves adds to a key of others: %q", key)
		}
	}
	counts, err := testCounts(t, q, db)
	testkit.NoError(t, err)
	for state, n := range counts {
		if n != 0 {
			t.Errorf("%d jobs are %v", n, state)
		}
	}
}

func testCounts(t *testing.T, q *Queue, db kv.DB) (counts map[State]int64, err error) {
	err = db.ReadTransact(t.Context(), func(r kv.Reader) error {
		counts, err = q.Counts(r)
		return err
	})
	return counts, err
}
