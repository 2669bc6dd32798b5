package embedded

import (
	"bytes"
	"slices"

	"github.com/conq-go/conq/kv"
)

// stretch is a part of the key space of which all pairs are known.
//
// What every operation looks at comes first: a stretch is mostly in no cache where there
// are many.
type stretch struct {
	pairs   []pair
	begin   []byte
	changed uint64 // the version before which it was different

	// Whether reads begin at begin, or backward ones at end: those sides are worth
	// keeping.
	head, tail bool

	fetching bool // what lies beyond it is to be fetched
	used     bool // since it was last looked at to be forgotten
	gone     bool
	steady   bool // the pairs of ahead were wanted before

	end     []byte
	ahead   int    // how many pairs the next read beyond it should fetch
	size    int    // of it all, in bytes
	taken   [2]int // pairs from either end since deadSpace was told of it
	inner   []byte // not a bound, but where a backward read began
	between int    // how many ranges between its pairs were asked for and found empty
	counted uint64 // what changed was when between was counted
}

// newStretch returns the stretch of a range, with no pairs. It has a copy of its bounds.
func newStretch(r kv.Range) *stretch {
	r = clone(r)
	return &stretch{begin: r.Begin, end: r.End, size: stretchSize}
}

func (s *stretch) holds(key []byte) bool {
	return bytes.Compare(s.begin, key) <= 0 && bytes.Compare(key, s.end) < 0
}

// search returns the index of the first pair at or behind key, and whether it is key's.
func (s *stretch) search(key []byte) (i int, found bool) { return search(s.pairs, key) }

// search looks at the ends first: that is where queues change.
func search(pairs []pair, key []byte) (int, bool) {
	n := len(pairs)
	if n == 0 {
		return 0, false
	}
	switch c := bytes.Compare(pairs[n-1].key(), key); {
	case c < 0:
		return n, false
	case c == 0:
		return n - 1, true
	}
	if c := bytes.Compare(pairs[0].key(), key); c >= 0 {
		return 0, c == 0
	}
	return slices.BinarySearchFunc(pairs, key, func(p pair, key []byte) int { return bytes.Compare(p.key(), key) })
}

// reading is how far a cursor has come.
type reading struct {
	pos     []byte // what is left begins here, or with reverse ends here; never behind end
	end     []byte // the other side of what is left
	reverse bool
	ahead   int // how many pairs should be fetched from pos on, if more than 0

	low []byte // where to fetch ahead from, as few pairs are left before that
}

// done tells whether nothing is left.
func (r *reading) done() bool {
	if r.reverse {
		return bytes.Compare(r.pos, r.end) <= 0
	}
	return bytes.Compare(r.pos, r.end) >= 0
}

// pass moves past a range that r has come to, or to the end if that is in it.
func (r *reading) pass(begin, end []byte) {
	if r.pos = end; r.reverse {
		r.pos = begin
	}
	if r.done() {
		r.pos = r.end
	}
}

// upTo returns what lies between here and a key that comes later.
func (r *reading) upTo(key []byte) kv.Range {
	if r.reverse {
		return kv.Range{Begin: key, End: r.pos}
	}
	return kv.Range{Begin: r.pos, End: key}
}

// forward reads on in s. That a read which begins where s does needs no search makes a peek at
// one of 1,000 queues 0.8 times as long.
func (s *stretch) forward(r *reading, pairs []pair, limit int) []pair {
	i := 0
	if !bytes.Equal(r.pos, s.begin) {
		i, _ = s.search(r.pos)
	}
	for ; i < len(s.pairs) && len(pairs) < limit; i++ {
		if bytes.Compare(s.pairs[i].key(), r.end) >= 0 {
			r.pos = r.end
			return pairs
		}
		pairs = append(pairs, s.pairs[i])
		r.pos = s.pairs[i].after
	}
	if i == len(s.pairs) {
		r.pass(s.begin, s.end)
		r.ahead = s.ahead
	} else {
		s.runsLow(r, len(s.pairs)-i, s.end)
	}
	return pairs
}

func (s *stretch) backward(r *reading, pairs []pair, limit int) []pair {
	i := len(s.pairs)
	if !bytes.Equal(r.pos, s.end) {
		i, _ = s.search(r.pos)
	}
	for ; i > 0 && len(pairs) < limit; i-- {
		if bytes.Compare(s.pairs[i-1].key(), r.end) < 0 {
			r.pos = r.end
			return pairs
		}
		pairs = append(pairs, s.pairs[i-1])
		r.pos = s.pairs[i-1].key()
	}
	if i == 0 {
		r.pass(s.begin, s.end)
		r.ahead = s.ahead
	} else {
		s.runsLow(r, i, s.begin)
	}
	return pairs
}

// runsLow notes in r that what lies beyond s should be fetched, if readers take so
// much that they will soon come there.
func (s *stretch) runsLow(r *reading, left int, beyond []byte) {
	if !s.fetching && s.steady && left <= s.ahead*3/4 && !(&reading{pos: beyond, end: r.end, reverse: r.reverse}).done() {
		s.fetching, r.low = true, beyond
	}
}

// askedBetween takes in that a range between its pairs was asked for and found empty. Who pushes
// many items asks for all before the first is there, so until the next commit more may be asked for
// than there are pairs. With that, with what lastKeys.yield leaves and with what lastKeys.keep puts before
// an only pair, a push among a million priorities which were filled 10,000 at a time takes 0.65 to
// 0.8 of the time on average with Memory, and if 5,000 at a time, 0.9: one in 200 looked in Pebble.
func (s *stretch) askedBetween() {
	if s.counted != s.changed {
		s.between, s.counted = min(s.between, len(s.pairs)), s.changed
	}
	s.between++
}

// distinct tells whether many of its pairs are probably the last of a range that is asked
// for: whether priorities have few items each. Then lastKeys takes in all of them when s is
// forgotten.
func (s *stretch) distinct() bool { return s.between > 0 && s.between >= len(s.pairs)/4 }

// split makes s two, after a pair was set at an index: where backward reads begin, if that
// is known; or near the end, if it grows there, so that of a queue which is filled little is
// copied, and what lies before its end is full; or in the middle. With Interval, 16 callers
// fill a queue 1.04 times as fast as with halves in new memory, and a priority queue, which
// at first is near as a whole, 1.4 times as fast as if its priorities were cut anywhere.
func (n *near) split(s *stretch, grown int) {
	if s.inner != nil {
		first, second := n.cutInner(s)
		switch grown -= len(first.pairs); {
		case len(first.pairs) > n.most.pairs:
			s, grown = first, grown+len(first.pairs)
		case len(second.pairs) > n.most.pairs:
			s = second
		default:
			return
		}
	}
	if last := len(s.pairs) - 1; grown == last {
		n.cutLast(s, min(n.most.tail, last/2))
	} else {
		n.cutLast(s, len(s.pairs)/2)
	}
}

// cutInner makes s two where a backward read began, so that the first has a tail.
func (n *near) cutInner(s *stretch) (first, second *stretch) {
	i, _ := s.search(s.inner)
	return n.cut(s, s.inner, i, true)
}

// cutLast makes s two, of which the second has so many pairs.
func (n *near) cutLast(s *stretch, pairs int) (first, second *stretch) {
	i := len(s.pairs) - pairs
	return n.cut(s, s.pairs[i].key(), i, false)
}

// cut makes s two, at a key that is that of the pair at an index or lies before it. The
// first may have a tail. The key is copied.
func (n *near) cut(s *stretch, at []byte, i int, tail bool) (first, second *stretch) {
	n.drop(s)
	first, second = newStretch(kv.Range{Begin: s.begin, End: at}), newStretch(kv.Range{Begin: at, End: s.end})
	first.head, first.tail = s.head, tail
	second.tail = s.tail
	first.pairs, second.pairs = slices.Clone(s.pairs[:i]), slices.Clone(s.pairs[i:])
	small, large := first, second
	if len(first.pairs) > len(second.pairs) {
		small, large = second, first
	}
	small.weigh(small.pairs)
	large.size += s.size - small.size
	first.between = min(s.between, len(s.pairs)) * len(first.pairs) / max(len(s.pairs), 1)
	second.between = s.between - first.between // with those whose pairs still come
	for _, part := range []*stretch{first, second} {
		part.changed, part.used, part.counted = s.changed, s.used, s.counted
		part.ahead, part.steady, part.fetching = s.ahead, s.steady, s.fetching
		n.add(part)
	}
	s.pairs = nil // it may be in a queue for a while
	return first, second
}
