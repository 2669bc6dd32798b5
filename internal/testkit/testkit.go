// Package testkit has what tests of several packages share.
package testkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/tuple"
)

// TB is what *testing.T and *rapid.T have in common.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// NoError ends the test if there is an error.
func NoError(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Check reports an error. Unlike NoError it may be called in any goroutine.
func Check(t interface {
	Helper()
	Error(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// WantError ends the test unless the error is the one wanted, and says texts.
func WantError(t TB, got, want error, texts ...string) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("error %v, want %v", got, want)
	}
	for _, text := range texts {
		if !strings.Contains(got.Error(), text) {
			t.Fatalf("error %q does not say %q", got, text)
		}
	}
}

// Equal ends the test unless both are the same.
func Equal[V comparable](t TB, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %.300s, want %.300s", what, fmt.Sprint(got), fmt.Sprint(want))
	}
}

// EqualSlices is Equal for slices.
func EqualSlices[V comparable](t TB, what string, got, want []V) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s: got %.500s, want %.500s", what, fmt.Sprint(got), fmt.Sprint(want))
	}
}

// Drop drops the value of a call, for which only the error matters.
func Drop[V any](_ V, err error) error { return err }

// Pack returns a tuple as bytes.
func Pack(t TB, elems ...any) []byte {
	t.Helper()
	b, err := tuple.Tuple(elems).Pack()
	NoError(t, err)
	return b
}

// NewMemory opens a store in memory, and closes it when the test ends.
func NewMemory(t testing.TB, limits kv.Limits) kv.DB {
	t.Helper()
	db := memory.New(memory.Options{Limits: limits})
	t.Cleanup(func() { NoError(t, db.Close()) })
	return db
}

// Everything returns all pairs of a store.
func Everything(t TB, db kv.DB) []kv.KeyValue {
	t.Helper()
	return In(t, db, kv.Range{})
}

// In returns the pairs in a range of keys.
func In(t TB, db kv.DB, span kv.Range) (pairs []kv.KeyValue) {
	t.Helper()
	NoError(t, db.ReadTransact(context.Background(), func(r kv.Reader) error {
		for pair, err := range r.Range(span, kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			pairs = append(pairs, pair)
		}
		return nil
	}))
	return pairs
}

// Value returns what is stored at a key, or nil.
func Value(t TB, db kv.DB, key []byte) (value []byte) {
	t.Helper()
	NoError(t, db.ReadTransact(context.Background(), func(r kv.Reader) (err error) {
		value, err = r.Get(key)
		return err
	}))
	return value
}

// Write stores pairs in one transaction.
func Write(t TB, db kv.DB, pairs ...kv.KeyValue) {
	t.Helper()
	NoError(t, db.Transact(context.Background(), func(tx kv.Tx) error {
		for _, pair := range pairs {
			tx.Set(pair.Key, pair.Value)
		}
		return nil
	}))
}

// Remove removes the keys in a range.
func Remove(t TB, db kv.DB, span kv.Range) {
	t.Helper()
	NoError(t, db.Transact(context.Background(), func(tx kv.Tx) error {
		tx.ClearRange(span)
		return nil
	}))
}

// List returns the values of a sequence.
func List[V any](t TB, seq func(func(V, error) bool)) (values []V) {
	t.Helper()
	for v, err := range seq {
		NoError(t, err)
		values = append(values, v)
	}
	return values
}

// Stored returns the pairs that belong to items: all but format and catalogue.
func Stored(t TB, db kv.DB) []kv.KeyValue {
	t.Helper()
	return slices.DeleteFunc(Everything(t, db), func(pair kv.KeyValue) bool {
		return layout.Entries().Contains(pair.Key) || bytes.Equal(pair.Key, layout.FormatKey())
	})
}

// Long is for tests that take long where that shows nothing more, as with the race detector: -short
// leaves them out.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short leaves it out")
	}
}

// Thorough tells that tests try all of many cases that are alike, as make thorough has them do.
func Thorough() bool { return os.Getenv("CONQ_THOROUGH") != "" }

// Cases is how many of n cases a test tries that are alike, as seeds are: a third, with -short a
// fifth, and n if it is Thorough.
func Cases(n int) int {
	switch {
	case Thorough():
		return n
	case testing.Short():
		return (n + 4) / 5
	default:
		return (n + 2) / 3
	}
}

// Faults yields, in order, which steps of many a test has fail, counted from 1: one of stride, beginning with a
// random one, so that many runs try all; each, if it is Thorough.
func Faults(stride int) iter.Seq[int] {
	if Thorough() {
		stride = 1
	}
	return func(yield func(int) bool) {
		for k := 1 + rand.IntN(stride); yield(k); k += stride {
		}
	}
}
