package linked

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type element struct {
	place Place[element]
}

// TestList compares a list with a slice.
func TestList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var l List[element]
		var want []*element
		all := make([]element, 6)
		check := func() {
			for i := range all {
				if e := &all[i]; e.place.Taken() != slices.Contains(want, e) {
					rt.Fatalf("place %d is taken: %v, among %v", i, e.place.Taken(), want)
				}
			}
			var got []*element
			for e := l.First(); e != nil; e = e.place.Next() {
				got = append(got, e)
			}
			var last *element
			if n := len(want); n > 0 {
				last = want[n-1]
			}
			if !slices.Equal(got, want) || l.Len() != len(want) || l.Last() != last {
				rt.Fatalf("%v, %d of them, the last %v; want %v", got, l.Len(), l.Last(), want)
			}
		}
		for range rapid.IntRange(0, 30).Draw(rt, "steps") {
			e := &all[rapid.IntRange(0, len(all)-1).Draw(rt, "element")]
			i := slices.Index(want, e)
			switch first := rapid.Bool().Draw(rt, "first"); {
			case i >= 0 || rapid.IntRange(0, 5).Draw(rt, "remove") == 0:
				if was := l.Remove(&e.place); was != (i >= 0) {
					rt.Fatalf("it was there: %v, want %v", was, i >= 0)
				}
				if i >= 0 {
					want = slices.Delete(want, i, i+1)
				}
			case first:
				l.AddFirst(&e.place, e)
				want = slices.Insert(want, 0, e)
			default:
				l.Add(&e.place, e)
				want = append(want, e)
			}
			check()
		}
	})
}
