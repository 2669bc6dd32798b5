package cache

import (
	"bytes"
	"sync"

	"github.com/conq-go/conq/internal/linked"
	"github.com/conq-go/conq/kv"
)

// Cache has hot ranges and last keys, and tells Gaps what it knows of gaps.
type Cache struct {
	limits Limits
	gaps   *Gaps

	mu       sync.Mutex
	ranges   *tree[*hotRange]
	line     linked.List[hotRange] // to be evicted in this order, unless used
	bytes    int                   // of all ranges
	lastKeys *lastKeys
}

// Limits bound a cache. They are the Usual ones in all stores but those of tests.
type Limits struct {
	Bytes    int // of all hot ranges; with less than one takes there are none
	LastKeys int // bytes of all last keys
	Pairs    int // in a hot range
	First    int // pairs fetched at first, if they are small: a search costs as much as dozens
	Fetch    int // pairs fetched at once, in the end
	Value    int // bytes of a value that is not large
	Gap      int // pairs taken from an end, after which Gaps is told

	// Where the last key of a range is asked for in the middle of a hot range, that is cut if it
	// has more pairs than Inner, or if there is no such key, than Between: a new item comes there,
	// and moves half of the pairs.
	Inner, Between int
}

// Usual are the limits of a store.
var Usual = Limits{Bytes: 16 << 20, LastKeys: 112 << 20, Pairs: 1024, First: 16, Fetch: 512, Value: 16 << 10, Gap: 64, Inner: 64, Between: 256}

// New returns an empty cache.
func New(limits Limits, gaps *Gaps) *Cache {
	return &Cache{
		limits:   limits,
		gaps:     gaps,
		ranges:   newTree(new(hotRange)),
		lastKeys: newLastKeys(limits.LastKeys),
	}
}

// Limits returns those that New got.
func (c *Cache) Limits() Limits { return c.limits }

// Len returns how many hot ranges and last keys there are.
func (c *Cache) Len() (ranges, lastKeys int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ranges.Len(), c.lastKeys.tree.Len()
}

// list makes a hot range one of those that can be found.
func (c *Cache) list(h *hotRange) {
	c.ranges.Set(h)
	c.bytes += h.size
}

// unlist undoes list. That is needed before its bounds change, too.
func (c *Cache) unlist(h *hotRange) {
	c.ranges.Delete(h)
	c.bytes -= h.size
}

// grow adds bytes to a hot range that is listed.
func (c *Cache) grow(h *hotRange, bytes int) {
	h.size += bytes
	c.bytes += bytes
}

// Read appends to pairs what is known of the next ones at version, up to a limit, and moves the cursor
// past them. If it appends fewer, and the cursor is not done, then what lies at its Pos is not known.
func (c *Cache) Read(cur *Cursor, pairs []Pair, limit int, version uint64) []Pair {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(pairs) < limit && !cur.Done() {
		h := c.ranges.holding(cur.Pos, cur.Reverse)
		if h == nil || h.changed > version {
			break // and Fetch stays
		}
		cur.Fetch = 0
		h.used = true
		if cur.Reverse {
			pairs = h.backward(cur, pairs, limit)
		} else {
			pairs = h.forward(cur, pairs, limit)
		}
		if len(pairs) < limit && !cur.Done() {
			c.absorb(h, cur.Reverse)
		}
	}
	return pairs
}

// absorb joins h with the neighbour that a reader comes to next, if there is one. Where pairs are
// taken, at a queue's head, ranges would otherwise become empty one after the other, and each reader
// would have to pass them all.
func (c *Cache) absorb(h *hotRange, reverse bool) {
	a, b := h, c.ranges.holding(h.end, false)
	if reverse {
		a, b = c.ranges.holding(h.begin, true), h
	}
	if a == nil || b == nil || !c.fit(a, b) {
		return
	}
	c.drop(b)
	c.unlist(a)
	a.end, a.tail = b.end, b.tail
	a.append(b.pairs)
	c.list(a)
	a.between += b.between
	a.changed, a.fetch = max(a.changed, b.changed), max(a.fetch, b.fetch)
}

// fit tells whether two hot ranges should be one: mostly if that leaves room, as it would soon be cut
// again without.
func (c *Cache) fit(a, b *hotRange) bool {
	both, fewer := len(a.pairs)+len(b.pairs), min(len(a.pairs), len(b.pairs))
	return both <= c.limits.Pairs/2 || both <= c.limits.Pairs && fewer <= c.limits.Pairs/16
}

// Get returns the value of a key at version in a new slice, or nil, if it is known.
func (c *Cache) Get(key []byte, version uint64) (value []byte, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.ranges.holding(key, false)
	if h == nil || h.changed > version {
		return nil, false
	}
	h.used = true
	switch i, ok := h.search(key); {
	case !ok:
		return nil, true
	case h.pairs[i].Large():
		return nil, false
	default:
		return append([]byte{}, h.pairs[i].value...), true
	}
}

// LastKey returns the last key of a range at version, or nil, if it is known.
func (c *Cache) LastKey(r kv.Range, version uint64) (key []byte, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.ranges.holding(r.End, true)
	if h == nil {
		return c.lastKeys.last(r, version)
	}
	if h.changed > version {
		return nil, false
	}
	i := len(h.pairs)
	if !bytes.Equal(h.end, r.End) {
		i, _ = h.search(r.End)
	}
	if i > 0 && bytes.Compare(h.pairs[i-1].Key(), r.Begin) >= 0 {
		key, known = h.pairs[i-1].Key(), true
	} else {
		known = bytes.Compare(h.begin, r.Begin) <= 0
	}
	c.asked(h, r.End, i, key == nil).used = true
	return key, known
}

// asked takes in that the last key of a range was asked for that ends at end, before the pair at an
// index of h; with none, there was no such key. It may cut h there (see Limits.Inner), and returns the
// hot range that has what lies before end. h is not cut where few pairs move for a new item, or none,
// as the key is its last: its parts would be joined again at once where the smallest priorities, or
// the last item of one, are taken while such items are pushed and popped.
func (c *Cache) asked(h *hotRange, end []byte, i int, none bool) *hotRange {
	inside, most := !bytes.Equal(h.end, end), c.limits.Inner
	if none {
		most = c.limits.Between
	}
	if inside && len(h.pairs) > most && i > c.limits.Inner && (none || i < len(h.pairs)) {
		h, _ = c.cut(h, end, i, true)
		c.evict()
	}
	h.tail = h.tail || i > 0 && i == len(h.pairs)
	if none && (inside || len(h.pairs) > 0) {
		h.foundEmpty()
	}
	return h
}

// split makes one with too many pairs two.
func (c *Cache) split(h *hotRange) {
	i := len(h.pairs) / 2
	c.cut(h, h.pairs[i].Key(), i, false)
}

// cut makes h two, at a key that is that of the pair at an index or lies before it. The first may have
// a tail.
func (c *Cache) cut(h *hotRange, at []byte, i int, tail bool) (first, second *hotRange) {
	c.drop(h)
	first, second = newRange(kv.Range{Begin: h.begin, End: at}), newRange(kv.Range{Begin: at, End: h.end})
	first.head, first.tail, second.tail = h.head, tail, h.tail
	first.append(h.pairs[:i])
	second.append(h.pairs[i:])
	first.between = min(h.between, len(h.pairs)) * i / max(len(h.pairs), 1)
	second.between = h.between - first.between // with those whose pairs still come
	for _, part := range []*hotRange{first, second} {
		part.changed, part.used, part.counted = h.changed, h.used, h.counted
		part.fetch = h.fetch
		c.add(part)
	}
	return first, second
}
