package embedded

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/tidwall/btree"
)

// deadSpace remembers stretches of the key space in which nothing is alive, so
// that reads can seek past the tombstones there instead of stepping over them.
// It knows only what reads have found out, and forgets freely: it makes reads
// fast, never right or wrong.
//
// Each gap is empty in every version from its own on. That holds because
//
//   - a gap is learned from a read at a version, and only if nothing has been
//     written in it since (see DB.learn);
//   - a commit that sets a key cuts the gap that holds it, under the same lock
//     that readers of that commit's version have to take after it;
//   - a commit that clears a key next to a gap adds it, from its own version on,
//     unless the key is near: then gaps come from there, a few dozen keys at once.
//
// A read older than a gap can't use it. So what a commit adds stays a gap of its
// own until no open transaction is older, then is joined with its neighbour:
// otherwise each dequeue would hide the whole dead head from all others that
// began just before it.
//
// Its lock comes after the store's.
type deadSpace struct {
	used  atomic.Bool // whether there are gaps: mostly not, and then reads need no lock
	mu    sync.Mutex
	gaps  *btree.BTreeG[*gap] // by begin; disjoint
	pivot gap                 // for searches, so that they allocate nothing
	fresh []*gap              // to be joined with their neighbours, oldest version first
}

type gap struct {
	begin, end []byte
	version    uint64

	// Whether a key that was set made it begin, or end, where it does. What lies
	// between two such keys is not kept: that is mostly the tail of a queue, into which
	// items are put one after the other, and where nothing was ever deleted. Gaps
	// between all items of a queue made transfers 1.7 times slower with Interval.
	cutBegin, cutEnd bool
}

// maxGaps bounds the memory of deadSpace. Gaps are made only where reads have
// had to step over many tombstones, so this many heads and tails of queues are
// in use at the same time; to begin anew costs each of them one slow read.
const maxGaps = 100_000

// manyTombstones is how many keys a read must have stepped over before what it
// found is worth remembering.
const manyTombstones = 16

func newDeadSpace() *deadSpace {
	return &deadSpace{gaps: newTree[*gap]()}
}

// holding returns the gap that holds key, or with before set, the gap that
// holds the keys just before it; or nil.
func (d *deadSpace) holding(key []byte, before bool) (found *gap) {
	d.pivot.begin = key
	if found = last(d.gaps, &d.pivot, before); found == nil {
		return nil
	}
	if c := bytes.Compare(found.end, key); c < 0 || c == 0 && !before {
		return nil
	}
	return found
}

// forward returns the first key at or behind key that may be alive at version.
func (d *deadSpace) forward(key []byte, version uint64) []byte {
	if !d.used.Load() {
		return key
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if g := d.holding(key, false); g != nil { // one search, then a walk: gaps may be many and touch
		to := key
		d.gaps.Ascend(g, func(next *gap) bool {
			if next.version > version || next != g && !bytes.Equal(next.begin, to) {
				return false
			}
			to = next.end
			return true
		})
		key = to
	}
	return key
}

// backward returns the least key such that none from it up to key, key not
// included, is alive at version.
func (d *deadSpace) backward(key []byte, version uint64) []byte {
	if !d.used.Load() {
		return key
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if g := d.holding(key, true); g != nil {
		to := key
		d.gaps.Descend(g, func(next *gap) bool {
			if next.version > version || next != g && !bytes.Equal(next.end, to) {
				return false
			}
			to = next.begin
			return true
		})
		key = to
	}
	return key
}

// ahead returns the first gap behind key, or with reverse, before it, if it may be
// used at version.
func (d *deadSpace) ahead(key []byte, reverse bool, version uint64) (next kv.Range) {
	if !d.used.Load() {
		return next
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	first := func(g *gap) bool {
		if g.version <= version {
			next = kv.Range{Begin: g.begin, End: g.end}
		}
		return false
	}
	d.pivot.begin = key
	if reverse {
		d.gaps.Descend(&d.pivot, first)
	} else {
		d.gaps.Ascend(&d.pivot, first)
	}
	return next
}

// learn adds a gap. It must not hold a key that was set after version.
func (d *deadSpace) learn(begin, end []byte, version uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.insert(begin, end, version)
}

// insert adds the parts of a gap that no other one covers.
func (d *deadSpace) insert(begin, end []byte, version uint64) {
	if d.gaps.Len() >= maxGaps {
		d.gaps.Clear()
		d.fresh = nil
	}
	for bytes.Compare(begin, end) < 0 {
		if g := d.holding(begin, false); g != nil {
			begin = g.end
			continue
		}
		to := end
		d.gaps.Ascend(&gap{begin: begin}, func(g *gap) bool {
			if bytes.Compare(g.begin, end) < 0 {
				to = g.begin
			}
			return false
		})
		d.add(&gap{begin: bytes.Clone(begin), end: bytes.Clone(to), version: version})
		begin = to
	}
}

func (d *deadSpace) add(g *gap) {
	d.gaps.Set(g)
	d.fresh = append(d.fresh, g)
	d.used.Store(true)
}

// commit takes in what a commit did: cleared ranges and keys make the gaps that
// they touch longer, keys that were set cut the gaps that hold them. oldest is
// the version of the oldest open transaction. near has taken it in before.
func (d *deadSpace) commit(e *effects, version, oldest uint64) {
	if !d.used.Load() && len(e.gaps) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range e.cleared {
		d.extend(r.Begin, r.End, version)
	}
	for _, c := range e.changes {
		if c.Kind != overlay.Clear {
			d.cut(c.Key)
		}
	}
	for _, key := range e.far {
		if d.holding(key, false) == nil {
			d.extend(key, key[:len(key)+1], version) // behind it is a zero byte
		}
	}
	for _, r := range e.gaps {
		d.insert(r.Begin, r.End, version)
	}
	d.join(oldest)
	d.used.Store(d.gaps.Len() > 0)
}

// extend adds a stretch that has become empty if it touches a gap.
func (d *deadSpace) extend(begin, end []byte, version uint64) {
	_, next := d.gaps.Get(&gap{begin: end})
	if next || d.holding(begin, true) != nil {
		d.insert(begin, end, version)
	}
}

// cut takes key out of the gap that holds it, if there is one.
func (d *deadSpace) cut(key []byte) {
	g := d.holding(key, false)
	if g == nil {
		return
	}
	after := kv.After(key)
	if g.cutBegin && !g.cutEnd && bytes.Compare(after, g.end) < 0 {
		d.gaps.Delete(g)
		g.begin = after
		d.gaps.Set(g)
		return
	}
	behind := &gap{begin: after, end: g.end, version: g.version, cutBegin: true, cutEnd: g.cutEnd}
	if g.cutBegin || bytes.Equal(g.begin, key) {
		d.gaps.Delete(g)
	} else {
		g.end, g.cutEnd = bytes.Clone(key), true
	}
	if !behind.cutEnd && bytes.Compare(behind.begin, behind.end) < 0 {
		d.add(behind)
	}
}

// join makes gaps one with the neighbours that they touch, as far as every open
// transaction can use both.
func (d *deadSpace) join(oldest uint64) {
	for len(d.fresh) > 0 && d.fresh[0].version <= oldest {
		g := d.fresh[0]
		d.fresh = d.fresh[1:]
		if now, ok := d.gaps.Get(g); !ok || now != g {
			continue // cut off, or joined already
		}
		if before := d.holding(g.begin, true); before != nil && before.version <= oldest {
			d.gaps.Delete(g)
			before.end, before.cutEnd, before.version = g.end, g.cutEnd, max(before.version, g.version)
			g = before
		}
		if behind, ok := d.gaps.Get(&gap{begin: g.end}); ok && behind.version <= oldest {
			d.gaps.Delete(behind)
			g.end, g.cutEnd, g.version = behind.end, behind.cutEnd, max(g.version, behind.version)
		}
	}
	if len(d.fresh) == 0 {
		d.fresh = nil
	}
}
