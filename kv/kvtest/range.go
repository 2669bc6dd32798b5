package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/conq-go/conq/kv"
)

var rangeCases = []testCase{
	{name: "last key", check: checkLastKey,
		rule: "LastKey returns the last key of a range in each kind of Reader, also after it has changed, and LastKeys those of several"},
	{name: "bounds, limit and reverse", check: checkRangeOptions,
		rule: "a range includes its begin and not its end; empty bounds are open; Limit and Reverse do what they say"},
	{name: "byte order", check: checkByteOrder,
		rule: "keys are in the order of their bytes, unsigned, a prefix first; any bytes are allowed after the first; behind 0xff, ranges are empty"},
	{name: "again", check: checkRangeTwice,
		rule: "a sequence can be ranged over more than once and reads anew each time"},
	{name: "loop in a loop", check: checkNestedLoops,
		rule: "loops over ranges may be nested"},
	{name: "change what was returned", check: checkLoopWrites,
		rule: "a loop's body may change or clear the keys that the loop has returned, and the loop goes on behind them"},
	{name: "write behind the loop", check: checkLoopWritesBehind,
		rule: "keys that a loop's body writes behind it are not returned by that loop"},
	{name: "large", check: checkLargeRange, long: true,
		rule: "a range of any length can be read in one loop and by pages, in both directions"},
	{name: "values and keys survive the loop", check: checkPairsKept,
		rule: "pairs belong to the caller: they do not change when the loop goes on"},
}

// bounds are those that ranges of the stored keys are tried with.
var bounds = []string{"", "a", "b", "b\x00", "d", "f", "h", "h\x00", "z"}

// spans calls f with each pair of bounds that is a range.
func spans(f func(begin, end string)) {
	for _, begin := range bounds {
		for _, end := range bounds {
			if end == "" || begin <= end {
				f(begin, end)
			}
		}
	}
}

// storedState is what reset(stored...) leaves.
func storedState() state {
	s := make(state)
	for _, key := range stored {
		s[key] = key
	}
	return s
}

func checkRangeOptions(t *tester) {
	t.reset(stored...)
	want := storedState()
	spans(func(begin, end string) {
		for limit := range 6 {
			for _, reverse := range []bool{false, true} {
				for _, kind := range []string{"range", "known range"} {
					t.compare(want, op{kind: kind, key: begin, end: end, limit: limit, reverse: reverse})
				}
			}
		}
	})
}

func checkLastKey(t *tester) {
	t.reset(stored...)
	want := storedState()
	compare := func() {
		spans(func(begin, end string) {
			t.compare(want, op{kind: "last of range", key: begin, end: end})
			t.compare(want, op{kind: "last of range", key: begin, end: end, alone: true})
			t.compare(want, op{kind: "last of each range", key: begin, end: end})
		})
	}
	compare()
	for _, change := range []op{{kind: "set", key: "c", value: "c"}, {kind: "clear", key: "h"}, {kind: "set", key: "x", value: "x"}, {kind: "clear range", key: "b", end: "e"}} {
		t.transact(func(tx kv.Tx) error { _, err := change.run(tx); return err })
		want.do(change)
		compare()
	}
}

// compare reads in each kind of Reader, some of them lazy.
func (t *tester) compare(want state, o op) {
	t.Helper()
	check := func(r kv.Reader) error {
		got, err := o.read(r)
		if want := want.do(o); err == nil && got != want {
			t.Errorf("%v returned %s, want %s", o, got, want)
		}
		return err
	}
	t.inBoth(check)
	t.read(func(r kv.Reader) error { kv.Lazily(r); return check(r) })
	t.transact(func(tx kv.Tx) error { kv.Lazily(tx); return check(tx.Snapshot()) })
}

func checkByteOrder(t *tester) {
	random := rand.New(rand.NewPCG(1, 2))
	alphabet := []byte{0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff}
	keys := [][]byte{{0x00}, {0x00, 0x00}, {0xfe, 0xff, 0xff}}
	for range 60 {
		key := make([]byte, 1+random.IntN(4))
		for i := range key {
			key[i] = alphabet[random.IntN(len(alphabet))]
		}
		if key[0] != 0xff {
			keys = append(keys, key)
		}
	}
	t.write(func(tx kv.Tx) {
		for _, key := range keys {
			tx.Set(key, key)
		}
	})
	slices.SortFunc(keys, bytes.Compare)
	keys = slices.CompactFunc(keys, bytes.Equal)
	for _, prefix := range [][]byte{nil, {0x00}, {0x7f}, {0x80}, {0xfe}, {0x01, 0xff}, {0xff}, {0xff, 0xff}} {
		var want []kv.KeyValue
		for _, key := range keys {
			if bytes.HasPrefix(key, prefix) {
				want = append(want, kv.KeyValue{Key: key, Value: key})
			}
		}
		t.read(func(r kv.Reader) error {
			got, err := collect(r.Range(kv.PrefixRange(prefix), kv.RangeOptions{}))
			if err == nil && show(got) != show(want) {
				t.Errorf("keys with prefix %q came as %s, want %s", prefix, show(got), show(want))
			}
			return err
		})
	}
	behind := kv.PrefixRange([]byte{0xff, 0xff})
	t.write(func(tx kv.Tx) { tx.ClearRange(behind); tx.AddReadConflict(behind); tx.AddWriteConflict(behind) })
}

func checkRangeTwice(t *tester) {
	t.reset("a", "b")
	t.transact(func(tx kv.Tx) error {
		all := tx.Range(kv.Range{}, kv.RangeOptions{Limit: 3})
		for _, want := range []string{"a b ", "a b c ", "a b c "} {
			if err := t.wantKeys("the sequence again", all, want); err != nil {
				return err
			}
			tx.Set([]byte("c"), nil)
		}
		return nil
	})
}

func checkNestedLoops(t *tester) {
	t.reset("a", "b", "c")
	t.transact(func(tx kv.Tx) error {
		all := tx.Range(kv.Range{}, kv.RangeOptions{})
		got := ""
		for outer, err := range all {
			if err != nil {
				return err
			}
			inner, err := keysOf(all)
			if err != nil {
				return err
			}
			got += string(outer.Key) + ": " + inner
		}
		if want := "a: a b c b: a b c c: a b c "; got != want {
			t.Errorf("nested loops over one sequence returned %s, want %s", got, want)
		}
		return nil
	})
}

// bodies are what a loop may do to a key that it has returned.
var bodies = map[string]func(tx kv.Tx, key []byte){
	"Clear":      func(tx kv.Tx, key []byte) { tx.Clear(key) },
	"Set":        func(tx kv.Tx, key []byte) { tx.Set(key, []byte("changed")) },
	"Add":        func(tx kv.Tx, key []byte) { tx.Add(key, 1) },
	"ClearRange": func(tx kv.Tx, key []byte) { tx.ClearRange(kv.KeyRange(key)) },
}

func checkLoopWrites(t *tester) {
	n := t.operations(500, 4)
	var keys []string
	for i := range n {
		keys = append(keys, fmt.Sprintf("%06d", i))
	}
	for name, body := range bodies {
		for _, reverse := range []bool{false, true} {
			t.reset(keys...)
			var got []string
			t.transact(func(tx kv.Tx) error {
				got = nil
				for pair, err := range tx.Range(kv.Range{}, kv.RangeOptions{Reverse: reverse}) {
					if err != nil {
						return err
					}
					got = append(got, string(pair.Key))
					body(tx, pair.Key)
				}
				return nil
			})
			if reverse {
				slices.Reverse(got)
			}
			if !slices.Equal(got, keys) {
				t.Errorf("a loop with %s in its body, reverse %v, returned %d keys, want each of the %d once, in order",
					name, reverse, len(got), n)
			}
		}
	}
}

func checkLoopWritesBehind(t *tester) {
	for _, reverse := range []bool{false, true} {
		t.reset("b", "d", "f")
		t.transact(func(tx kv.Tx) error {
			got := ""
			for pair, err := range tx.Range(kv.Range{}, kv.RangeOptions{Reverse: reverse}) {
				if err != nil {
					return err
				}
				got += string(pair.Key) + " "
				behind := map[bool]string{false: "a" + string(pair.Key), true: string(pair.Key) + "a"}[reverse]
				tx.Set([]byte(behind), nil)
			}
			want := map[bool]string{false: "b d f ", true: "f d b "}[reverse]
			if got != want {
				t.Errorf("a loop whose body adds keys behind it, reverse %v, returned %s, want %s", reverse, got, want)
			}
			return nil
		})
	}
}

func checkLargeRange(t *tester) {
	const n, page = 100_000, 1000
	t.fill(n)
	for _, reverse := range []bool{false, true} {
		at := func(i int) string {
			if reverse {
				i = n - 1 - i
			}
			return fmt.Sprintf("%08d", i)
		}
		m := n // of the pairs, if a loop over all takes longer than a transaction may
		err := t.readLoop(m, reverse, at)
		for ; errors.Is(err, kv.ErrTooOld) && m > page; err = t.readLoop(m, reverse, at) {
			m /= 2
		}
		if err != nil {
			t.Errorf("a loop over %d pairs, reverse %v: %v", m, reverse, err)
		}
		t.readPages(n, page, reverse, at)
	}
}

// readLoop reads the first n of the pairs in one loop.
func (t *tester) readLoop(n int, reverse bool, at func(int) string) error {
	r := kv.Range{End: kv.After([]byte(at(n - 1)))}
	if reverse {
		r = kv.Range{Begin: []byte(at(n - 1))}
	}
	return t.db.ReadTransact(t.ctx, func(tx kv.Reader) error {
		i := 0
		for pair, err := range tx.Range(r, kv.RangeOptions{Reverse: reverse}) {
			if err != nil {
				return err
			}
			if i == n || string(pair.Key) != at(i) || string(pair.Value) != at(i) {
				return fmt.Errorf("pair %d is %q=%q, want %q, and %d pairs", i, pair.Key, pair.Value, at(i), n)
			}
			i++
		}
		if i != n {
			return fmt.Errorf("the loop returned %d pairs", i)
		}
		return nil
	})
}

// readPages reads n pairs, each page in a transaction of its own.
func (t *tester) readPages(n, page int, reverse bool, at func(int) string) {
	t.Helper()
	rest := kv.Range{}
	for i := 0; i < n; i += page {
		var pairs []kv.KeyValue
		t.read(func(r kv.Reader) (err error) {
			pairs, err = collect(r.Range(rest, kv.RangeOptions{Limit: page, Reverse: reverse}))
			return err
		})
		if len(pairs) != page || string(pairs[0].Key) != at(i) || string(pairs[page-1].Key) != at(i+page-1) {
			t.Fatalf("the page at %d, reverse %v, has %d pairs, or not those that follow", i, reverse, len(pairs))
		}
		if last := pairs[page-1].Key; reverse {
			rest.End = last
		} else {
			rest.Begin = kv.After(last)
		}
	}
}

// fill stores n pairs of 8 digits.
func (t *tester) fill(n int) {
	t.Helper()
	batch := t.operations(min(n, 5000, t.db.Limits().Transaction/32), 1)
	for i := 0; i < n; i += batch {
		t.write(func(tx kv.Tx) {
			for j := i; j < min(i+batch, n); j++ {
				key := fmt.Appendf(nil, "%08d", j)
				tx.Set(key, key)
			}
		})
	}
}

// wantFilled checks all that is stored after fill.
func (t *tester) wantFilled(what string, n int) {
	t.Helper()
	t.read(func(r kv.Reader) error {
		pairs, err := collect(r.Range(kv.Range{}, kv.RangeOptions{}))
		for i, pair := range pairs {
			if want := fmt.Sprintf("%08d", i); string(pair.Key) != want || string(pair.Value) != want {
				t.Fatalf("%s pair %d is %q=%q, want %q", what, i, pair.Key, pair.Value, want)
			}
		}
		if err == nil && len(pairs) != n {
			t.Errorf("%s there are %d pairs, want %d", what, len(pairs), n)
		}
		return err
	})
}

func checkPairsKept(t *tester) {
	t.fill(100)
	t.wantFilled("after the loop", 100)
}
