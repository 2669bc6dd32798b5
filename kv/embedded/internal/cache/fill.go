package cache

import (
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
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
		if h := c.ranges.holding(cur.Pos, cur.Reverse); h != nil {
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
	h := c.ranges.holding(cur.Pos, !cur.Reverse) // what the reader came from
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
	if cur.Reverse {
		if before := c.ranges.last(r.End, true); before != nil {
			r.Begin = overlay.Greatest(r.Begin, before.end)
		}
	} else if next := c.ranges.next(r.Begin); next != nil {
		r.End = overlay.Least(r.End, next.begin)
	}
	return r
}

// add enters a hot range. One between the ends of a queue is the first to be evicted.
func (c *Cache) add(h *hotRange) {
	c.list(h)
	if h.head || h.tail {
		c.line.Add(&h.place, h)
	} else {
		c.line.AddFirst(&h.place, h)
	}
}

func (c *Cache) drop(h *hotRange) {
	c.unlist(h)
	c.line.Remove(&h.place)
}

// evict drops hot ranges until the rest is not too large.
func (c *Cache) evict() {
	for c.bytes > c.limits.Bytes && c.line.Len() > 1 {
		c.restFirst()
	}
}
