package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
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
				testkit.NoError(t, other.Transact(t.Context(), func(tx kv.Tx) error { tx.Clear([]byte(key)); return nil }))
			}
		}
		if attempts, err := run(func() {}); attempts != 1 || err != nil {
			t.Errorf("%+v: %v after %d attempts, want one", x, err, attempts)
		}
		if _, err := run(clears(begin(10_000))); err != nil {
			t.Errorf("%+v, and another key of the family goes: %v", x, err)
		}
		for _, i := range []int{0, x.ranges / 2, x.ranges - 1} {
			key := begin(i) + "0"
			if attempts, err := run(clears(key)); attempts != 2 || err != nil {
				t.Errorf("%+v, and key %q goes: %v after %d attempts, want two", x, key, err, attempts)
			}
			set(t, other, key)
		}
	}
}

// Of the longest keys so few are compared that there is room for as much as a transaction may write.
func TestLongKeysInRange(t *testing.T) {
	db := newFakeCluster().open(t)
	for i := range 100 {
		set(t, db, fmt.Sprintf("\x02q\x00%0*d", maxKey-3, i))
	}
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		for _, err := range tx.Range(kv.Range{Begin: []byte("\x02q\x00"), End: []byte("\x02q\x00\xff")}, kv.RangeOptions{}) {
			if err != nil {
				return err
			}
		}
		for i, left := 0, maxTransaction-10; left > 0; i, left = i+1, left-maxValue-1 {
			tx.Set(fmt.Append(nil, i), make([]byte, min(left, maxValue)))
		}
		return nil
	}))
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
func TestCommitsOnlyWhatIsStillSo(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFakeCluster()
		m := stillSo{T: rt, ctx: t.Context(), f: f, db: f.open(t), other: f.open(t)}
		testkit.NoError(rt, m.other.Transact(m.ctx, m.change(60)))
		m.reads = m.someReads()
		m.adds, m.sets = rapid.IntRange(0, 50).Draw(rt, "adds"), rapid.IntRange(1, 12).Draw(rt, "sets")
		m.gets = rapid.SampledFrom([]int{0, 0, 100, 112}).Draw(rt, "reads of other keys") // little room is left
		if m.gets > 0 {
			m.adds, m.sets = 0, 1
		}
		for round := 0; round < 3 && m.transact(); round++ { // what rivals have done before is remembered
		}
	})
}

// stillSo is the world of one case.
type stillSo struct {
	*rapid.T
	ctx              context.Context
	f                *fakeCluster
	db, other        *DB
	reads            []func(kv.Reader) string
	gets, adds, sets int
}

func (m *stillSo) key(label string) []byte {
	name := rapid.StringOfN(rapid.RuneFrom([]rune("pqr")), 1, 1, -1).Draw(m.T, label+"'s family")
	return fmt.Appendf(nil, "\x02%s\x00%02d", name, rapid.IntRange(0, 20).Draw(m.T, label))
}

func (m *stillSo) span() kv.Range {
	a, b := m.key("begin"), m.key("end")
	if bytes.Compare(a, b) > 0 {
		a, b = b, a
	}
	return kv.Range{Begin: a, End: b}
}

// change returns a transaction of so many changes.
func (m *stillSo) change(n int) func(kv.Tx) error {
	var changes []func(kv.Tx)
	for range n {
		k, r := m.key("key"), m.span()
		changes = append(changes, rapid.SampledFrom([]func(kv.Tx){
			func(tx kv.Tx) { tx.Set(k, k) }, func(tx kv.Tx) { tx.Set(k, nil) },
			func(tx kv.Tx) { tx.Clear(k) }, func(tx kv.Tx) { tx.Clear(k) },
			func(tx kv.Tx) { tx.Add(k, 1) },
			func(tx kv.Tx) { tx.ClearRange(r) },
		}).Draw(m.T, "change"))
	}
	return func(tx kv.Tx) error {
		for _, change := range changes {
			change(tx)
		}
		return nil
	}
}

func (m *stillSo) someReads() (reads []func(kv.Reader) string) {
	for range rapid.IntRange(1, 12).Draw(m.T, "reads") {
		k, r := m.key("read"), m.span()
		opts := kv.RangeOptions{Limit: rapid.IntRange(0, 5).Draw(m.T, "limit"), Reverse: rapid.Bool().Draw(m.T, "reverse")}
		get := func(reader kv.Reader) string { v, err := reader.Get(k); return fmt.Sprint(v, err) }
		scan := func(reader kv.Reader) (all string) {
			for pair, err := range reader.Range(r, opts) {
				all += fmt.Sprint(pair, err)
			}
			return all
		}
		reads = append(reads, rapid.SampledFrom([]func(kv.Reader) string{get, scan, scan, scan}).Draw(m.T, "read"))
	}
	return reads
}

// read returns what all reads find.
func (m *stillSo) read(r kv.Reader) (found []string) {
	for _, read := range m.reads {
		found = append(found, read(r))
	}
	return found
}

// items are the keys that are there, but for those of gets, adds and sets.
func (m *stillSo) items() []string {
	return slices.DeleteFunc(m.f.store(m.db), func(key string) bool { return key[0] != 2 })
}

// transact runs a transaction that reads all, while others commit, and clears some keys. It returns
// false if that is too much for one.
func (m *stillSo) transact() bool {
	var between []func(kv.Tx) error
	for range rapid.IntRange(0, 3).Draw(m.T, "transactions between") {
		between = append(between, m.change(rapid.IntRange(1, 3).Draw(m.T, "changes")))
	}
	var clears []string
	for range rapid.IntRange(0, 4).Draw(m.T, "clears") {
		clears = append(clears, string(m.key("cleared")))
	}
	attempts := 0
	var got, now, want []string
	err := m.db.Transact(m.ctx, func(tx kv.Tx) error {
		attempts++
		got = m.read(tx)
		m.touchOthers(tx)
		for _, f := range between {
			if attempts == 1 {
				testkit.NoError(m.T, m.other.Transact(m.ctx, f))
			}
		}
		for _, key := range clears {
			tx.Clear([]byte(key))
		}
		want = slices.DeleteFunc(m.items(), func(key string) bool { return slices.Contains(clears, key) })
		return m.other.ReadTransact(m.ctx, func(r kv.Reader) error {
			now = m.read(r)
			return nil
		})
	})
	if errors.Is(err, kv.ErrTooLarge) { // ranges over families, with all their keys
		return false
	}
	testkit.NoError(m.T, err)
	if !slices.Equal(got, now) {
		m.Errorf("it has committed in attempt %d having read %q, and there was %q", attempts, got, now)
	}
	if left := m.items(); !slices.Equal(left, want) {
		m.Errorf("it has cleared %q, and left %q, want %q", clears, left, want)
	}
	return true
}

// touchOthers reads and writes keys that nobody else does.
func (m *stillSo) touchOthers(tx kv.Tx) {
	for i := range m.gets {
		_, err := tx.Get(fmt.Append(nil, "get", i))
		testkit.NoError(m.T, err)
	}
	for i := range m.adds {
		tx.Add(fmt.Append(nil, "sum", i), 1)
	}
	for i := range m.sets {
		tx.Set(fmt.Append(nil, "set", i), nil)
	}
}
