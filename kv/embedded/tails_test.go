package embedded

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

func (t tail) String() string { return fmt.Sprintf("%q to %q, a key: %v", t.begin, t.end, t.key) }

// all returns the tails in order.
func (t *tails) all() (all []tail) {
	t.blocks.Ascend(&tailBlock{}, func(b *tailBlock) bool {
		for at := 0; at < len(b.encoded); at = b.next(at) {
			all = append(all, b.tail(at, nil))
		}
		return true
	})
	return all
}

// checkTails checks that tails hold what is alive, and nothing that is near.
func (m *deadModel) checkTails(rt *rapid.T) {
	checkTails(rt, m.db.near.tails, 2)
	all := m.db.near.tails.all()
	m.tails += len(all)
	m.spares += len(m.db.near.spares)
	for _, known := range all {
		for key := range m.now {
			if key > string(known.begin) && key < string(known.end) {
				rt.Fatalf("tail %v holds %q", known, key)
			}
		}
		if _, alive := m.now[string(known.begin)]; alive != known.key && (alive || known.key) {
			rt.Fatalf("tail %v; its begin is alive: %v", known, alive)
		}
		m.db.near.stretches.Ascend(&stretch{}, func(s *stretch) bool {
			if bytes.Compare(s.begin, known.end) < 0 && bytes.Compare(known.begin, s.end) < 0 {
				rt.Fatalf("tail %v is near, from %q to %q", known, s.begin, s.end)
			}
			return true
		})
	}
}

// checkTails checks that tails, of which no key was longer than so much, are in order, and
// in the right blocks, that these are split, and that they are no more than they should be.
func checkTails(rt *rapid.T, t *tails, longest int) {
	most := max(t.most.block, t.most.block/2+2*(4+2*longest))
	size, end := 0, []byte{}
	t.blocks.Ascend(&tailBlock{}, func(b *tailBlock) bool {
		if len(b.encoded) == 0 || bytes.Compare(end, b.from) > 0 {
			rt.Fatalf("block from %q, %d bytes, comes after %q", b.from, len(b.encoded), end)
		}
		if cap(b.encoded) > len(b.memory) {
			rt.Fatalf("a block from %q has memory elsewhere: %d bytes", b.from, cap(b.encoded))
		}
		if len(b.encoded) > most {
			rt.Fatalf("a block has %d bytes, want %d at most", len(b.encoded), most)
		}
		for at := 0; at < len(b.encoded); at = b.next(at) {
			known := b.tail(at, nil)
			if bytes.Compare(known.begin, end) < 0 || bytes.Compare(known.begin, known.end) >= 0 || bytes.Compare(known.end, b.from) <= 0 {
				rt.Fatalf("tail %v comes after %q, in a block from %q", known, end, b.from)
			}
			end = known.end
		}
		size += b.size()
		return true
	})
	if size != t.size || size > t.most.bytes && t.blocks.Len() > 1 {
		rt.Fatalf("%d blocks have %d bytes, not %d; %d are allowed", t.blocks.Len(), size, t.size, t.most.bytes)
	}
}

func drawPlace(rt *rapid.T, label string) []byte {
	switch key := rapid.StringMatching(`[ab]{0,4}`).Draw(rt, label); rapid.IntRange(0, 30).Draw(rt, "length") {
	case 0:
		return []byte(strings.Repeat("b", longestTail-len(key)) + key)
	case 1:
		return []byte(strings.Repeat("b", longestTail+1-len(key)) + key)
	case 2:
		return []byte(key + strings.Repeat("b", longestRest-1))
	default:
		return []byte(key)
	}
}

func drawPlaces(rt *rapid.T) kv.Range {
	a, b := drawPlace(rt, "begin"), drawPlace(rt, "end")
	if bytes.Compare(a, b) > 0 {
		a, b = b, a
	}
	return kv.Range{Begin: a, End: b}
}

// tailModel is a plain list of what tails knows.
type tailModel struct {
	tails   *tails
	known   []tail
	states  []map[string]bool // the keys that were there, by version
	written map[string]uint64 // the version of the last commit that set a key in a tail, by its end
	last    string            // the end of the tail in which one was set last
	longest int
	near    int // tails that are to be near
	recent  int // keys whose tail is found where was read
	edited  int // of these, where was written since
}

func (m *tailModel) now() uint64            { return uint64(len(m.states) - 1) }
func (m *tailModel) alive() map[string]bool { return m.states[m.now()] }

// commit has a new version.
func (m *tailModel) commit() { m.states = append(m.states, maps.Clone(m.alive())) }

// in returns the keys of a range at a version, in order.
func (m *tailModel) in(r kv.Range, version uint64) (keys []string) {
	for key := range m.states[version] {
		if r.Contains([]byte(key)) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func meets(t tail, r kv.Range) bool {
	return bytes.Compare(t.begin, r.End) < 0 && bytes.Compare(r.Begin, t.end) < 0
}

func (m *tailModel) index(key []byte) int {
	return slices.IndexFunc(m.known, func(t tail) bool {
		return bytes.Compare(t.begin, key) <= 0 && bytes.Compare(key, t.end) < 0
	})
}

func (m *tailModel) add(t tail) {
	if len(t.begin) <= longestTail && len(t.end) <= longestTail && len(t.begin) <= prefix(t.end, t.begin)+longestRest {
		m.known = append(m.known, t)
		m.longest = max(m.longest, len(t.begin), len(t.end))
	}
}

// TestTails compares tails with a plain list, in which they are kept, read, written in, and
// forgotten.
func TestTails(t *testing.T) {
	reads, near, recent, edited := 0, 0, 0, 0
	check := func(rt *rapid.T) {
		m := &tailModel{tails: newTails(), states: []map[string]bool{{}, {}}, written: map[string]uint64{}}
		defer func() { near, recent, edited = near+m.near, recent+m.recent, edited+m.edited }()
		m.tails.most.block = rapid.SampledFrom([]int{1, 16, 60, 1 << 10}).Draw(rt, "block")
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
	}
	for range 4 { // one round in a hundred has none of what is rare
		rapid.Check(t, check)
	}
	if !testing.Short() && min(reads, near, edited, recent-edited) == 0 {
		t.Errorf("%d times what was asked for was known, and %d tails were to be near; %d keys were found where was read, %d of them where was written since: the test tests too little",
			reads, near, recent, edited)
	}
}

func (m *tailModel) check(rt *rapid.T) {
	checkTails(rt, m.tails, m.longest)
	slices.SortFunc(m.known, func(a, b tail) int { return bytes.Compare(a.begin, b.begin) })
	if got, want := fmt.Sprint(m.tails.all()), fmt.Sprint(m.known); got != want {
		rt.Fatalf("known is %s, want %s", got, want)
	}
}

func (m *tailModel) keep(rt *rapid.T) {
	r := drawPlaces(rt)
	if bytes.Equal(r.Begin, r.End) || slices.ContainsFunc(m.known, func(t tail) bool { return meets(t, r) }) {
		return
	}
	s := &stretch{begin: r.Begin, end: r.End, changed: m.now()}
	s.head, s.tail = rapid.Bool().Draw(rt, "head"), rapid.Bool().Draw(rt, "tail")
	keys := m.in(r, m.now())
	for s.changed > 1 && slices.Equal(m.in(r, s.changed-1), keys) {
		s.changed--
	}
	bounds := [][]byte{s.begin}
	for _, key := range keys {
		s.pairs = append(s.pairs, newPair([]byte(key), nil))
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
			m.add(tail{begin, end, first > 0})
		}
	}
	m.tails.keep(s)
}

func (m *tailModel) set(rt *rapid.T) { m.setKey(rt, drawPlace(rt, "key")) }

// push sets a key in a tail.
func (m *tailModel) push(rt *rapid.T) {
	if len(m.known) == 0 {
		return
	}
	known := rapid.SampledFrom(m.known).Draw(rt, "tail")
	if key := kv.After(known.begin); bytes.Compare(key, known.end) < 0 {
		m.setKey(rt, key)
	}
}

// setKey sets a key, mostly in a commit of its own. A tail in which an earlier one has set one is
// to be near, at the latest if that was the last in any.
func (m *tailModel) setKey(rt *rapid.T, key []byte) {
	if rapid.IntRange(0, 3).Draw(rt, "own") > 0 {
		m.commit()
	}
	i := m.index(key)
	recent := m.tails.recent[rapid.IntRange(0, len(m.tails.recent)).Draw(rt, "from recent"):]
	in := m.tails.recently(&recent, key)
	if in.b != nil {
		if m.recent++; recent[0].edits != in.b.edits {
			m.edited++
		}
		if i < 0 || in.String() != m.known[i].String() {
			rt.Fatalf("%q is in %v, known is %v", key, in.tail, m.known)
		}
	}
	empty := m.tails.set(key, in, m.now())
	m.alive()[string(key)] = true
	if i < 0 || m.known[i].key && bytes.Equal(m.known[i].begin, key) {
		if empty.End != nil {
			rt.Fatalf("%q is to be near, from %q to %q", key, empty.Begin, empty.End)
		}
		return
	}
	known, before, now := m.known[i], m.written[string(m.known[i].end)], m.now()
	m.known = slices.Delete(m.known, i, i+1)
	switch earlier := before > 0 && before < now; {
	case empty.End == nil && earlier && m.last == string(known.end), empty.End != nil && !earlier:
		rt.Fatalf("%q was set at version %d in %v, after one at version %d; to be near: %v", key, now, known, before, empty.End != nil)
	case empty.End == nil:
		m.add(tail{key, known.end, true})
	default:
		m.near++
		want := kv.Range{Begin: known.begin, End: known.end}
		if known.key {
			want.Begin = kv.After(want.Begin)
		}
		if !bytes.Equal(empty.Begin, want.Begin) || !bytes.Equal(empty.End, want.End) {
			rt.Fatalf("%v is to be near from %q to %q", known, empty.Begin, empty.End)
		}
	}
	m.written[string(known.end)], m.last = now, string(known.end)
}

func (m *tailModel) clear(rt *rapid.T) {
	key := drawPlace(rt, "key")
	if i := m.index(key); i >= 0 && m.known[i].key && bytes.Equal(m.known[i].begin, key) {
		m.known = slices.Delete(m.known, i, i+1)
	}
	m.commit()
	m.tails.clear(key)
	delete(m.alive(), string(key))
}

func (m *tailModel) remove(rt *rapid.T) {
	r := drawPlaces(rt)
	if bytes.Equal(r.Begin, r.End) {
		return
	}
	m.known = slices.DeleteFunc(m.known, func(t tail) bool { return meets(t, r) })
	m.tails.remove(r)
}

// yield has a range near: what lies before it stays, and what lies behind it is to be near, too.
func (m *tailModel) yield(rt *rapid.T) {
	r := drawPlaces(rt)
	if bytes.Equal(r.Begin, r.End) {
		return
	}
	want, changed := r.End, uint64(0)
	var rest []tail
	m.known = slices.DeleteFunc(m.known, func(t tail) bool {
		if !meets(t, r) {
			return false
		}
		if bytes.Compare(t.end, want) > 0 {
			want, changed = t.end, 1
		}
		if bytes.Compare(t.begin, r.Begin) < 0 {
			rest = append(rest, tail{t.begin, r.Begin, t.key})
		}
		return true
	})
	for _, t := range rest {
		m.add(t)
	}
	end, version := m.tails.yield(r)
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

// forget has only some blocks kept.
func (m *tailModel) forget(rt *rapid.T) {
	most := m.tails.most.bytes
	m.tails.most.bytes = m.tails.size / 2
	m.tails.forget()
	if m.tails.size > m.tails.most.bytes && m.tails.blocks.Len() > 1 {
		rt.Fatalf("%d blocks have %d bytes, %d are allowed", m.tails.blocks.Len(), m.tails.size, m.tails.most.bytes)
	}
	m.tails.most.bytes = most
	kept := m.tails.all()
	m.known = slices.DeleteFunc(m.known, func(t tail) bool {
		return !slices.ContainsFunc(kept, func(k tail) bool { return k.String() == t.String() })
	})
}

// wanted returns the last key of a range, or nil.
func (m *tailModel) wanted(r kv.Range, version uint64) []byte {
	if keys := m.in(r, version); len(keys) > 0 {
		return []byte(keys[len(keys)-1])
	}
	return nil
}

// lastBefore looks for the last key that a range had: if it is known, it is right.
func (m *tailModel) lastBefore(rt *rapid.T) {
	r := drawPlaces(rt)
	version := rapid.Uint64Range(1, m.now()).Draw(rt, "version")
	before := m.tails.all()
	if key, known := m.tails.last(r, version); known && string(key) != string(m.wanted(r, version)) {
		rt.Fatalf("at version %d the last key from %q to %q was %q, not %q", version, r.Begin, r.End, m.wanted(r, version), key)
	}
	if len(m.tails.all()) > len(before) {
		m.known = nil
		for _, known := range m.tails.all() { // see last
			m.add(known)
		}
	}
}

// lastNow looks for the last key of a range, and tells whether it was known.
func (m *tailModel) lastNow(rt *rapid.T) bool {
	r := drawPlaces(rt)
	want := m.wanted(r, m.now())
	i := slices.IndexFunc(m.known, func(t tail) bool {
		return bytes.Compare(t.begin, r.End) < 0 && bytes.Compare(r.End, t.end) <= 0
	})
	known := i >= 0 && !bytes.Equal(r.Begin, r.End) && (want != nil && m.known[i].key || bytes.Compare(m.known[i].begin, r.Begin) <= 0)
	key, ok := m.tails.last(r, m.now())
	if ok != known || ok && (!bytes.Equal(key, want) || (key == nil) != (want == nil)) {
		rt.Fatalf("the last key from %q to %q is %q, known: %v; want %q, known: %v", r.Begin, r.End, key, ok, want, known)
	}
	if known && want == nil && !bytes.Equal(m.known[i].begin, r.Begin) {
		t, n := m.known[i], len(m.known)
		if m.add(tail{r.Begin, t.end, false}); len(m.known) > n {
			m.known = slices.Delete(m.known, i, i+1)
			m.add(tail{t.begin, r.Begin, t.key})
		}
	}
	return known
}

// TestTailPlaces writes in a block, or forgets it, after a tail was read there: the tail is to be
// found where it is then, if at all.
func TestTailPlaces(t *testing.T) {
	of := func(i int) kv.Range {
		return kv.Range{Begin: fmt.Appendf(nil, "%d", i), End: fmt.Appendf(nil, "%d~", i)}
	}
	for _, c := range []struct {
		name string
		edit func(*tails)
		gone bool
	}{
		{"nothing", func(*tails) {}, false},
		{"a key set before it", func(x *tails) { x.set([]byte("1 some key"), held{}, 2) }, false},
		{"a key set there", func(x *tails) { x.set([]byte("5 some key"), held{}, 2) }, false},
		{"a tail before it removed", func(x *tails) { x.remove(of(1)) }, false},
		{"itself removed", func(x *tails) { x.remove(of(5)) }, true},
		{"all removed", func(x *tails) { x.remove(kv.Range{Begin: of(0).Begin, End: of(9).End}) }, true},
		{"its block dropped", func(x *tails) { x.drop(x.found) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newTails()
			for i := range 9 {
				x.keep(&stretch{begin: of(i).Begin, end: of(i).End, tail: true, changed: 1})
			}
			if key, known := x.last(of(5), 1); key != nil || !known {
				t.Fatalf("the last key is %q, known: %v", key, known)
			}
			c.edit(x)
			key, recent := []byte("5 the key"), x.recent
			switch in := x.recently(&recent, key); {
			case (in.b == nil) != c.gone:
				t.Errorf("found: %v", in)
			case !c.gone && (!bytes.Equal(in.end, of(5).End) || bytes.Compare(in.begin, key) > 0 || in.at != in.b.search(key, false)):
				t.Errorf("found at %d, where that which holds %q is at %d: %v", in.at, key, in.b.search(key, false), in)
			}
		})
	}
}

// TestTailsLongNames checks that tails of queues with long names are kept, whatever their order.
func TestTailsLongNames(t *testing.T) {
	m := newTails()
	name := strings.Repeat("n", 160)
	of := func(i int) kv.Range {
		return kv.Range{Begin: fmt.Appendf(nil, "%s %08d", name, i), End: fmt.Appendf(nil, "%s %08dx", name, i)}
	}
	for i := range 2000 {
		at := i * 7919 % 2000
		m.keep(&stretch{begin: of(at).Begin, end: of(at).End, tail: true, changed: 1})
	}
	for i := range 2000 {
		if key, known := m.last(of(i), 1); key != nil || !known {
			t.Fatalf("the last key of range %d is %q, known: %v", i, key, known)
		}
	}
	if most := 2000 * 100; m.size > most {
		t.Errorf("they take %d bytes, want %d at most", m.size, most)
	}
}

// TestTailsUsed checks that tails which are asked for are kept when others are forgotten,
// and that all together stay small.
func TestTailsUsed(t *testing.T) {
	m := newTails()
	m.most.bytes = 100 << 10
	of := func(i int) kv.Range {
		return kv.Range{Begin: fmt.Appendf(nil, "%08d", i), End: fmt.Appendf(nil, "%08dx", i)}
	}
	missed := 0
	for i := range 20_000 {
		at := i * 7919 % 20_000
		m.keep(&stretch{begin: of(at).Begin, end: of(at).End, tail: true, changed: 1})
		if i%10 == 0 {
			if _, known := m.last(of(0), 1); !known {
				missed++
			}
		}
		if m.size > m.most.bytes {
			t.Fatalf("%d tails have %d bytes", i, m.size)
		}
	}
	m.blocks.Ascend(&tailBlock{}, func(b *tailBlock) bool {
		if cap(b.encoded) > len(b.memory) {
			t.Errorf("a block from %q has memory elsewhere: %d bytes", b.from, cap(b.encoded))
		}
		return true
	})
	if n := len(m.all()); missed > 0 || n < 1000 {
		t.Errorf("one that is asked for was not known %d times; %d are", missed, n)
	}
}
