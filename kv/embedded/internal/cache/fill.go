package cache

import (
	"bytes"
	"slices"

	"github.com/conq-go/conq/kv"
)

// Fill takes in what a read at version has found from a cursor on: pairs, made by Cache.Pair, are all
// that there is up to a key. Nothing there may have been written since version. What is known of it
// stays as it is.
func (c *Cache) Fill(cur Cursor, pairs []Pair, to []byte, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits.Bytes < rangeSize {
		return
	}
	if cur.Reverse {
		pairs = slices.Clone(pairs) // the reader goes on with them
		slices.Reverse(pairs)
	}
	fetch := 2 * max(len(pairs), 1)
	for cur.End = to; !cur.Done(); {
		if h := c.holding(cur.Pos, cur.Reverse); h != nil {
			cur.pass(h.begin, h.end)
			continue
		}
		r := c.unknown(&cur)
		from, _ := search(pairs, r.Begin)
		end, _ := search(pairs, r.End)
		c.fill(&cur, r, pairs[from:end], version, fetch)
		cur.pass(r.Begin, r.End)
	}
	c.evict()
}

// fill is Fill for a range at a cursor that is in no hot range, with how many pairs the next read
// should fetch from there.
func (c *Cache) fill(cur *Cursor, r kv.Range, pairs []Pair, version uint64, fetch int) {
	var changed uint64
	r.End, changed = c.lastKeys.yield(r)
	h := c.holding(cur.Pos, !cur.Reverse) // what the reader came from
	if h == nil || len(h.pairs)+len(pairs) > c.limits.Pairs {
		h = newRange(r)
		h.head, h.tail = !cur.Reverse, cur.Reverse
		h.append(pairs)
		c.add(h)
	} else {
		c.unlist(h)
		h.extend(r, pairs, cur.Reverse)
		c.list(h)
	}
	h.changed = max(h.changed, version, changed)
	h.fetch = min(max(h.fetch, fetch), c.limits.Fetch)
}

// unknown returns what no hot range has of what a cursor has left, from where it is.
func (c *Cache) unknown(cur *Cursor) kv.Range {
	r := cur.UpTo(cur.End)
	if !cur.Reverse {
		c.pivot.begin = r.Begin
		c.ranges.Ascend(&c.pivot, func(next *hotRange) bool {
			if bytes.Compare(next.begin, r.End) < 0 {
				r.End = next.begin
			}
			return false
		})
		return r
	}
	c.pivot.begin = r.End
	c.ranges.Descend(&c.pivot, func(before *hotRange) bool {
		if bytes.Equal(before.begin, r.End) {
			return true
		}
		if bytes.Compare(before.end, r.Begin) > 0 {
			r.Begin = before.end
		}
		return false
	})
	return r
}

// add enters a hot range.
func (c *Cache) add(h *hotRange) {
	c.list(h)
	line := &c.ends
	if !h.head && !h.tail {
		line = &c.middles
	}
	*line = append(*line, h)
	if len(*line) > 2*c.ranges.Len()+16 {
		*line = slices.DeleteFunc(*line, func(h *hotRange) bool { return h.gone })
	}
}

func (c *Cache) drop(h *hotRange) {
	c.unlist(h)
	h.gone = true
}

// evict drops hot ranges until the rest is not too large.
func (c *Cache) evict() {
	for c.bytes > c.limits.Bytes && len(c.middles)+len(c.ends) > 1 {
		line := &c.middles
		if len(c.middles) == 0 {
			line = &c.ends
		}
		old := (*line)[0]
		(*line)[0], *line = nil, (*line)[1:]
		switch few := c.limits.Tail; {
		case old.gone:
		case old.boundary != nil && !old.manyLast():
			c.cutAtBoundary(old)
		case old.tail && len(old.pairs) > 2*few:
			rest, _ := c.cutLast(old, few)
			rest.used = false
		case old.used:
			old.used = false
			c.ends = append(c.ends, old)
		default:
			c.drop(old)
			c.lastKeys.keep(old)
		}
	}
}
