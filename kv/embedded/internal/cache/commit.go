package cache

import (
	"bytes"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// Backlog gets the writes of a commit, in their order: those that are not known to cancel each other
// out, or to change nothing. Its user has locked it.
type Backlog interface {
	Set(key, value []byte) (number uint64)
	Remove(key []byte)
	RemoveRange(r kv.Range)

	// Cancel takes back the write of a key by its number, before which nothing was there, and tells
	// whether it was still in the backlog.
	Cancel(number uint64) bool
}

// Applied is a backlog for writes that have been applied.
type Applied struct{}

func (Applied) Set(key, value []byte) uint64 { return 0 }
func (Applied) Remove(key []byte)            {}
func (Applied) RemoveRange(r kv.Range)       {}
func (Applied) Cancel(number uint64) bool    { return false }

// commit is one that is taken in.
type commit struct {
	*Cache
	version  uint64
	backlog  Backlog
	drained  []*hotRange // from an end of which many pairs were taken
	emptied  []kv.Range  // gaps at the ends of these
	uncached [][]byte    // keys that were cleared, and are in no hot range
}

// Commit takes in a commit of a version: its cleared ranges, and after these its other changes, in the
// order of their keys, whose memory is the cache's then. The results of additions are in their values.
// No open transaction is older than the oldest version. Gaps is told of gaps at the ends of hot ranges
// once they come from dozens of keys, as one for each key takes long.
func (c *Cache) Commit(cleared []kv.Range, changes []*overlay.Change, version, oldest uint64, b Backlog) {
	now := commit{Cache: c, version: version, backlog: b}
	now.write(cleared, changes)
	c.gaps.commit(cleared, changes, &now, oldest)
}

func (c *commit) write(cleared []kv.Range, changes []*overlay.Change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range cleared {
		c.clearRange(r)
		c.lastKeys.remove(r)
		c.backlog.RemoveRange(r)
	}
	var h *hotRange // that of the change before
	for _, o := range changes {
		if h == nil || !h.holds(o.Key) {
			h = c.ranges.holding(o.Key, false)
		}
		if h == nil {
			c.writeUncached(o)
			continue
		}
		h.changed = c.version
		if o.Kind == overlay.Clear {
			c.remove(h, o.Key)
		} else if c.set(h, o); len(h.pairs) > c.limits.Pairs {
			c.split(h)
			h = nil
		}
	}
	for _, h := range c.drained {
		if h.place.Taken() { // else it was cut, and its parts begin to count anew
			c.noteGaps(h)
		}
	}
	c.evict()
}

// writeUncached takes in a change in no hot range.
func (c *commit) writeUncached(o *overlay.Change) {
	if o.Kind == overlay.Clear {
		c.uncached = append(c.uncached, o.Key)
		c.lastKeys.clear(o.Key)
		c.backlog.Remove(o.Key)
		return
	}
	c.backlog.Set(o.Key, o.Value)
	c.lastKeys.set(o.Key, c.version)
}

func (c *commit) set(h *hotRange, o *overlay.Change) {
	p := c.written(o)
	number := c.backlog.Set(o.Key, o.Value)
	i, found := h.search(o.Key)
	if !found || c.backlog.Cancel(h.pairs[i].number) {
		p.number = number
	}
	if found {
		c.grow(h, p.size()-h.pairs[i].size())
		h.pairs[i] = p
		return
	}
	c.grow(h, p.size())
	h.pairs = slices.Insert(h.pairs, i, p)
}

func (c *commit) remove(h *hotRange, key []byte) {
	i, found := h.search(key)
	if !found {
		return
	}
	if !c.backlog.Cancel(h.pairs[i].number) {
		c.backlog.Remove(key)
	}
	c.grow(h, -h.pairs[i].size())
	switch i {
	case 0:
		h.pairs[0] = Pair{} // which the array still has
		h.pairs = h.pairs[1:]
		c.took(h, 0)
	case len(h.pairs) - 1:
		h.pairs[i] = Pair{}
		h.pairs = h.pairs[:i]
		c.took(h, 1)
	default:
		h.pairs = slices.Delete(h.pairs, i, i+1)
	}
}

// took counts a pair that was taken from the beginning of h, or from its end.
func (c *commit) took(h *hotRange, end int) {
	if h.taken[end]++; h.taken[end] == c.limits.Gap {
		c.drained = append(c.drained, h)
	}
}

// noteGaps notes which gaps there are at the ends of h.
func (c *commit) noteGaps(h *hotRange) {
	first, last := h.end, h.begin
	if len(h.pairs) > 0 {
		first, last = h.pairs[0].Key(), h.pairs[len(h.pairs)-1].after
	}
	if h.taken[0] >= c.limits.Gap {
		c.emptied = append(c.emptied, kv.Range{Begin: h.begin, End: first})
		h.taken[0] = 0
	}
	if h.taken[1] >= c.limits.Gap {
		c.emptied = append(c.emptied, kv.Range{Begin: last, End: h.end})
		h.taken[1] = 0
	}
}

// clearRange empties r in all hot ranges.
func (c *commit) clearRange(r kv.Range) {
	first := c.ranges.endingBehind(r.Begin)
	if first == nil {
		return
	}
	c.ranges.Ascend(first, func(h *hotRange) bool {
		if bytes.Compare(h.begin, r.End) >= 0 {
			return false
		}
		h.changed = c.version
		from, _ := h.search(r.Begin)
		to, _ := h.search(r.End)
		to = max(from, to)
		c.grow(h, -sizeOf(h.pairs[from:to]))
		h.pairs = slices.Delete(h.pairs, from, to)
		return true
	})
}
