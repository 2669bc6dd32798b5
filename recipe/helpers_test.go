package recipe_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
)

func open(t testing.TB) kv.DB {
	db := memory.New(memory.Options{})
	t.Cleanup(func() {
		testkit.Check(t, db.Close())
	})
	return db
}

func transact(t testing.TB, db kv.DB, f func(kv.Tx) error) {
	t.Helper()
	testkit.NoError(t, db.Transact(t.Context(), f))
}

// together runs a transaction whose first attempt is overtaken: second begins,
// and commits, after the first's function is done and before it commits. It
// returns how often first ran, which is 1 if the two do not conflict.
func together(t testing.TB, db kv.DB, first, second func(kv.Tx) error) (attempts int) {
	t.Helper()
	transact(t, db, func(tx kv.Tx) error {
		attempts++
		if err := first(tx); err != nil || attempts > 1 {
			return err
		}
		return db.Transact(t.Context(), second)
	})
	return attempts
}

// values returns all values of a range, in order.
func values(t testing.TB, db kv.DB, r kv.Range) (out []string) {
	t.Helper()
	for _, item := range testkit.In(t, db, r) {
		out = append(out, string(item.Value))
	}
	return out
}

// taker is any method that removes or shows an item.
type taker[T any] func(T) (kv.KeyValue, bool, error)

// take runs a taker until nothing is left, one transaction each.
func take(t testing.TB, db kv.DB, next taker[kv.Tx]) (out []string) {
	t.Helper()
	for more := true; more; {
		transact(t, db, func(tx kv.Tx) error {
			item, ok, err := next(tx)
			if more = ok; ok {
				out = append(out, string(item.Value))
			}
			return err
		})
	}
	return out
}

// peekAndClear makes a taker of a method that shows an item.
func peekAndClear(peek taker[kv.Reader]) taker[kv.Tx] {
	return func(tx kv.Tx) (kv.KeyValue, bool, error) {
		item, ok, err := peek(tx)
		if ok {
			tx.Clear(item.Key)
		}
		return item, ok, err
	}
}

func enqueue(q recipe.Queue, values ...string) func(kv.Tx) error {
	return func(tx kv.Tx) error {
		for _, v := range values {
			if err := q.Enqueue(tx, []byte(v)); err != nil {
				return err
			}
		}
		return nil
	}
}

func push(p recipe.PriorityQueue, value string, priority int64) func(kv.Tx) error {
	return func(tx kv.Tx) error { return p.Push(tx, []byte(value), priority) }
}

// does makes a transaction of a taker.
func does(next taker[kv.Tx]) func(kv.Tx) error {
	return func(tx kv.Tx) error {
		_, _, err := next(tx)
		return err
	}
}

func wantValues(t testing.TB, db kv.DB, r kv.Range, want ...string) {
	t.Helper()
	if got := values(t, db, r); !slices.Equal(got, want) {
		t.Errorf("items are %q, want %q", got, want)
	}
}

// sequence is a random source that gives known bytes, one after another.
func sequence(parts ...[]byte) *bytes.Reader { return bytes.NewReader(bytes.Join(parts, nil)) }

var queueItems, priorityItems = subspace.Named("Q"), subspace.Named("P")
