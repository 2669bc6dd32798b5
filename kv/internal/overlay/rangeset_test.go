package overlay

import (
	"bytes"
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// shortKey draws a short key of few bytes, so that keys meet.
func shortKey(t *rapid.T, label string) []byte {
	return rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 0x7f, 0xff}), 0, 3).Draw(t, label)
}

func keyRange(t *rapid.T) kv.Range {
	r := kv.Range{Begin: shortKey(t, "begin"), End: shortKey(t, "end")}
	if bytes.Compare(r.Begin, r.End) > 0 {
		r.Begin, r.End = r.End, r.Begin
	}
	return r
}

// A RangeSet holds what was added, and nothing else, and has no seams.
func TestRangeSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s RangeSet
		var all []kv.Range
		for range rapid.IntRange(0, 8).Draw(t, "ranges") {
			r := keyRange(t)
			all = append(all, r)
			s.Add(r)
		}
		in := func(k []byte) bool {
			return slices.ContainsFunc(all, func(r kv.Range) bool {
				return bytes.Compare(r.Begin, k) <= 0 && bytes.Compare(k, r.End) < 0
			})
		}
		for i := 1; i < len(s); i++ {
			if bytes.Compare(s[i-1].End, s[i].Begin) >= 0 {
				t.Fatalf("ranges %q overlap or touch", s)
			}
		}
		k := shortKey(t, "key")
		if _, got := s.Holding(k); got != in(k) {
			t.Errorf("ranges %q hold %q: %v, want %v", s, k, got, in(k))
		}
		r := keyRange(t)
		if s.Covers(r) && bytes.Compare(r.Begin, r.End) < 0 && !in(r.Begin) {
			t.Errorf("ranges %q cover %q, whose begin they do not hold", s, r)
		}
		meets := slices.ContainsFunc(all, func(other kv.Range) bool {
			return bytes.Compare(Greatest(r.Begin, other.Begin), Least(r.End, other.End)) < 0
		})
		if bytes.Compare(r.Begin, r.End) < 0 && s.Meets(r) != meets {
			t.Errorf("ranges %q meet %q: %v, want %v", s, r, !meets, meets)
		}
		for _, other := range all {
			if !s.Covers(other) {
				t.Errorf("ranges %q do not cover %q, which was added", s, other)
			}
		}
	})
}
