package jobs

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
)

// TestCheckRepairs removes and adds each key of a queue in turn: all of it is noticed, and what can be repaired is.
func TestCheckRepairs(t *testing.T) {
	ctx := context.Background()
	build := func() (kv.DB, *Queue) {
		db := memory.New(memory.Options{})
		id := int64(0)
		q := NewQueue("q", db.Limits(), Config{Settings: Settings{Keep: 10, Concurrency: 9}, NewID: func(context.Context) (int64, error) { id++; return id, nil }})
		err := db.Transact(ctx, func(tx kv.Tx) error {
			id = 0
			for i := range 6 {
				n := New{Payload: []byte("v"), Key: []string{"a", "a", "", "", "b", ""}[i], Unique: []string{"u", "", "w", "", "", ""}[i], UniqueFor: 50, Lease: 5}
				if i == 5 {
					n.At = 1000
				}
				if _, err := q.Put(tx, q.Places(), 10, &n); err != nil {
					return err
				}
			}
			token := int64(100)
			found, err := q.Reserve(tx, 20, Request{N: 4, NewToken: func() int64 { token++; return token }})
			if err != nil {
				return err
			}
			got := found.Jobs
			if err := q.Ack(tx, got[1].ID, got[1].Token, 21, []byte("r")); err != nil {
				return err
			}
			if err := q.Bury(tx, got[2].ID, got[2].Token, 21, "why", nil); err != nil {
				return err
			}
			return q.SetPeriodic(tx, &Periodic{Name: "p", Next: 50, Job: New{Payload: []byte("x")}})
		})
		if err != nil {
			t.Fatal(err)
		}
		return db, q
	}
	db, q := build()
	pairs := all(t, db)
	if left := checked(t, db, q); len(left) > 0 {
		t.Fatalf("a sound queue: %v", left)
	}
	repaired := 0
	for i, pair := range append(pairs, pairs...) {
		name := fmt.Sprintf("%d %q", i, pair.Key)
		damage := func(tx kv.Tx) error { tx.Clear(pair.Key); return nil }
		if i >= len(pairs) {
			name += " that can't be read"
			damage = func(tx kv.Tx) error { tx.Set(pair.Key, append([]byte{0xff}, pair.Value...)); return nil }
		}
		db, q := build()
		if err := db.Transact(ctx, damage); err != nil {
			t.Fatal(err)
		}
		found := checked(t, db, q)
		if len(found) == 0 && (i >= len(pairs) || !harmless(q, pair)) && !isFree(q, pair) {
			t.Errorf("without %s nothing is found", name)
		}
		for range 3 {
			for _, p := range checked(t, db, q) {
				if p.Repair != nil {
					if err := db.Transact(ctx, func(tx kv.Tx) error { p.Repair(tx); return nil }); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		left := checked(t, db, q)
		if len(left) == 0 {
			repaired++
		}
		for _, p := range left {
			if p.Repair != nil {
				t.Errorf("without %s this stays: %s", name, p.What)
			}
		}
	}
	if repaired < len(pairs)*3/4 {
		t.Errorf("%d of %d were repaired", repaired, 2*len(pairs))
	}
}

func all(t testing.TB, db kv.DB) []kv.KeyValue { return pairsOf(t, db, kv.Range{}) }

func pairsOf(t testing.TB, db kv.DB, span kv.Range) (pairs []kv.KeyValue) {
	err := db.ReadTransact(context.Background(), func(r kv.Reader) error {
		for pair, err := range r.Range(span, kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			pairs = append(pairs, pair)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pairs
}

func checked(t *testing.T, db kv.DB, q *Queue) (problems []Problem) {
	err := db.ReadTransact(context.Background(), func(r kv.Reader) (err error) {
		problems, err = q.Check(r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

// isFree tells whether any value of a pair will do: payloads and results are the user's, and entries of most indexes have none.
func isFree(q *Queue, pair kv.KeyValue) bool {
	for _, prefix := range [][]byte{q.values, q.results, q.indexes[Ready], q.indexes[Scheduled], q.indexes[Blocked], q.indexes[Dead], q.indexes[Done], q.wakes, q.ticks, q.ends} {
		if bytes.HasPrefix(pair.Key, prefix) {
			return true
		}
	}
	return false
}

// harmless tells whether nothing is wrong without a pair: a result or a claim is gone, or a count of none.
func harmless(q *Queue, pair kv.KeyValue) bool {
	for _, prefix := range [][]byte{q.results, q.claims, q.ends} {
		if bytes.HasPrefix(pair.Key, prefix) {
			return true
		}
	}
	return bytes.HasPrefix(pair.Key, q.counts) && bytes.Equal(pair.Value, make([]byte, 8))
}
