package recipe_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/tuple"
)

// What is in the range and not an item's key is an error that names the key;
// nothing is removed, and all goes on when the key is gone.
func TestForeignKeys(t *testing.T) {
	random := make([]byte, 20)
	q := recipe.NewQueue(queueItems, nil)
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.FirstPushed)
	queueKeys := []tuple.Tuple{
		{1}, {1, "text"}, {"text", random}, {nil}, {1, random, random}, {1, random, 2, 3}, {1, 2, random},
		{uint64(math.MaxUint64), random}, {2.5, random}, {random},
	}
	priorityKeys := []tuple.Tuple{
		{1}, {1, 1}, {1, random}, {1, "text", random}, {"text", 1, random}, {1, 1, random, random}, {1, 1, random, 2, 3},
		{uint64(math.MaxUint64), 1, random}, {1, uint64(math.MaxUint64), random},
	}
	for _, elems := range queueKeys {
		key, err := queueItems.Pack(elems)
		wantForeign(t, key, err, map[string]taker[kv.Tx]{
			"Dequeue": q.Dequeue, "First": peekAndClear(q.First), "Items": itemsOf(q.Items), "NextKey": nextKey(q.NextKey),
		})
	}
	for _, elems := range priorityKeys {
		key, err := priorityItems.Pack(elems)
		wantForeign(t, key, err, map[string]taker[kv.Tx]{
			"PopMin": p.PopMin, "PopMax": p.PopMax, "Min": peekAndClear(p.Min), "Max": peekAndClear(p.Max), "Items": itemsOf(p.Items),
		})
	}
	wantForeign(t, append(q.Range().Begin, 0x77), nil, map[string]taker[kv.Tx]{"Dequeue": q.Dequeue, "NextKey": nextKey(q.NextKey)})
	wantForeign(t, append(p.Range().Begin, 0x77), nil, map[string]taker[kv.Tx]{"PopMin": p.PopMin, "PopMax": p.PopMax})
	key, err := priorityItems.Pack(tuple.Tuple{7, "text"})
	wantForeign(t, key, err, map[string]taker[kv.Tx]{
		"NextKey": nextKey(func(tx kv.Tx) ([]byte, error) { return p.NextKey(tx, 7) }),
		"NextKeys": nextKey(func(tx kv.Tx) ([]byte, error) {
			_, err := p.NextKeys(tx, []int64{6, 7}, nil)
			return nil, err
		}),
	})
}

func wantForeign(t *testing.T, key []byte, err error, takers map[string]taker[kv.Tx]) {
	t.Helper()
	db := open(t)
	transact(t, db, set(key, err))
	for name, next := range takers {
		err := db.Transact(t.Context(), func(tx kv.Tx) error {
			item, ok, err := next(tx)
			if ok || item.Key != nil {
				t.Errorf("%s found %v among %x", name, item, key)
			}
			return err
		})
		if !errors.Is(err, recipe.ErrKey) || !strings.Contains(err.Error(), fmt.Sprintf("%x", key)) {
			t.Errorf("%s with %x: %v", name, key, err)
		}
	}
	wantValues(t, db, kv.Range{}, "set")
}

// itemsOf makes a taker of Items, of the last item that it returns.
func itemsOf[S ~func(func(kv.KeyValue, error) bool)](items func(kv.Reader, kv.RangeOptions) S) taker[kv.Tx] {
	return func(tx kv.Tx) (item kv.KeyValue, ok bool, err error) {
		for item, err = range items(tx, kv.RangeOptions{}) {
			ok = err == nil
		}
		return item, ok, err
	}
}

// nextKey makes a taker of NextKey that finds nothing.
func nextKey(next func(kv.Tx) ([]byte, error)) taker[kv.Tx] {
	return func(tx kv.Tx) (kv.KeyValue, bool, error) {
		key, err := next(tx)
		return kv.KeyValue{Key: key}, false, err
	}
}

// The error for a key that is not an item's says what it is instead.
func TestForeignKeyText(t *testing.T) {
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	for want, key := range map[string][]byte{
		`its tuple [1 x] is not 2 integers of 64 bits`: tuple.AppendString(tuple.AppendInt(bytes.Clone(priorityItems.Bytes()), 1), "x"),
		"tuple: malformed": append(bytes.Clone(priorityItems.Bytes()), 0xfe),
	} {
		if _, err := p.Priority(key); !errors.Is(err, recipe.ErrKey) || !strings.Contains(err.Error(), want) {
			t.Errorf("%x: %v, want %s", key, err, want)
		}
	}
}

func TestPriorityOfForeignKey(t *testing.T) {
	p := recipe.NewPriorityQueue(priorityItems, nil, recipe.LastPushed)
	if got, err := p.Priority([]byte("elsewhere")); !errors.Is(err, recipe.ErrKey) {
		t.Errorf("%d, %v", got, err)
	}
}
