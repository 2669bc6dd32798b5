package cache

import (
	"bytes"
	"slices"

	"github.com/conq-go/conq/internal/linked"
	"github.com/conq-go/conq/kv"
)

// hotRange is a part of the key space of which all pairs are known.
type hotRange struct {
	span
	pairs   []Pair
	changed uint64 // the version before which it was different
	size    int    // bytes of it all

	head, tail bool                   // reads begin at begin, or backward ones behind its last pair: these sides are worth keeping
	used       bool                   // since it was last looked at to be evicted
	place      linked.Place[hotRange] // in Cache.line

	fetch int // how many pairs the next read beyond it should fetch

	taken   [2]int // pairs from either end since Gaps was told of it
	between int    // how many ranges between its pairs were asked for and found empty
	counted uint64 // what changed was when between was counted
}

// rangeSize is how many bytes a hot range takes beside its pairs.
const rangeSize = 256

// newRange returns the hot range of r, with no pairs. It has a copy of its bounds.
func newRange(r kv.Range) *hotRange {
	return &hotRange{span: span{bytes.Clone(r.Begin), bytes.Clone(r.End)}, size: rangeSize}
}

func (h *hotRange) holds(key []byte) bool {
	return bytes.Compare(h.begin, key) <= 0 && bytes.Compare(key, h.end) < 0
}

// search returns the index of the first pair at or behind key, and whether it is key's.
func (h *hotRange) search(key []byte) (i int, found bool) { return search(h.pairs, key) }

// search looks at the ends first: that is where queues change.
func search(pairs []Pair, key []byte) (i int, found bool) {
	n := len(pairs)
	if n == 0 {
		return 0, false
	}
	switch c := bytes.Compare(pairs[n-1].Key(), key); {
	case c < 0:
		return n, false
	case c == 0:
		return n - 1, true
	}
	if c := bytes.Compare(pairs[0].Key(), key); c >= 0 {
		return 0, c == 0
	}
	return slices.BinarySearchFunc(pairs, key, func(p Pair, key []byte) int { return bytes.Compare(p.Key(), key) })
}

// append adds pairs behind those that there are.
func (h *hotRange) append(pairs []Pair) {
	h.pairs = append(h.pairs, pairs...)
	h.size += sizeOf(pairs)
}

func sizeOf(pairs []Pair) (bytes int) {
	for _, p := range pairs {
		bytes += p.size()
	}
	return bytes
}

// extend makes the range longer by what lies next to it.
func (h *hotRange) extend(r kv.Range, pairs []Pair, before bool) {
	if !before {
		h.end = bytes.Clone(r.End)
		h.append(pairs)
		return
	}
	h.begin = bytes.Clone(r.Begin)
	h.pairs = slices.Insert(h.pairs, 0, pairs...)
	h.size += sizeOf(pairs)
}

// forward appends the next pairs, up to a limit, and moves the cursor past them.
func (h *hotRange) forward(c *Cursor, pairs []Pair, limit int) []Pair {
	i, _ := h.search(c.Pos)
	pairs = slices.Grow(pairs, max(0, min(len(h.pairs)-i, limit-len(pairs))))
	for ; i < len(h.pairs) && len(pairs) < limit; i++ {
		if bytes.Compare(h.pairs[i].Key(), c.End) >= 0 {
			c.Pos = c.End
			return pairs
		}
		pairs = append(pairs, h.pairs[i])
		c.Pos = h.pairs[i].after
	}
	h.passed(c, len(h.pairs)-i)
	return pairs
}

func (h *hotRange) backward(c *Cursor, pairs []Pair, limit int) []Pair {
	i := len(h.pairs)
	if !bytes.Equal(c.Pos, h.end) {
		i, _ = h.search(c.Pos)
	}
	pairs = slices.Grow(pairs, max(0, min(i, limit-len(pairs))))
	for ; i > 0 && len(pairs) < limit; i-- {
		if bytes.Compare(h.pairs[i-1].Key(), c.End) < 0 {
			c.Pos = c.End
			return pairs
		}
		pairs = append(pairs, h.pairs[i-1])
		c.Pos = h.pairs[i-1].Key()
	}
	h.passed(c, i)
	return pairs
}

// passed moves the cursor past the range if no pairs of it are left, and notes how many should be fetched there.
func (h *hotRange) passed(c *Cursor, left int) {
	if left == 0 {
		c.pass(h.begin, h.end)
		c.Fetch = h.fetch
	}
}

// foundEmpty takes in that a range between its pairs was asked for and found empty. A push of many
// items asks for all before the first is there, so until the next commit more may be asked for than
// there are pairs.
func (h *hotRange) foundEmpty() {
	if h.counted != h.changed {
		h.between, h.counted = min(h.between, len(h.pairs)), h.changed
	}
	h.between++
}

// manyLast tells whether many of its pairs are probably the last of a range that is asked for: whether
// priorities have few items each. Then all of them stay known as last keys when it is evicted.
func (h *hotRange) manyLast() bool { return h.between > 0 && h.between >= len(h.pairs)/4 }
