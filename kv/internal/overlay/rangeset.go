package overlay

import (
	"bytes"
	"slices"
	"sort"

	"github.com/conq-go/conq/kv"
)

// rangeSet is a set of keys as sorted ranges that neither overlap nor touch.
type rangeSet []kv.Range

// search returns the index of the first range that ends behind key.
func (s rangeSet) search(key []byte) int {
	return sort.Search(len(s), func(i int) bool { return bytes.Compare(s[i].End, key) > 0 })
}

func (s rangeSet) contains(key []byte) bool {
	_, ok := s.holding(key)
	return ok
}

// holding returns the range that holds key.
func (s rangeSet) holding(key []byte) (kv.Range, bool) {
	if i := s.search(key); i < len(s) && bytes.Compare(s[i].Begin, key) <= 0 {
		return s[i], true
	}
	return kv.Range{}, false
}

// meets tells whether a range of the set overlaps r.
func (s rangeSet) meets(r kv.Range) bool {
	i := s.search(r.Begin)
	return i < len(s) && bytes.Compare(s[i].Begin, r.End) < 0
}

func (s *rangeSet) add(r kv.Range) {
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
		r.Begin = least(r.Begin, (*s)[from].Begin)
		r.End = greatest(r.End, (*s)[to-1].End)
	}
	*s = slices.Replace(*s, from, to, r)
}

func least(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return a
	}
	return b
}

func greatest(a, b []byte) []byte {
	if bytes.Compare(a, b) > 0 {
		return a
	}
	return b
}
