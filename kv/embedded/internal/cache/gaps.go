package cache

import (
	"bytes"
	"sync"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// Gaps has parts of the key space in which nothing is alive, so that reads can seek past the tombstones
// there instead of stepping over them.
//
// Each gap is empty in every version from its own on. That holds because
//
//   - a gap is added after a read at a version, and only if nothing has been written in it since;
//   - a commit that sets a key cuts the gap that holds it, under the same lock that readers of that
//     commit's version have to take after it;
//   - a commit that clears a key next to a gap adds it, from its own version on, unless the key is in a
//     hot range: then gaps come from there, dozens of keys at once.
//
// A read older than a gap can't use it. So what a commit adds stays a gap of its own until no open
// transaction is older, then is joined with its neighbour: otherwise each dequeue would hide all the
// gap at the head from all others that began just before it.
type Gaps struct {
	mu    sync.Mutex
	tree  *tree[*gap]
	fresh []*gap // to be joined with their neighbours, oldest version first
	bytes int    // of all in the tree
}

type gap struct {
	span
	version uint64

	// Whether a key that was set made it begin, or end, where it does. What lies between two such
	// keys is not kept: that is mostly the tail of a queue, where nothing was ever deleted.
	cutBegin, cutEnd bool
}

// mostGapBytes bounds the memory of gaps: that of some 100,000. They are made only where reads have had to step over many
// tombstones, so that many heads and tails of queues are in use at the same time; to begin anew costs
// each of them one slow read.
const mostGapBytes = 20 << 20

// gapSize is how many bytes one takes beside its bounds.
const gapSize = 128

func (one *gap) size() int { return len(one.begin) + len(one.end) + gapSize }

// NewGaps returns one that knows none.
func NewGaps() *Gaps { return &Gaps{tree: newTree(new(gap))} }

// Len returns how many gaps are known.
func (g *Gaps) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tree.Len()
}

// Past returns how far nothing is alive at version from key on, or with reverse, before it.
func (g *Gaps) Past(key []byte, reverse bool, version uint64) []byte {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := g.tree.holding(key, reverse)
	if first == nil {
		return key
	}
	walk := g.tree.Ascend
	if reverse {
		walk = g.tree.Descend
	}
	walk(first, func(next *gap) bool { // gaps may be many and touch
		near, far := next.begin, next.end
		if reverse {
			near, far = far, near
		}
		if next.version > version || next != first && !bytes.Equal(near, key) {
			return false
		}
		key = far
		return true
	})
	return key
}

// Runs returns all gaps, in order; those that touch are one.
func (g *Gaps) Runs() (runs []kv.Range) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tree.Scan(func(next *gap) bool {
		if last := len(runs) - 1; last >= 0 && bytes.Equal(runs[last].End, next.begin) {
			runs[last].End = next.end
		} else {
			runs = append(runs, kv.Range{Begin: next.begin, End: next.end})
		}
		return true
	})
	return runs
}

// Add adds a gap, in which no key may have been set after version.
func (g *Gaps) Add(r kv.Range, version uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.insert(r.Begin, r.End, version)
}

// insert adds the parts of a gap that no other one covers.
func (g *Gaps) insert(begin, end []byte, version uint64) {
	if g.bytes >= mostGapBytes {
		g.tree.Clear()
		g.fresh, g.bytes = nil, 0
	}
	for bytes.Compare(begin, end) < 0 {
		if held := g.tree.holding(begin, false); held != nil {
			begin = held.end
			continue
		}
		to := end
		if next := g.tree.next(begin); next != nil {
			to = overlay.Least(next.begin, end)
		}
		g.add(&gap{span: span{bytes.Clone(begin), bytes.Clone(to)}, version: version})
		begin = to
	}
}

func (g *Gaps) add(one *gap) {
	g.put(one)
	g.fresh = append(g.fresh, one)
}

func (g *Gaps) put(one *gap) {
	g.tree.Set(one)
	g.bytes += one.size()
}

func (g *Gaps) drop(one *gap) {
	g.tree.Delete(one)
	g.bytes -= one.size()
}

// lengthen has a gap in the tree end elsewhere.
func (g *Gaps) lengthen(one *gap, end []byte, cutEnd bool) {
	g.bytes += len(end) - len(one.end)
	one.end, one.cutEnd = end, cutEnd
}

// commit takes in what a commit did: cleared ranges and keys make the gaps that they touch longer, keys
// that were set cut the gaps that hold them. c is what the cache makes of it.
func (g *Gaps) commit(cleared []kv.Range, changes []*overlay.Change, c *commit, oldest uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range cleared {
		g.extend(r.Begin, r.End, c.version)
	}
	for _, o := range changes {
		if o.Kind != overlay.Clear {
			g.cut(o.Key)
		}
	}
	for _, key := range c.uncached {
		if g.tree.holding(key, false) == nil {
			g.extend(key, kv.After(key), c.version)
		}
	}
	for _, r := range c.emptied {
		g.insert(r.Begin, r.End, c.version)
	}
	g.join(oldest)
}

// extend adds a range that has become empty if it touches a gap.
func (g *Gaps) extend(begin, end []byte, version uint64) {
	_, next := g.tree.beginning(end)
	if next || g.tree.holding(begin, true) != nil {
		g.insert(begin, end, version)
	}
}

// cut takes key out of the gap that holds it, if there is one.
func (g *Gaps) cut(key []byte) {
	held := g.tree.holding(key, false)
	if held == nil {
		return
	}
	after := kv.After(key)
	if held.cutBegin && !held.cutEnd && bytes.Compare(after, held.end) < 0 {
		g.drop(held)
		held.begin = after
		g.put(held)
		return
	}
	behind := &gap{span: span{after, held.end}, version: held.version, cutBegin: true, cutEnd: held.cutEnd}
	if held.cutBegin || bytes.Equal(held.begin, key) {
		g.drop(held)
	} else {
		g.lengthen(held, bytes.Clone(key), true)
	}
	if !behind.cutEnd && bytes.Compare(behind.begin, behind.end) < 0 {
		g.add(behind)
	}
}

// join makes gaps one with the neighbours that they touch, as far as every open transaction can use
// both.
func (g *Gaps) join(oldest uint64) {
	for len(g.fresh) > 0 && g.fresh[0].version <= oldest {
		one := g.fresh[0]
		g.fresh = g.fresh[1:]
		if now, ok := g.tree.Get(one); !ok || now != one {
			continue // cut off, or joined already
		}
		if before := g.tree.holding(one.begin, true); before != nil && before.version <= oldest {
			g.drop(one)
			g.lengthen(before, one.end, one.cutEnd)
			before.version = max(before.version, one.version)
			one = before
		}
		if behind, ok := g.tree.beginning(one.end); ok && behind.version <= oldest {
			g.drop(behind)
			g.lengthen(one, behind.end, behind.cutEnd)
			one.version = max(one.version, behind.version)
		}
	}
	if len(g.fresh) == 0 {
		g.fresh = nil
	}
}
