package cache

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	"pgregory.net/rapid"
)

// A hot range that has one pair too many becomes two that have not, with the same pairs.
func TestSplit(t *testing.T) {
	limits := Usual
	limits.Pairs = 8
	var keys []string
	for i := range limits.Pairs + 1 {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	c := New(limits, NewGaps())
	h := newRange(all)
	for _, key := range keys {
		h.append([]Pair{NewPair([]byte(key), nil)})
	}
	c.add(h)
	c.split(h)
	var got []string
	size := 0
	c.ranges.Scan(func(h *hotRange) bool {
		if len(h.pairs) > limits.Pairs || !h.place.Taken() {
			t.Errorf("a range with %q", keysOf(h.pairs))
		}
		got = append(got, keysOf(h.pairs)...)
		size += h.size
		return true
	})
	if !slices.Equal(got, keys) || size != c.bytes {
		t.Errorf("%q is left, of %d bytes, not %d", got, c.bytes, size)
	}
}

// TestHotRange compares a hot range with a plain list of keys: pairs are inserted, taken from its
// ends, and fetched from behind it, and it is cut.
func TestHotRange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &commit{Cache: New(Usual, NewGaps()), backlog: Applied{}}
		h := newRange(kv.Range{Begin: []byte("a"), End: []byte("b")})
		c.add(h)
		var keys []string
		fetched := byte(0)
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if got := keysOf(h.pairs); !slices.Equal(got, keys) || h.size != rangeSize+sizeOf(h.pairs) {
					rt.Fatalf("the keys are %q, want %q; %d bytes", got, keys, h.size)
				}
			},
			"insert": func(rt *rapid.T) {
				k := "a" + rapid.StringN(1, 3, 3).Draw(rt, "key")
				i, found := h.search([]byte(k))
				at, there := slices.BinarySearch(keys, k)
				if i != at || found != there {
					rt.Fatalf("%q is at %d, found: %v; want %d, %v", k, i, found, at, there)
				}
				if !found {
					c.set(h, &overlay.Change{Key: append([]byte(k), 0)[:len(k)]})
					keys = slices.Insert(keys, i, k)
				}
			},
			"first": func(*rapid.T) {
				if len(keys) > 0 {
					c.remove(h, []byte(keys[0]))
					keys = keys[1:]
				}
			},
			"last": func(*rapid.T) {
				if len(keys) > 0 {
					c.remove(h, []byte(keys[len(keys)-1]))
					keys = keys[:len(keys)-1]
				}
			},
			"fetch": func(rt *rapid.T) {
				if fetched > 100 {
					return
				}
				var more []Pair
				for range rapid.IntRange(0, 8).Draw(rt, "pairs") {
					k := []byte{'b', fetched}
					more, keys = append(more, NewPair(k, nil)), append(keys, string(k))
					fetched++
				}
				c.unlist(h)
				h.extend(kv.Range{Begin: h.end, End: []byte{'b', fetched}}, more, false)
				c.list(h)
			},
			"cut": func(rt *rapid.T) {
				i := rapid.IntRange(0, len(keys)).Draw(rt, "at")
				if i == len(keys) || bytes.Compare(h.begin, []byte(keys[i])) >= 0 {
					return
				}
				first, second := c.cut(h, []byte(keys[i]), i, true)
				if got := keysOf(second.pairs); !slices.Equal(got, keys[i:]) || string(first.end) != keys[i] || string(second.begin) != keys[i] {
					rt.Fatalf("cut at %q: the rest from %q has %q", keys[i], second.begin, got)
				}
				second.pairs = append(second.pairs[:0], NewPair([]byte("other"), nil)) // in memory of its own
				h, keys = first, keys[:i]
			},
		})
	})
}

// A reader that goes on from one hot range to the next, so that they become one, is told nothing that
// came after its version.
func TestAbsorbNewer(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		c := New(Usual, NewGaps())
		for i, begin := range []string{"a", "b"} {
			h := newRange(kv.Range{Begin: []byte(begin), End: []byte{begin[0] + 1}})
			h.append([]Pair{NewPair(h.begin, nil)})
			if h.changed = 1; (i == 1) != reverse {
				h.changed = 5
			}
			c.add(h)
		}
		for version, want := range map[uint64]int{3: 1, 5: 2} {
			cur := NewCursor(kv.Range{Begin: []byte("a"), End: []byte("c")}, reverse)
			if got := c.Read(&cur, nil, 10, version); len(got) > want {
				t.Errorf("reverse: %v; at version %d %q is read", reverse, version, keysOf(got))
			}
		}
		if n := c.ranges.Len(); n != 1 {
			t.Errorf("reverse: %v; there are %d hot ranges, want one", reverse, n)
		}
	}
}
