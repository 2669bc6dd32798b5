package overlay

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sort"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// model is what an overlay over a store must look like: a plain map.
type model map[string]string

func (m model) pairs(r kv.Range, reverse bool) (all []string) {
	for k, v := range m {
		if r.Contains([]byte(k)) {
			all = append(all, k+"="+v)
		}
	}
	sort.Strings(all)
	if reverse {
		slices.Reverse(all)
	}
	return all
}

func (m model) clear(r kv.Range) {
	for k := range m {
		if r.Contains([]byte(k)) {
			delete(m, k)
		}
	}
}

// sliceCursor reads a sorted slice, the plainest of stores.
type sliceCursor struct {
	pairs   []kv.KeyValue
	r       kv.Range
	reverse bool
	at      int
	moves   int
}

func (c *sliceCursor) Seek(key []byte) (kv.KeyValue, bool, error) {
	c.at = sort.Search(len(c.pairs), func(i int) bool { return bytes.Compare(c.pairs[i].Key, key) >= 0 })
	if c.reverse {
		c.at--
	}
	return c.pair()
}

func (c *sliceCursor) Next() (kv.KeyValue, bool, error) {
	if c.reverse {
		c.at--
	} else {
		c.at++
	}
	return c.pair()
}

func (c *sliceCursor) pair() (kv.KeyValue, bool, error) {
	c.moves++
	if c.at < 0 || c.at >= len(c.pairs) || !c.r.Contains(c.pairs[c.at].Key) {
		return kv.KeyValue{}, false, nil
	}
	p := c.pairs[c.at]
	return kv.KeyValue{Key: bytes.Clone(p.Key), Value: bytes.Clone(p.Value)}, true, nil
}

// merge is OverAll with a slice.
func (o *Overlay) merge(stored []kv.KeyValue, r kv.Range, reverse bool) iter.Seq2[kv.KeyValue, error] {
	return scan(o.OverAll(&sliceCursor{pairs: stored, r: r, reverse: reverse}, r, reverse))
}

func scan(m Merger) iter.Seq2[kv.KeyValue, error] {
	return Pairs(m.r, 0, func(_ kv.Range, yield func(kv.KeyValue) bool) error {
		return m.Scan(0, nil, func() error { return nil }, yield)
	})
}

// overAll is the same with Over, whose bounds it changes afterwards, as they are the caller's.
func (o *Overlay) overAll(stored []kv.KeyValue, r kv.Range, reverse bool) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		own := kv.Range{Begin: bytes.Clone(r.Begin), End: bytes.Clone(r.End)}
		m := o.Over(&sliceCursor{pairs: stored, r: r, reverse: reverse}, own, reverse)
		for {
			pair, ok, err := m.Next()
			if !ok && err == nil || !yield(pair, err) {
				break
			}
		}
		copy(own.Begin, "bbb")
		copy(own.End, "bbb")
	}
}

func TestMergeAgainstModel(t *testing.T) {
	t.Run("list", mergeAgainstModel)
	defer func(n int) { maxList = n }(maxList)
	maxList = 2
	t.Run("tree", mergeAgainstModel)
}

func mergeAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringOfN(rapid.RuneFrom([]rune("ab")), 1, 3, -1)
		base := rapid.MapOf(key, rapid.StringN(0, 9, -1)).Draw(t, "base")
		want := model{}
		var stored []kv.KeyValue
		for k, v := range base {
			want[k] = v
			stored = append(stored, kv.KeyValue{Key: []byte(k), Value: []byte(v)})
		}
		slices.SortFunc(stored, func(a, b kv.KeyValue) int { return bytes.Compare(a.Key, b.Key) })

		var o Overlay
		span := func() kv.Range {
			a, b := key.Draw(t, "begin"), key.Draw(t, "end")
			return kv.Range{Begin: []byte(min(a, b)), End: []byte(max(a, b))}
		}
		reads := []kv.Range{{Begin: []byte("a"), End: []byte("c")}}
		check := func() {
			if rapid.Bool().Draw(t, "elsewhere") {
				reads = append(reads, span())
			}
			r, reverse := rapid.SampledFrom(reads).Draw(t, "read"), rapid.Bool().Draw(t, "reverse")
			most := rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "most")
			want := want.pairs(r, reverse)
			want = want[:min(most, len(want))]
			for name, pairs := range map[string]iter.Seq2[kv.KeyValue, error]{"Merge": o.merge(stored, r, reverse), "Over": o.overAll(stored, r, reverse)} {
				var got []string
				for p, err := range pairs {
					noError(t, err)
					got = append(got, fmt.Sprintf("%s=%s", p.Key, p.Value))
					p.Key[0], p.Value = 'z', append(p.Value[:0], "zzzz"...) // they are ours
					if len(got) == most {
						break
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%s: range %q reverse %v: got %q, want %q", name, r, reverse, got, want)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				k, v := key.Draw(t, "key"), rapid.StringN(0, 9, -1).Draw(t, "value")
				o.Set([]byte(k), []byte(v))
				want[k] = v
			},
			"clear": func(t *rapid.T) {
				k := key.Draw(t, "key")
				o.Clear([]byte(k))
				delete(want, k)
			},
			"clear range": func(*rapid.T) {
				r := span()
				o.ClearRange(r)
				want.clear(r)
				copy(r.Begin, "bbb") // they are ours
				copy(r.End, "bbb")
			},
			"add": func(t *rapid.T) {
				k, d := key.Draw(t, "key"), rapid.Int64().Draw(t, "delta")
				o.Add([]byte(k), d)
				want[k] = string(Sum([]byte(want[k]), d))
			},
			"read": func(*rapid.T) { check() },
			"take": func(t *rapid.T) { // the first or last one, from where another was
				r, reverse := rapid.SampledFrom(reads).Draw(t, "read"), rapid.Bool().Draw(t, "reverse")
				for p := range o.overAll(stored, r, reverse) {
					o.Clear(p.Key)
					delete(want, string(p.Key))
					break
				}
			},
		})
		check()
	})
}

func TestMergeWhileChanging(t *testing.T) {
	var stored []kv.KeyValue
	for i := range 20 {
		stored = append(stored, kv.KeyValue{Key: fmt.Appendf(nil, "%02d", i)})
	}
	for _, reverse := range []bool{false, true} {
		var o Overlay
		r := kv.Range{Begin: []byte("0"), End: []byte("9")}
		seen := 0
		for p, err := range o.overAll(stored, r, reverse) {
			noError(t, err)
			seen++
			o.Clear(p.Key)
			if seen == 5 { // takes ten away, ahead of the loop
				o.ClearRange(kv.Range{Begin: []byte("05"), End: []byte("15")})
			}
		}
		if seen != 10 {
			t.Errorf("reverse %v: the loop met %d keys, want the 10 that were not cleared ahead of it", reverse, seen)
		}
		if got := o.Len(); got != 10 {
			t.Errorf("reverse %v: %d changes, want 10", reverse, got)
		}
	}
}

// A loop meets each key once, though its body changes what it was given, and what lies before that.
func TestChangeWhileReading(t *testing.T) {
	for _, touched := range []bool{false, true} {
		for _, reverse := range []bool{false, true} {
			var stored []kv.KeyValue
			for i := range 6 {
				stored = append(stored, kv.KeyValue{Key: fmt.Appendf(nil, "%d", i)})
			}
			var o Overlay
			if touched {
				o.Set([]byte("3"), nil)
				o.Clear([]byte("4"))
			}
			var got []string
			for p, err := range o.overAll(stored, kv.Range{Begin: []byte("0"), End: []byte("9")}, reverse) {
				noError(t, err)
				got = append(got, string(p.Key))
				o.Set(p.Key, []byte("changed"))
			}
			want := []string{"0", "1", "2", "3", "4", "5"}
			if touched {
				want = slices.Delete(want, 4, 5)
			}
			if reverse {
				slices.Reverse(want)
			}
			if !slices.Equal(got, want) {
				t.Errorf("touched %v, reverse %v: met %q, want %q", touched, reverse, got, want)
			}
		}
	}
}

var errStore = errors.New("the store failed")

// failingCursor fails at one of its moves.
type failingCursor struct {
	sliceCursor
	left int
}

func (c *failingCursor) Seek(key []byte) (kv.KeyValue, bool, error) {
	return c.fail(c.sliceCursor.Seek(key))
}

func (c *failingCursor) Next() (kv.KeyValue, bool, error) { return c.fail(c.sliceCursor.Next()) }

func (c *failingCursor) fail(pair kv.KeyValue, ok bool, err error) (kv.KeyValue, bool, error) {
	if c.left--; c.left < 0 {
		return kv.KeyValue{}, false, errStore
	}
	return pair, ok, err
}

// An error of the store comes out and ends the loop, wherever it happens.
func TestStoreFails(t *testing.T) {
	stored := []kv.KeyValue{{Key: []byte("1")}, {Key: []byte("2")}, {Key: []byte("3")}, {Key: []byte("4")}}
	r := kv.Range{Begin: []byte("0"), End: []byte("9")}
	for _, touched := range []bool{false, true} {
		var o Overlay
		if touched {
			o.Set([]byte("12"), nil)
			o.ClearRange(kv.Range{Begin: []byte("2"), End: []byte("3")})
		}
		for _, reverse := range []bool{false, true} {
			for left := range 4 {
				c := &failingCursor{sliceCursor: sliceCursor{pairs: stored, r: r, reverse: reverse}, left: left}
				var last error
				met := 0
				for _, err := range scan(o.OverAll(c, r, reverse)) {
					met++
					last = err
				}
				if last != errStore || met > left+2 {
					t.Errorf("touched %v, reverse %v, after %d moves: %v after %d pairs", touched, reverse, left, last, met-1)
				}
			}
		}
	}
}

// Bytes counts each write, also of a key that was written before, and Ops each key, as the limits do.
func TestBytes(t *testing.T) {
	var o Overlay
	for i, c := range []struct {
		write      func()
		bytes, ops int
	}{
		{func() { o.Set([]byte("key"), []byte("value")) }, 8, 1},
		{func() { o.Set([]byte("key"), nil) }, 3, 1},
		{func() { o.Clear([]byte("key")) }, 3, 1},
		{func() { o.Add([]byte("sum"), 7) }, 3 + 8, 2},
		{func() { o.ClearRange(kv.Range{Begin: []byte("a"), End: []byte("bcd")}) }, 4, 3},
	} {
		before := o.Bytes()
		if c.write(); o.Bytes()-before != c.bytes || o.Ops() != c.ops {
			t.Errorf("write %d: %d bytes, %d writes; want %d, %d", i, o.Bytes()-before, o.Ops(), c.bytes, c.ops)
		}
	}
}

// TestReadWhileTaking checks that a read which goes on after a pair that stays, and was not the
// transaction's then, notes no gap there.
func TestReadWhileTaking(t *testing.T) {
	stored := []kv.KeyValue{{Key: []byte("1")}, {Key: []byte("2")}, {Key: []byte("3")}}
	for _, reverse := range []bool{false, true} {
		var o Overlay
		r, met := kv.Range{End: []byte("9")}, 0
		for _, err := range o.overAll(stored, r, reverse) {
			noError(t, err)
			o.Clear([]byte("2"))
			met++
		}
		for range o.overAll(stored, r, reverse) {
			met++
		}
		if met != 4 {
			t.Errorf("reverse %v: two loops met %d pairs, want 4", reverse, met)
		}
	}
}

// TestTakeOneByOne checks that who takes pairs one by one, from the same end each time, does not step
// over those that he has taken, whether they were stored or are the transaction's own, and though he
// takes from other places by turns.
func TestTakeOneByOne(t *testing.T) {
	const n = 1000
	for _, places := range []int{1, 2, mostGaps} {
		for _, own := range []bool{false, true} {
			for _, reverse := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d places, own %v, reverse %v", places, own, reverse), func(t *testing.T) {
					takeOneByOne(t, n, places, own, reverse)
				})
			}
		}
	}
}

func takeOneByOne(t *testing.T, n, places int, own, reverse bool) {
	var o Overlay
	stored := make([][]kv.KeyValue, places)
	for p := range places {
		for i := range n {
			if key := fmt.Appendf(nil, "%c%04d", 'a'+p, i); own {
				o.Set(key, nil)
			} else {
				stored[p] = append(stored[p], kv.KeyValue{Key: key})
			}
		}
	}
	moves := 0
	taken := make([][]byte, places) // where the last one was
	for i := range n {
		for p := range places {
			r := kv.Range{Begin: []byte{'a' + byte(p)}, End: []byte{'b' + byte(p)}}
			cursor := &sliceCursor{pairs: stored[p], r: r, reverse: reverse}
			m := o.Over(cursor, r, reverse)
			want := fmt.Sprintf("%c%04d", 'a'+p, i)
			if reverse {
				want = fmt.Sprintf("%c%04d", 'a'+p, n-1-i)
			}
			first, ok, err := m.Next()
			if string(first.Key) != want || !ok || err != nil {
				t.Fatalf("%q, %v, %v, want %q", first.Key, ok, err, want)
			}
			if from := m.from; i > 0 {
				if to := o.gaps.find(from, reverse).to; !bytes.Equal(to, taken[p]) {
					t.Fatalf("at %q, the gap goes to %q, want %q", want, to, taken[p])
				}
			}
			if taken[p] = bytes.Clone(first.Key); !reverse {
				taken[p] = kv.After(first.Key)
			}
			moves += cursor.moves
			o.Clear(first.Key)
		}
	}
	if most := 2 * n * places; moves > most {
		t.Errorf("%d pairs were read, want %d at most", moves, most)
	}
}

func TestSum(t *testing.T) {
	for _, c := range []struct {
		value string
		delta int64
		want  string
	}{
		{"", 1, "\x01\x00\x00\x00\x00\x00\x00\x00"},
		{"", -1, "\xff\xff\xff\xff\xff\xff\xff\xff"},
		{"\xff", 1, "\x00\x01\x00\x00\x00\x00\x00\x00"},
		{"\xff\xff\xff\xff\xff\xff\xff\x7f", 1, "\x00\x00\x00\x00\x00\x00\x00\x80"},
		{"\x01\x00\x00\x00\x00\x00\x00\x00\x05", 1, "\x02\x00\x00\x00\x00\x00\x00\x00"},
	} {
		if got := string(Sum([]byte(c.value), c.delta)); got != c.want {
			t.Errorf("Sum(%q, %d) = %q, want %q", c.value, c.delta, got, c.want)
		}
	}
}

// noError is testkit's, which stands on this package.
func noError(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
