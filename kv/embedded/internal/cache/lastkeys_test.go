package cache

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

func (k lastKey) String() string {
	return fmt.Sprintf("%q to %q, a key: %v", k.begin, k.end, k.isKey)
}

// all returns what is known, in order.
func (l *lastKeys) all() (all []lastKey) {
	l.tree.Scan(func(k *lastKey) bool {
		all = append(all, *k)
		return true
	})
	return all
}

// check checks that what is known is disjoint, and no more than it should be.
func (l *lastKeys) check(rt *rapid.T) {
	size, end := 0, []byte{}
	for _, k := range l.all() {
		if bytes.Compare(k.begin, end) < 0 || bytes.Compare(k.begin, k.end) >= 0 {
			rt.Fatalf("last key %v comes after one that ends at %q", k, end)
		}
		end = k.end
		size += k.size()
	}
	if size != l.bytes || size > l.most {
		rt.Fatalf("%d last keys have %d bytes, not %d; %d are allowed", l.tree.Len(), size, l.bytes, l.most)
	}
}

func drawPlace(rt *rapid.T, label string) []byte {
	return []byte(rapid.StringMatching(`[ab]{0,4}`).Draw(rt, label))
}

func drawPlaces(rt *rapid.T) kv.Range {
	a, b := drawPlace(rt, "begin"), drawPlace(rt, "end")
	if bytes.Compare(a, b) > 0 {
		a, b = b, a
	}
	return kv.Range{Begin: a, End: b}
}

// lastKeyModel is a plain list of what is known.
type lastKeyModel struct {
	known  []lastKey
	real   *lastKeys
	states []map[string]bool // the keys that were there, by version
}

func (m *lastKeyModel) now() uint64            { return uint64(len(m.states) - 1) }
func (m *lastKeyModel) alive() map[string]bool { return m.states[m.now()] }

// commit has a new version.
func (m *lastKeyModel) commit() { m.states = append(m.states, maps.Clone(m.alive())) }

// in returns the keys of a range at a version, in order.
func (m *lastKeyModel) in(r kv.Range, version uint64) (keys []string) {
	for key := range m.states[version] {
		if r.Contains([]byte(key)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func meets(t lastKey, r kv.Range) bool {
	return bytes.Compare(t.begin, r.End) < 0 && bytes.Compare(r.Begin, t.end) < 0
}

func (m *lastKeyModel) index(key []byte) int {
	return slices.IndexFunc(m.known, func(t lastKey) bool {
		return bytes.Compare(t.begin, key) <= 0 && bytes.Compare(key, t.end) < 0
	})
}

func (m *lastKeyModel) add(begin, end []byte, isKey bool) {
	m.known = append(m.known, lastKey{span: span{begin, end}, isKey: isKey})
}

// TestLastKeys compares last keys with a plain list, in which they are kept, read, written in, and
// forgotten.
func TestLastKeys(t *testing.T) {
	reads := 0
	rapid.Check(t, func(rt *rapid.T) {
		m := &lastKeyModel{real: newLastKeys(Usual.LastKeys), states: []map[string]bool{{}, {}}}
		rt.Repeat(map[string]func(*rapid.T){
			"":       m.check,
			"keep":   m.keep,
			"set":    m.set,
			"push":   m.push,
			"clear":  m.clear,
			"remove": m.remove,
			"yield":  m.yield,
			"forget": m.forget,
			"old":    m.lastBefore,
			"last": func(rt *rapid.T) {
				if m.lastNow(rt) {
					reads++
				}
			},
		})
	})
	if !testing.Short() && reads == 0 {
		t.Error("nothing that was asked for was known: the test tests too little")
	}
}

func (m *lastKeyModel) check(rt *rapid.T) {
	m.real.check(rt)
	slices.SortFunc(m.known, func(a, b lastKey) int { return bytes.Compare(a.begin, b.begin) })
	if got, want := fmt.Sprint(m.real.all()), fmt.Sprint(m.known); got != want {
		rt.Fatalf("known is %s, want %s", got, want)
	}
}

func (m *lastKeyModel) keep(rt *rapid.T) {
	r := drawPlaces(rt)
	if bytes.Equal(r.Begin, r.End) || slices.ContainsFunc(m.known, func(t lastKey) bool { return meets(t, r) }) {
		return
	}
	s := &hotRange{span: span{r.Begin, r.End}, changed: m.now()}
	s.head, s.tail = rapid.Bool().Draw(rt, "head"), rapid.Bool().Draw(rt, "tail")
	keys := m.in(r, m.now())
	for s.changed > 1 && slices.Equal(m.in(r, s.changed-1), keys) {
		s.changed--
	}
	bounds := [][]byte{s.begin}
	for _, key := range keys {
		s.pairs = append(s.pairs, NewPair([]byte(key), nil))
		bounds = append(bounds, []byte(key))
	}
	bounds = append(bounds, s.end)
	first := len(bounds) - 2
	if s.between = rapid.SampledFrom([]int{0, len(s.pairs)}).Draw(rt, "between"); s.between > 0 {
		first = 0
	} else if !s.tail {
		first = len(bounds)
	} else if len(keys) == 1 && !s.head {
		first = 0
	}
	for ; first+1 < len(bounds); first++ {
		if begin, end := bounds[first], bounds[first+1]; !bytes.Equal(begin, end) {
			m.add(begin, end, first > 0)
		}
	}
	m.real.keep(s)
}

func (m *lastKeyModel) set(rt *rapid.T) { m.setKey(rt, drawPlace(rt, "key")) }

// push sets a key in a tail.
func (m *lastKeyModel) push(rt *rapid.T) {
	if len(m.known) == 0 {
		return
	}
	known := rapid.SampledFrom(m.known).Draw(rt, "tail")
	if key := kv.After(known.begin); bytes.Compare(key, known.end) < 0 {
		m.setKey(rt, key)
	}
}

// setKey sets a key, mostly in a commit of its own.
func (m *lastKeyModel) setKey(rt *rapid.T, key []byte) {
	if rapid.IntRange(0, 3).Draw(rt, "own") > 0 {
		m.commit()
	}
	m.real.set(key, m.now())
	m.alive()[string(key)] = true
	i := m.index(key)
	if i < 0 || m.known[i].isKey && bytes.Equal(m.known[i].begin, key) {
		return
	}
	end := m.known[i].end
	m.known = slices.Delete(m.known, i, i+1)
	m.add(key, end, true)
}

func (m *lastKeyModel) clear(rt *rapid.T) {
	key := drawPlace(rt, "key")
	if i := m.index(key); i >= 0 && m.known[i].isKey && bytes.Equal(m.known[i].begin, key) {
		m.known = slices.Delete(m.known, i, i+1)
	}
	m.commit()
	m.real.clear(key)
	delete(m.alive(), string(key))
}

func (m *lastKeyModel) remove(rt *rapid.T) {
	r := drawPlaces(rt)
	if bytes.Equal(r.Begin, r.End) {
		return
	}
	m.known = slices.DeleteFunc(m.known, func(t lastKey) bool { return meets(t, r) })
	m.real.remove(r)
}

// yield has a range hot: what lies before it stays, and what lies behind it is to be hot, too.
func (m *lastKeyModel) yield(rt *rapid.T) {
	r := drawPlaces(rt)
	if bytes.Equal(r.Begin, r.End) {
		return
	}
	want, changed := r.End, uint64(0)
	var before []lastKey
	m.known = slices.DeleteFunc(m.known, func(t lastKey) bool {
		if !meets(t, r) {
			return false
		}
		if bytes.Compare(t.end, want) > 0 {
			want, changed = t.end, 1
		}
		if bytes.Compare(t.begin, r.Begin) < 0 {
			before = append(before, lastKey{span: span{t.begin, r.Begin}, isKey: t.isKey})
		}
		return true
	})
	m.known = append(m.known, before...)
	end, version := m.real.yield(r)
	if !bytes.Equal(end, want) || version < changed || version > m.now() {
		rt.Fatalf("what was asked for ends at %q, known up to %q, not %q, of version %d of %d", r.End, end, want, version, m.now())
	}
	wide := kv.Range{Begin: r.End, End: end}
	for v := max(version, 1); version > 0 && v <= m.now(); v++ {
		if keys := m.in(wide, v); len(keys) > 0 {
			rt.Fatalf("from %q to %q is %q at version %d, and nothing is known there since %d", r.End, end, keys, v, version)
		}
	}
}

// forget has only some kept.
func (m *lastKeyModel) forget(rt *rapid.T) {
	most := m.real.most
	m.real.most = m.real.bytes / 2
	m.real.evict()
	m.real.check(rt)
	m.real.most = most
	kept := m.real.all()
	m.known = slices.DeleteFunc(m.known, func(k lastKey) bool {
		return !slices.ContainsFunc(kept, func(other lastKey) bool { return other.String() == k.String() })
	})
}

// wanted returns the last key of a range, or nil.
func (m *lastKeyModel) wanted(r kv.Range, version uint64) []byte {
	if keys := m.in(r, version); len(keys) > 0 {
		return []byte(keys[len(keys)-1])
	}
	return nil
}

// lastBefore looks for the last key that a range had: if it is known, it is right.
func (m *lastKeyModel) lastBefore(rt *rapid.T) {
	r := drawPlaces(rt)
	version := rapid.Uint64Range(1, m.now()).Draw(rt, "version")
	before := m.real.all()
	if key, known := m.real.last(r, version); known && string(key) != string(m.wanted(r, version)) {
		rt.Fatalf("at version %d the last key from %q to %q was %q, not %q", version, r.Begin, r.End, m.wanted(r, version), key)
	}
	if len(m.real.all()) > len(before) {
		m.known = m.real.all() // see last
	}
}

// lastNow looks for the last key of a range, and tells whether it was known.
func (m *lastKeyModel) lastNow(rt *rapid.T) bool {
	r := drawPlaces(rt)
	want := m.wanted(r, m.now())
	i := slices.IndexFunc(m.known, func(t lastKey) bool {
		return bytes.Compare(t.begin, r.End) < 0 && bytes.Compare(r.End, t.end) <= 0
	})
	known := i >= 0 && !bytes.Equal(r.Begin, r.End) && (want != nil && m.known[i].isKey || bytes.Compare(m.known[i].begin, r.Begin) <= 0)
	key, ok := m.real.last(r, m.now())
	if ok != known || ok && (!bytes.Equal(key, want) || (key == nil) != (want == nil)) {
		rt.Fatalf("the last key from %q to %q is %q, known: %v; want %q, known: %v", r.Begin, r.End, key, ok, want, known)
	}
	if known && want == nil && !bytes.Equal(m.known[i].begin, r.Begin) {
		k := m.known[i]
		m.known = slices.Delete(m.known, i, i+1)
		m.add(r.Begin, k.end, false)
		m.add(k.begin, r.Begin, k.isKey)
	}
	return known
}

// TestLastKeysUsed checks that last keys which are asked for are kept when others are forgotten.
func TestLastKeysUsed(t *testing.T) {
	testkit.Long(t)
	l := newLastKeys(100 << 10)
	of := func(i int) kv.Range {
		return kv.Range{Begin: fmt.Appendf(nil, "%08d", i), End: fmt.Appendf(nil, "%08dx", i)}
	}
	missed := 0
	for i := range 20_000 {
		at := i * 7919 % 20_000
		l.keep(&hotRange{span: span{of(at).Begin, of(at).End}, tail: true, changed: 1})
		if i%10 == 0 {
			if _, known := l.last(of(0), 1); !known {
				missed++
			}
		}
		if l.bytes > l.most {
			t.Fatalf("%d last keys have %d bytes", i, l.bytes)
		}
	}
	if n := len(l.all()); missed > 0 || n < 500 {
		t.Errorf("one that is asked for was not known %d times; %d are", missed, n)
	}
}
