package jobs

import (
	"context"
	"maps"
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

// Transactions of a handle that are under way at the same time add to keys of their own: on etcd they would wait for each other. Who makes
// one after the other adds to the same keys, and who extends a lease to none.
func TestCountsApart(t *testing.T) {
	const now = second
	db := memory.New(memory.Options{})
	defer db.Close()
	next := int64(0)
	q := NewQueue("q", kv.Limits{Operations: 128}, Config{NewID: func(context.Context) (int64, error) { next++; return next, nil }, Shards: 32})
	run := func(ctx context.Context, f func(tx kv.Tx) error) map[string]bool {
		keys := make(map[string]bool)
		testkit.NoError(t, db.Transact(ctx, func(tx kv.Tx) error { return f(adding{tx, keys}) }))
		return keys
	}
	put := func(tx kv.Tx) error {
		_, err := q.Put(tx, q.Places(), now, &New{})
		return err
	}
	all := make(map[string]bool)
	var ends []func()
	for range counters {
		ctx, end := q.Count(t.Context())
		maps.Copy(all, run(ctx, put))
		ends = append(ends, end)
	}
	testkit.Equal(t, "keys of transactions at the same time", len(all), counters)
	ctx, end := q.Count(t.Context())
	maps.Copy(all, run(ctx, put)) // one too many
	end()
	ends[3]()
	for range 5 {
		ctx, end := q.Count(t.Context())
		maps.Copy(all, run(ctx, put))
		end()
	}
	testkit.Equal(t, "keys of all", len(all), counters)
	for i, end := range ends {
		if i != 3 {
			end()
		}
	}
	testkit.Equal(t, "busy", q.counting.busy, 0)

	reserve := run(t.Context(), func(tx kv.Tx) error {
		f, err := q.Reserve(tx, now, Request{N: 1, MaxBytes: 1, NewToken: func() int64 { return 9 }, Terms: func(int) Terms { return Terms{} }})
		testkit.Equal(t, "reserved", len(f.Jobs), 1)
		return err
	})
	extend := run(t.Context(), func(tx kv.Tx) error {
		_, err := q.Extend(tx, 1, 9, now, 2*now)
		return err
	})
	ack := run(t.Context(), func(tx kv.Tx) error { return q.Ack(tx, 1, 9, now, nil) })
	testkit.Equal(t, "keys of a reservation, an extension and an ack", [3]int{len(reserve), len(extend), len(ack)}, [3]int{2, 0, 1})
	counts, err := countsOf(t, q, db)
	testkit.NoError(t, err)
	testkit.Equal(t, "ready and leased", [2]int64{counts[Ready], counts[Leased]}, [2]int64{counters + 5, 0})
}

func countsOf(t *testing.T, q *Queue, db kv.DB) (counts map[State]int64, err error) {
	err = db.ReadTransact(t.Context(), func(r kv.Reader) error {
		counts, err = q.Counts(r)
		return err
	})
	return counts, err
}
