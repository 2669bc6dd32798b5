package overlay

import (
	"bytes"
	"fmt"
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
	if c.at < 0 || c.at >= len(c.pairs) || !c.r.Contains(c.pairs[c.at].Key) {
		return kv.KeyValue{}, false, nil
	}
	p := c.pairs[c.at]
	return kv.KeyValue{Key: bytes.Clone(p.Key), Value: bytes.Clone(p.Value)}, true, nil
}

func (c *sliceCursor) Close() error { return nil }

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
		check := func() {
			r, reverse := span(), rapid.Bool().Draw(t, "reverse")
			var got []string
			for p, err := range o.Merge(r, reverse, func() (Cursor, error) {
				return &sliceCursor{pairs: stored, r: r, reverse: reverse}, nil
			}) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s=%s", p.Key, p.Value))
				p.Key[0], p.Value = 'z', append(p.Value[:0], "zzzz"...) // they are ours
			}
			if want := want.pairs(r, reverse); !slices.Equal(got, want) {
				t.Fatalf("range %q reverse %v: got %q, want %q", r, reverse, got, want)
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
				if len(r.End) > 0 {
					want.clear(r)
				}
			},
			"add": func(t *rapid.T) {
				k, d := key.Draw(t, "key"), rapid.Int64().Draw(t, "delta")
				o.Add([]byte(k), d)
				want[k] = string(Sum([]byte(want[k]), d))
			},
			"read": func(*rapid.T) { check() },
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
		for p, err := range o.Merge(r, reverse, func() (Cursor, error) {
			return &sliceCursor{pairs: stored, r: r, reverse: reverse}, nil
		}) {
			if err != nil {
				t.Fatal(err)
			}
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

// After Reset an overlay is empty, and what it had handed out stays as it was.
func TestReset(t *testing.T) {
	var o Overlay
	var handed [][]byte
	var want []string
	for round, n := range []int{1, 3, 20, 600, 2} {
		for i := range n {
			o.Set(fmt.Appendf(nil, "k%d.%03d", round, i), fmt.Appendf(nil, "v%d.%03d", round, i))
		}
		o.Clear([]byte("a"))
		o.ClearRange(kv.PrefixRange([]byte("b")))
		if len(o.All()) != n+1 || len(o.Cleared()) != 1 {
			t.Fatalf("round %d: %d changes of %d, %d cleared ranges", round, len(o.All()), n+1, len(o.Cleared()))
		}
		for _, c := range o.All() {
			for _, b := range [][]byte{c.Key, c.Value} {
				handed, want = append(handed, b), append(want, string(b))
			}
		}
		o.Reset()
		if _, known := o.Lookup([]byte("b1")); known || !o.Empty() || len(o.All()) > 0 || o.Bytes() != 0 || o.Ops() != 0 || len(o.Cleared()) > 0 {
			t.Fatalf("round %d: not empty after Reset: %v", round, o.All())
		}
	}
	for i, b := range handed {
		if string(b) != want[i] {
			t.Fatalf("slice %d is %q now, and was %q", i, b, want[i])
		}
	}
}
