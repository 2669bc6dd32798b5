package etcd

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// Ranges that are read take one operation each, whatever is in them, and what others remove
// from them is a conflict all the same.
func TestManyRangesWithKeys(t *testing.T) {
	for _, x := range []struct{ families, ranges, keys, adds, sets int }{
		{families: 1, ranges: 60, keys: 3, sets: 1},
		{families: 1, ranges: 70, keys: 3, sets: 1},
		{families: 1, ranges: 126, keys: 3, sets: 1},
		{families: 1, ranges: 127, keys: 3, sets: 1}, // no room for a marker
		{families: 1, ranges: 50, keys: 2, sets: 1},
		{families: 1, ranges: 100, keys: 1, sets: 28},
		{families: 40, ranges: 40, keys: 3, sets: 88},
		{families: 40, ranges: 80, keys: 1, sets: 1},
		{families: 100, ranges: 100, keys: 3, sets: 28},
		{families: 127, ranges: 127, keys: 1, sets: 1},
		{families: 2, ranges: 4, keys: 60, adds: 60, sets: 2},
		{families: 1, ranges: 1, keys: 100, adds: 50, sets: 1},
		{families: 20, ranges: 40, keys: 5, adds: 40},
	} {
		f := newFakeCluster()
		db, other := f.open(t), f.open(t)
		begin := func(i int) string { return fmt.Sprintf("\x02q%d\x00%04d.", i%x.families, i) }
		for i := range x.ranges {
			for j := range x.keys {
				set(t, other, begin(i)+fmt.Sprint(j))
			}
			set(t, other, begin(i+10_000)) // of the same family, and in no range
		}
		run := func(between func()) (attempts int, err error) {
			err = db.Transact(t.Context(), func(tx kv.Tx) error {
				attempts++
				for i := range x.ranges {
					r := kv.PrefixRange([]byte(begin(i)))
					for _, err := range tx.Range(r, kv.RangeOptions{KeysOnly: true}) {
						if err != nil {
							return err
						}
					}
				}
				for i := range x.adds {
					tx.Add(fmt.Append(nil, "sum", i), 1)
				}
				for i := range x.sets {
					tx.Set(fmt.Append(nil, "set", i), nil)
				}
				if attempts == 1 {
					between()
				}
				return nil
			})
			return attempts, err
		}
		clears := func(key string) func() {
			return func() {
				must(t, other.Transact(t.Context(), func(tx kv.Tx) error { tx.Clear([]byte(key)); return nil }))
			}
		}
		if attempts, err := run(func() {}); attempts != 1 || err != nil {
			t.Errorf("%+v: %v after %d attempts, want one", x, err, attempts)
		}
		if _, err := run(clears(begin(10_000))); err != nil {
			t.Errorf("%+v, and another key of the family goes: %v", x, err)
		}
		for range 2 { // also while that is remembered
			for _, i := range []int{0, x.ranges / 2, x.ranges - 1} {
				key := begin(i) + "0"
				if attempts, err := run(clears(key)); attempts != 2 || err != nil {
					t.Errorf("%+v, and key %q goes: %v after %d attempts, want two", x, key, err, attempts)
				}
				set(t, other, key)
			}
		}
	}
}

// Where there is no room for all comparisons, that is an error that says so: here for keys
// in a range over several families, which are compared one by one.
func TestTooManyComparisons(t *testing.T) {
	f := newFakeCluster()
	db := f.open(t)
	for i := range 50 {
		set(t, db, fmt.Sprintf("\x02q%d\x001", i), fmt.Sprintf("\x02q%d\x002", i), fmt.Sprintf("\x02q%d\x003", i))
	}
	err := db.Transact(t.Context(), func(tx kv.Tx) error {
		for _, err := range tx.Range(kv.PrefixRange([]byte{2}), kv.RangeOptions{}) {
			if err != nil {
				return err
			}
		}
		tx.Set([]byte("a"), nil)
		return nil
	})
	var tooLarge *kv.TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Unit != "operations" || tooLarge.Size != 1+1+150 {
		t.Errorf("a range over 50 families with 3 keys each: error %v, want one of 152 operations", err)
	}
}

// Whatever others do between the reads of a transaction and its commit: if it commits, it
// would have read the same just before that, and it removes what it has cleared.
func TestCommitsOnlyWhatIsStillSo(whole *testing.T) {
	rapid.Check(whole, func(t *rapid.T) {
		f := newFakeCluster()
		db, other := f.open(whole), f.open(whole)
		key := func(label string) []byte {
			name := rapid.StringOfN(rapid.RuneFrom([]rune("pqr")), 1, 1, -1).Draw(t, label+"'s family")
			return fmt.Appendf(nil, "\x02%s\x00%02d", name, rapid.IntRange(0, 20).Draw(t, label))
		}
		span := func() kv.Range {
			a, b := key("begin"), key("end")
			if bytes.Compare(a, b) > 0 {
				a, b = b, a
			}
			return kv.Range{Begin: a, End: b}
		}
		change := func(n int) func(kv.Tx) error {
			var changes []func(kv.Tx)
			for range n {
				k, r := key("key"), span()
				changes = append(changes, rapid.SampledFrom([]func(kv.Tx){
					func(tx kv.Tx) { tx.Set(k, k) }, func(tx kv.Tx) { tx.Set(k, nil) },
					func(tx kv.Tx) { tx.Clear(k) }, func(tx kv.Tx) { tx.Clear(k) },
					func(tx kv.Tx) { tx.Add(k, 1) },
					func(tx kv.Tx) { tx.ClearRange(r) },
				}).Draw(t, "change"))
			}
			return func(tx kv.Tx) error {
				for _, change := range changes {
					change(tx)
				}
				return nil
			}
		}
		must(t, other.Transact(whole.Context(), change(60)))
		var reads []func(kv.Reader) string
		for range rapid.IntRange(1, 12).Draw(t, "reads") {
			k, r := key("read"), span()
			opts := kv.RangeOptions{Limit: rapid.IntRange(0, 5).Draw(t, "limit"), Reverse: rapid.Bool().Draw(t, "reverse")}
			get := func(reader kv.Reader) string { v, err := reader.Get(k); return fmt.Sprint(v, err) }
			scan := func(reader kv.Reader) (all string) {
				for pair, err := range reader.Range(r, opts) {
					all += fmt.Sprint(pair, err)
				}
				return all
			}
			reads = append(reads, rapid.SampledFrom([]func(kv.Reader) string{get, scan, scan, scan}).Draw(t, "read"))
		}
		adds, sets := rapid.IntRange(0, 50).Draw(t, "adds"), rapid.IntRange(1, 12).Draw(t, "sets")
		gets := rapid.SampledFrom([]int{0, 0, 100, 112}).Draw(t, "reads of other keys") // little room is left
		if gets > 0 {
			adds, sets = 0, 1
		}
		for range 3 { // what rivals have done before is remembered
			var between []func(kv.Tx) error
			for range rapid.IntRange(0, 3).Draw(t, "transactions between") {
				between = append(between, change(rapid.IntRange(1, 3).Draw(t, "changes")))
			}
			n := 0
			var got, now, want []string
			var clears [][]byte
			for range rapid.IntRange(0, 4).Draw(t, "clears") {
				clears = append(clears, key("cleared"))
			}
			err := db.Transact(whole.Context(), func(tx kv.Tx) error {
				n++
				got = got[:0]
				for _, read := range reads {
					got = append(got, read(tx))
				}
				for i := range gets {
					_, err := tx.Get(fmt.Append(nil, "get", i))
					must(t, err)
				}
				for i := range adds {
					tx.Add(fmt.Append(nil, "sum", i), 1)
				}
				for i := range sets {
					tx.Set(fmt.Append(nil, "set", i), nil)
				}
				for _, f := range between {
					if n == 1 {
						must(t, other.Transact(whole.Context(), f))
					}
				}
				for _, key := range clears {
					tx.Clear(key)
				}
				want = slices.DeleteFunc(f.store(db), func(key string) bool {
					return key[0] != 2 || slices.ContainsFunc(clears, func(c []byte) bool { return string(c) == key })
				})
				return other.ReadTransact(whole.Context(), func(r kv.Reader) error {
					now = now[:0]
					for _, read := range reads {
						now = append(now, read(r))
					}
					return nil
				})
			})
			if errors.Is(err, kv.ErrTooLarge) { // ranges over families, with all their keys
				return
			}
			must(t, err)
			for i := range reads {
				if now[i] != got[i] {
					t.Errorf("it has committed in attempt %d having read %q, and there was %q", n, got[i], now[i])
				}
			}
			left := slices.DeleteFunc(f.store(db), func(key string) bool { return key[0] != 2 })
			if !slices.Equal(left, want) {
				t.Errorf("it has cleared %q, and left %q, want %q", clears, left, want)
			}
		}
	})
}
