package cache

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	"pgregory.net/rapid"
)

// TestCache compares what a small cache knows, at the latest version and at earlier ones, with all that
// the store had, while keys come and go at both ends and in the middle; and what its backlog gets.
func TestCache(t *testing.T) {
	ranges, lastKeys, gaps, cancelled := 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		limits := Limits{Bytes: 1500, LastKeys: 1000, Pairs: 6, First: 2, Fetch: 4, Value: 3, Gap: 2, Inner: 2, Between: 3}
		b := &backlogModel{applied: map[string]string{}}
		m := &cacheModel{store: newStore(limits), backlog: b, states: map[uint64]map[string]string{1: {}}}
		m.store.backlog = b
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				m.check(rt)
				r, l := m.Len() // after each step: few last keys are left at the end
				ranges, lastKeys, gaps = ranges+r, lastKeys+l, gaps+m.gaps.Len()
			},
			"set":         m.set,
			"clear":       m.clear,
			"clear range": m.clearRange,
			"replace":     m.replace,
			"take first":  func(rt *rapid.T) { m.take(rt, false) },
			"take last":   func(rt *rapid.T) { m.take(rt, true) },
			"read":        m.read,
			"last key":    m.last,
			"gap":         m.gap,
			"old":         m.old,
			"oldest":      func(rt *rapid.T) { m.oldest = rapid.Uint64Range(m.oldest, m.version).Draw(rt, "oldest") },
			"rest":        func(rt *rapid.T) { m.Rest() },
			"drain":       m.drain,
		})
		cancelled += b.cancelled
	})
	if !testing.Short() && min(ranges, lastKeys, gaps, cancelled) == 0 { // -short has a fifth of the cases
		t.Errorf("%d hot ranges, %d last keys, %d gaps, %d writes cancelled: the test tests too little", ranges, lastKeys, gaps, cancelled)
	}
}

type cacheModel struct {
	*store
	backlog *backlogModel
	states  map[uint64]map[string]string // by version
	n       int
}

// backlogModel applies writes to a map when it is drained.
type backlogModel struct {
	first     uint64
	writes    []func() // or nil
	applied   map[string]string
	cancelled int
}

func (b *backlogModel) Set(key, value []byte) uint64 {
	b.writes = append(b.writes, func() { b.applied[string(key)] = string(value) })
	return b.first + uint64(len(b.writes)) // from 1 on
}

func (b *backlogModel) Remove(key []byte) {
	b.writes = append(b.writes, func() { delete(b.applied, string(key)) })
}

func (b *backlogModel) RemoveRange(r kv.Range) {
	b.writes = append(b.writes, func() {
		maps.DeleteFunc(b.applied, func(key, _ string) bool { return r.Contains([]byte(key)) })
	})
}

func (b *backlogModel) Cancel(number uint64) bool {
	if number <= b.first {
		return false
	}
	b.cancelled++
	b.writes[number-b.first-1] = nil
	return true
}

func (b *backlogModel) drain() {
	for _, write := range b.writes {
		if write != nil {
			write()
		}
	}
	b.first += uint64(len(b.writes))
	b.writes = nil
}

func (m *cacheModel) now() map[string]string {
	now := map[string]string{}
	m.all.Scan(func(key, value string) bool { now[key] = value; return true })
	return now
}

func (m *cacheModel) drain(rt *rapid.T) {
	if m.backlog.drain(); !maps.Equal(m.backlog.applied, m.now()) {
		rt.Fatalf("the backlog had %v, which should be %v", m.backlog.applied, m.now())
	}
}

func drawKey(rt *rapid.T) []byte {
	return fmt.Appendf(nil, "%02d", rapid.IntRange(0, 40).Draw(rt, "key"))
}

func drawRange(rt *rapid.T) kv.Range {
	a, b := drawKey(rt), drawKey(rt)
	if bytes.Compare(a, b) > 0 {
		a, b = b, a
	}
	return kv.Range{Begin: a, End: b}
}

func drawKeys(rt *rapid.T) [][]byte {
	return rapid.SliceOfN(rapid.Custom(drawKey), 1, 12).Draw(rt, "keys")
}

func (m *cacheModel) set(rt *rapid.T) {
	m.n++
	value := fmt.Append(nil, m.n)
	if rapid.IntRange(0, 9).Draw(rt, "large") == 0 {
		value = []byte("a large one")
	}
	m.store.set(value, drawKeys(rt)...)
}

func (m *cacheModel) clear(rt *rapid.T) {
	key := drawKey(rt)
	m.commit(func(o *overlay.Overlay) { o.Clear(key) })
}

func (m *cacheModel) clearRange(rt *rapid.T) {
	if r := drawRange(rt); !bytes.Equal(r.Begin, r.End) {
		m.commit(func(o *overlay.Overlay) { o.ClearRange(r) })
	}
}

// replace takes the first keys and sets others, in one commit.
func (m *cacheModel) replace(rt *rapid.T) {
	found := m.store.read(kv.Range{Begin: []byte("0"), End: []byte("9")}, false, rapid.IntRange(1, 4).Draw(rt, "taken"))
	keys := drawKeys(rt)
	m.commit(func(o *overlay.Overlay) {
		for _, p := range found {
			o.Clear(p.Key())
		}
		for _, key := range keys {
			o.Set(key, nil)
		}
	})
}

func (m *cacheModel) take(rt *rapid.T, reverse bool) {
	for _, p := range m.store.read(kv.Range{Begin: []byte("0"), End: []byte("9")}, reverse, 1) {
		m.commit(func(o *overlay.Overlay) { o.Clear(p.Key()) })
	}
}

// in returns the keys of a range in a state, in order.
func in(r kv.Range, state map[string]string) (keys []string) {
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if r.Contains([]byte(key)) {
			keys = append(keys, key)
		}
	}
	return keys
}

// compare compares pairs with the first of a range in a state.
func compare(rt *rapid.T, pairs []Pair, r kv.Range, reverse bool, state map[string]string) {
	want := in(r, state)
	if reverse {
		slices.Reverse(want)
	}
	if got := keysOf(pairs); !slices.Equal(got, want[:min(len(got), len(want))]) {
		rt.Fatalf("from %q to %q, reverse: %v: read %q, want the first of %q", r.Begin, r.End, reverse, got, want)
	}
	for _, p := range pairs {
		if value := state[string(p.Key())]; p.Large() != (len(value) > 3) || !p.Large() && string(p.Value()) != value {
			rt.Fatalf("%q has the value %q, large: %v; want %q", p.Key(), p.Value(), p.Large(), value)
		}
	}
}

func (m *cacheModel) read(rt *rapid.T) {
	r, reverse, limit := drawRange(rt), rapid.Bool().Draw(rt, "reverse"), rapid.IntRange(1, 50).Draw(rt, "limit")
	pairs := m.store.read(r, reverse, limit)
	if n := min(limit, len(in(r, m.now()))); len(pairs) != n {
		rt.Fatalf("read %d pairs, want %d", len(pairs), n)
	}
	compare(rt, pairs, r, reverse, m.now())
}

func lastIn(r kv.Range, state map[string]string) string {
	if keys := in(r, state); len(keys) > 0 {
		return keys[len(keys)-1]
	}
	return ""
}

func (m *cacheModel) last(rt *rapid.T) {
	r, among := drawRange(rt), drawRange(rt)
	if got, want := m.store.last(r, among), lastIn(r, m.now()); string(got) != want {
		rt.Fatalf("the last key from %q to %q is %q, want %q", r.Begin, r.End, got, want)
	}
}

// gap has a range that is empty known as one.
func (m *cacheModel) gap(rt *rapid.T) {
	if r := drawRange(rt); len(in(r, m.now())) == 0 {
		m.gaps.Add(r, m.version)
	}
}

// old asks for what was there at a version: what is known of it is right.
func (m *cacheModel) old(rt *rapid.T) {
	version := rapid.Uint64Range(m.oldest, m.version).Draw(rt, "version")
	r, reverse, state := drawRange(rt), rapid.Bool().Draw(rt, "reverse"), m.states[version]
	cur := NewCursor(r, reverse)
	compare(rt, m.Read(&cur, nil, 50, version), r, reverse, state)
	if key, known := m.LastKey(r, version); known && string(key) != lastIn(r, state) {
		rt.Fatalf("the last key from %q to %q at version %d is %q", r.Begin, r.End, version, key)
	}
	if value, known := m.Get(r.Begin, version); known {
		if want, there := state[string(r.Begin)]; string(value) != want || (value != nil) != there {
			rt.Fatalf("%q has the value %q at version %d", r.Begin, value, version)
		}
	}
	to, from := m.gaps.Past(r.Begin, false, version), m.gaps.Past(r.End, true, version)
	for _, empty := range []kv.Range{{Begin: r.Begin, End: to}, {Begin: from, End: r.End}} {
		if keys := in(empty, state); len(keys) > 0 {
			rt.Fatalf("from %q to %q should be nothing at version %d, and is %q", empty.Begin, empty.End, version, keys)
		}
	}
}

// check checks what is always true, and notes the state.
func (m *cacheModel) check(rt *rapid.T) {
	m.states[m.version] = m.now()
	m.checkRanges(rt)
	m.checkLastKeys(rt)
	m.checkGaps(rt)
}

// checkRanges checks that hot ranges are disjoint, in order, not empty, of the right size, and hold
// what is alive.
func (m *cacheModel) checkRanges(rt *rapid.T) {
	var end []byte
	all := 0
	m.ranges.Scan(func(h *hotRange) bool {
		if bytes.Compare(h.begin, h.end) >= 0 || bytes.Compare(h.begin, end) < 0 || !h.place.Taken() || m.ranges.holding(h.begin, false) != h || m.ranges.holding(h.end, true) != h {
			rt.Fatalf("range %q to %q comes after one that ends at %q; gone: %v", h.begin, h.end, end, !h.place.Taken())
		}
		end = h.end
		r := kv.Range{Begin: h.begin, End: h.end}
		compare(rt, h.pairs, r, false, m.now())
		if n := len(in(r, m.now())); n != len(h.pairs) || n > m.limits.Pairs || h.size != rangeSize+sizeOf(h.pairs) {
			rt.Fatalf("range %q to %q has %d pairs, want %d, and says that it has %d bytes", h.begin, h.end, len(h.pairs), n, h.size)
		}
		all += h.size
		return true
	})
	if n := m.ranges.Len(); all != m.bytes || all > m.limits.Bytes && n > 1 {
		rt.Fatalf("%d ranges have %d bytes, not %d", n, all, m.bytes)
	}
}

// checkLastKeys checks that last keys are those that are alive, and that they are of nothing hot.
func (m *cacheModel) checkLastKeys(rt *rapid.T) {
	m.lastKeys.check(rt)
	for _, k := range m.lastKeys.all() {
		if keys := in(kv.Range{Begin: kv.After(k.begin), End: k.end}, m.now()); len(keys) > 0 {
			rt.Fatalf("last key %v holds %q", k, keys)
		}
		if _, alive := m.now()[string(k.begin)]; alive != k.isKey {
			rt.Fatalf("last key %v; its begin is alive: %v", k, alive)
		}
		m.ranges.Scan(func(h *hotRange) bool {
			if bytes.Compare(h.begin, k.end) < 0 && bytes.Compare(k.begin, h.end) < 0 {
				rt.Fatalf("last key %v is in the hot range from %q to %q", k, h.begin, h.end)
			}
			return true
		})
	}
}

// checkGaps checks that gaps are disjoint, in order, not empty, and hold no key that is alive.
func (m *cacheModel) checkGaps(rt *rapid.T) {
	var end []byte
	m.gaps.tree.Scan(func(g *gap) bool {
		if bytes.Compare(g.begin, g.end) >= 0 || bytes.Compare(g.begin, end) < 0 {
			rt.Fatalf("gap %q to %q comes after one that ends at %q", g.begin, g.end, end)
		}
		end = g.end
		for version := g.version; version <= m.version; version++ {
			if keys := in(kv.Range{Begin: g.begin, End: g.end}, m.states[version]); len(keys) > 0 {
				rt.Fatalf("gap %q to %q of version %d holds %q at version %d", g.begin, g.end, g.version, keys, version)
			}
		}
		return true
	})
}
