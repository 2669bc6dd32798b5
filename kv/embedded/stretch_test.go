package embedded

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// A stretch that has one pair too many becomes several that have not, with the same pairs, wherever
// backward reads have begun in it and wherever it has grown.
func TestSplit(t *testing.T) {
	const most = 8
	var keys []string
	for i := range most + 1 {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	for grown := range keys {
		for _, inner := range append([]string{"", "k"}, keys...) {
			n := newNear()
			n.most.pairs, n.most.tail = most, 2
			s := newStretch(kv.Range{Begin: []byte("a"), End: []byte("z")})
			for _, key := range keys {
				s.put([]pair{newPair([]byte(key), nil)})
			}
			if inner != "" {
				s.inner = []byte(inner)
			}
			n.add(s)
			n.split(s, grown)
			var got []string
			size := 0
			n.stretches.Ascend(&stretch{}, func(s *stretch) bool {
				if len(s.pairs) > most || s.gone {
					t.Errorf("grown at %d, read from %q on: a stretch with %q", grown, inner, keysOf(s.pairs))
				}
				got = append(got, keysOf(s.pairs)...)
				size += s.size
				return true
			})
			if !slices.Equal(got, keys) || size != n.size {
				t.Errorf("grown at %d, read from %q on: %q is left, of %d bytes, not %d", grown, inner, got, n.size, size)
			}
		}
	}
}

// TestStretch compares a stretch with a plain list of keys: pairs are inserted, taken from its
// ends, and fetched from behind it, and it is cut.
func TestStretch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := newNear()
		s := newStretch(kv.Range{Begin: []byte("a"), End: []byte("b")})
		n.add(s)
		var keys []string
		fetched := byte(0)
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if got := keysOf(s.pairs); !slices.Equal(got, keys) {
					rt.Fatalf("the keys are %q, want %q", got, keys)
				}
			},
			"insert": func(rt *rapid.T) {
				k := "a" + rapid.StringN(1, 3, 3).Draw(rt, "key")
				i, found := s.search([]byte(k))
				at, there := slices.BinarySearch(keys, k)
				if i != at || found != there {
					rt.Fatalf("%q is at %d, found: %v; want %d, %v", k, i, found, at, there)
				}
				if !found {
					n.set(s, newPair([]byte(k), nil), nil, nil)
					keys = slices.Insert(keys, i, k)
				}
			},
			"first": func(*rapid.T) {
				if len(keys) > 0 {
					n.remove(s, []byte(keys[0]), nil)
					keys = keys[1:]
				}
			},
			"last": func(*rapid.T) {
				if len(keys) > 0 {
					n.remove(s, []byte(keys[len(keys)-1]), nil)
					keys = keys[:len(keys)-1]
				}
			},
			"fetch": func(rt *rapid.T) {
				if fetched > 100 {
					return
				}
				var more []pair
				for range rapid.IntRange(0, 8).Draw(rt, "pairs") {
					k := []byte{'b', fetched}
					more, keys = append(more, newPair(k, nil)), append(keys, string(k))
					fetched++
				}
				s.extend(kv.Range{Begin: s.end, End: []byte{'b', fetched}}, more, false)
			},
			"cut": func(rt *rapid.T) {
				i := rapid.IntRange(0, len(keys)).Draw(rt, "at")
				at := s.end
				if i < len(keys) {
					at = []byte(keys[i])
				}
				if bytes.Compare(s.begin, at) >= 0 || bytes.Compare(at, s.end) >= 0 {
					return
				}
				first, second := n.cut(s, at, i, true)
				if got := keysOf(second.pairs); !slices.Equal(got, keys[i:]) || !bytes.Equal(first.end, at) || !bytes.Equal(second.begin, at) {
					rt.Fatalf("cut at %q: the rest from %q has %q", at, second.begin, got)
				}
				second.pairs = append(second.pairs[:0], newPair([]byte("other"), nil)) // in memory of its own
				s, keys = first, keys[:i]
			},
		})
	})
}

func keysOf(pairs []pair) (keys []string) {
	for _, p := range pairs {
		keys = append(keys, string(p.key()))
	}
	return keys
}

// TestNearStack checks that what is near is not cut where a priority ends, if no pair lies behind that:
// it would be put together again as soon as the last item is taken, which pushes and pops by turns do.
func TestNearStack(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	db.ahead = nil // nothing is fetched that is not asked for
	all, one := kv.PrefixRange([]byte("p")), kv.PrefixRange([]byte("p5"))
	const n = 500
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range n {
			tx.Set(fmt.Appendf(nil, "p5/%08d", i), nil)
		}
	})
	pop := func() {
		mustTransact(t, db, func(tx kv.Tx) {
			pair, ok, err := first(tx, all, true)
			if !ok || err != nil {
				t.Fatal(ok, err)
			}
			tx.Clear(pair.Key)
		})
	}
	for range n / 4 {
		pop()
	}
	whole := db.near.holding(one.End, true)
	if len(whole.pairs) <= db.near.most.inner || bytes.Equal(whole.end, one.End) {
		t.Fatalf("%d pairs are near up to %q: the test tests nothing", len(whole.pairs), whole.end)
	}
	for i := range 50 {
		mustTransact(t, db, func(tx kv.Tx) {
			kv.Lazily(tx)
			if last, err := kv.LastKey(tx.Snapshot(), one, all); last == nil || err != nil {
				t.Fatal(last, err)
			}
			tx.Set(fmt.Appendf(nil, "p5/%08d", n), nil)
		})
		pop()
		if db.near.holding(one.End, true) != whole {
			t.Fatalf("after %d items what is near was cut", i+1)
		}
	}
}
