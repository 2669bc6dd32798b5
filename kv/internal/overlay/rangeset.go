package overlay

import (
	"bytes"
	"slices"
	"sort"

	"github.com/conq-go/conq/kv"
)

// RangeSet is a set of keys as sorted ranges with explicit bounds that neither
// overlap nor touch.
type RangeSet []kv.Range

// search returns the index of the first range that ends behind key.
func (s RangeSet) search(key []byte) int {
	return sort.Search(len(s), func(i int) bool { return bytes.Compare(s[i].End, key) > 0 })
}

// Index returns the index of the range that holds key.
func (s RangeSet) Index(key []byte) (int, bool) {
	i := s.search(key)
	return i, i < len(s) && bytes.Compare(s[i].Begin, key) <= 0
}

// Contains tells whether a range of the set holds key.
func (s RangeSet) Contains(key []byte) bool {
	_, ok := s.Index(key)
	return ok
}

// Holding returns the range that holds key.
func (s RangeSet) Holding(key []byte) (kv.Range, bool) {
	if i, ok := s.Index(key); ok {
		return s[i], true
	}
	return kv.Range{}, false
}

// Covers tells whether all of r is in the set.
func (s RangeSet) Covers(r kv.Range) bool {
	if bytes.Compare(r.Begin, r.End) >= 0 {
		return true
	}
	span, ok := s.Holding(r.Begin)
	return ok && bytes.Compare(r.End, span.End) <= 0
}

// Meets tells whether a range of the set overlaps r, which is not empty.
func (s RangeSet) Meets(r kv.Range) bool {
	i := s.search(r.Begin)
	return i < len(s) && bytes.Compare(s[i].Begin, r.End) < 0
}

// Add adds r. It keeps r's slices.
func (s *RangeSet) Add(r kv.Range) {
	if bytes.Compare(r.Begin, r.End) >= 0 {
		return
	}
	// All ranges in [from, to) overlap r or touch it: they become one.
	from := sort.Search(len(*s), func(i int) bool { return bytes.Compare((*s)[i].End, r.Begin) >= 0 })
	to := from
	for to < len(*s) && bytes.Compare((*s)[to].Begin, r.End) <= 0 {
		to++
	}
	if from < to {
		r.Begin = Least(r.Begin, (*s)[from].Begin)
		r.End = Greatest(r.End, (*s)[to-1].End)
	}
	*s = slices.Replace(*s, from, to, r)
}

// Clone returns a copy of a range with explicit bounds. A beginning that is empty is nil: with its invariants
// on, Pebble can't seek another one.
func Clone(r kv.Range) kv.Range {
	n := len(r.Begin)
	both := append(append(make([]byte, 0, n+len(r.End)), r.Begin...), r.End...)
	c := kv.Range{End: both[n:]}
	if n > 0 {
		c.Begin = both[:n:n]
	}
	return c
}

// Least returns the lower of two keys.
func Least(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return a
	}
	return b
}

// Greatest returns the higher of two keys.
func Greatest(a, b []byte) []byte {
	if bytes.Compare(a, b) > 0 {
		return a
	}
	return b
}
