package embedded

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
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
// ends, and fetched from behind it. The memory that it keeps for more must hold nothing.
func TestStretch(t *testing.T) {
	moved, reused := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		s := &stretch{begin: []byte("a"), end: []byte("a")}
		var keys []string
		fetched := byte(0)
		key := rapid.StringN(1, 3, 3)
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				if got := keysOf(s.pairs); !slices.Equal(got, keys) {
					rt.Fatalf("the keys are %q, want %q", got, keys)
				}
				if room := s.room(); room > 0 && slices.ContainsFunc(s.memory[:room], func(p pair) bool { return p.after != nil }) {
					rt.Fatalf("memory before the first holds %q", keysOf(s.memory[:room]))
				}
				if behind := s.pairs[len(s.pairs):cap(s.pairs)]; slices.ContainsFunc(behind, func(p pair) bool { return p.after != nil }) {
					rt.Fatalf("memory behind the last holds %q", keysOf(behind))
				}
			},
			"insert": func(rt *rapid.T) {
				k := "a" + key.Draw(rt, "key")
				i, found := s.search([]byte(k))
				at, there := slices.BinarySearch(keys, k)
				if i != at || found != there {
					rt.Fatalf("%q is at %d, found: %v; want %d, %v", k, i, found, at, there)
				}
				if found || k >= string(s.end) {
					return
				}
				room := s.room()
				s.insert(i, newPair([]byte(k), nil))
				keys = slices.Insert(keys, i, k)
				if after := s.room(); room > 0 && i < (len(keys)-1)/2 && after != room-1 {
					rt.Fatalf("there was room for %d, now for %d: more than the first %d have moved", room, after, i)
				} else if room > 0 && after == room-1 {
					moved++
				}
			},
			"first": func(*rapid.T) {
				if n := new(near); len(keys) > 0 {
					n.remove(s, []byte(keys[0]), nil)
					keys = keys[1:]
				}
			},
			"last": func(*rapid.T) {
				if n := new(near); len(keys) > 0 {
					n.remove(s, []byte(keys[len(keys)-1]), nil)
					keys = keys[:len(keys)-1]
				}
			},
			"fetch": func(rt *rapid.T) {
				if fetched > 100 {
					return
				}
				span := kv.Range{Begin: s.end}
				var more []pair
				for range rapid.IntRange(0, 8).Draw(rt, "pairs") {
					k := []byte{'b', fetched}
					more, keys = append(more, newPair(k, nil)), append(keys, string(k))
					fetched++
				}
				span.End = []byte{'b', fetched}
				had, room, fits := len(s.pairs), s.room(), cap(s.pairs)-len(s.pairs) >= len(more)
				memory := s.memory
				s.extend(span, more, false)
				if had > 0 && fits && s.room() != room {
					rt.Fatalf("there was room for %d before the first, after %d were fetched for %d", room, len(more), s.room())
				}
				if had > 0 && !fits && had <= max(room, len(more)) && had+len(more) <= cap(memory) {
					if &s.pairs[0] != &memory[0] {
						rt.Fatalf("there was room for %d before the first of %d, and %d were fetched to other memory", room, had, len(more))
					}
					reused++
				}
			},
		})
		for i := len(keys) - 1; i >= 0; i-- {
			if i%7 > 0 {
				continue
			}
			n, whole := newNear(), &stretch{begin: s.begin, end: []byte("z"), pairs: s.pairs, memory: s.memory}
			if i > 0 { // as s itself is cut last
				whole.pairs = slices.Clone(s.pairs)
				whole.memory = whole.pairs
			}
			room := whole.room()
			n.add(whole)
			at := []byte(keys[i])
			a, b := n.cut(whole, at, i, true)
			if !slices.Equal(keysOf(a.pairs), keys[:i]) || !slices.Equal(keysOf(b.pairs), keys[i:]) || !bytes.Equal(a.end, at) || !bytes.Equal(b.begin, at) {
				rt.Fatalf("cut at %q: %q to %q has %q, the rest from %q has %q", at, a.begin, a.end, keysOf(a.pairs), b.begin, keysOf(b.pairs))
			}
			if i == 0 && b.room() != room {
				rt.Fatalf("there was room for %d before the first, after a cut there for %d", room, b.room())
			}
			b.pairs = b.pairs[:0]
			b.extend(kv.Range{End: []byte("zz")}, []pair{newPair([]byte("z"), nil)}, false)
			if !slices.Equal(keysOf(a.pairs), keys[:i]) {
				rt.Fatalf("cut at %q, what came to the rest is in the first: %q", at, keysOf(a.pairs))
			}
		}
	})
	if !testing.Short() && (moved == 0 || reused == 0) {
		t.Errorf("pairs were moved to the room before them %d and %d times: the test tests too little", moved, reused)
	}
}

func keysOf(pairs []pair) (keys []string) {
	for _, p := range pairs {
		keys = append(keys, string(p.key()))
	}
	return keys
}

// TestNewStretch checks that the bounds of a stretch are copies, whether or not there is room
// for them in it, and that nobody who appends to one writes where others read.
func TestNewStretch(t *testing.T) {
	room := len(new(stretch).bounds)
	for _, begin := range []int{0, 1, room / 2, room - 1, room, room + 1, 3 * room} {
		for _, end := range []int{1, room / 2, room - 1, room, room + 1, 3 * room} {
			b, e := bytes.Repeat([]byte("b"), begin), bytes.Repeat([]byte("e"), end)
			s := newStretch(kv.Range{Begin: b, End: e})
			clear(b)
			clear(e)
			for _, bound := range [][]byte{s.begin, s.end} {
				one, two := append(bound, 1), append(bound, 2)
				if one[len(bound)] != 1 || two[len(bound)] != 2 {
					t.Errorf("bounds of %d and %d bytes have room for more", begin, end)
				}
			}
			if string(s.begin) != strings.Repeat("b", begin) || string(s.end) != strings.Repeat("e", end) {
				t.Errorf("bounds of %d and %d bytes are %q and %q", begin, end, s.begin, s.end)
			}
			if (s.begin == nil) != (begin == 0) {
				t.Errorf("a beginning of %d bytes is %#v", begin, s.begin)
			}
		}
	}
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
