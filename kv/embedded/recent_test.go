package embedded

import (
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// TestInAny compares what conflicts with a plain comparison of all ranges with all that was
// written, with more of the one and of the other.
func TestInAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reads, ranges := drawRanges(t, "reads"), drawRanges(t, "ranges")
		want := slices.ContainsFunc(reads, func(r kv.Range) bool {
			return slices.ContainsFunc(ranges, func(w kv.Range) bool {
				return max(string(r.Begin), string(w.Begin)) < min(string(r.End), string(w.End))
			})
		})
		var keys [][]byte
		for key := byte('a'); key <= 'p'; key++ {
			if rapid.IntRange(0, 7).Draw(t, "written") == 0 {
				keys = append(keys, []byte{key})
				want = want || slices.ContainsFunc(reads, func(r kv.Range) bool { return r.Contains([]byte{key}) })
			}
		}
		w := writes{keys, normalized(ranges)}
		if got := w.InAny(normalized(slices.Clone(reads))); got != want {
			t.Fatalf("reads of %q, and %q and %q written: overlap: %v, want %v", reads, keys, ranges, got, want)
		}
	})
}

func drawRanges(t *rapid.T, label string) (ranges []kv.Range) {
	for range rapid.IntRange(0, 5).Draw(t, label) {
		a, b := rapid.ByteRange('a', 'p').Draw(t, "begin"), rapid.ByteRange('a', 'p').Draw(t, "end")
		ranges = append(ranges, kv.Range{Begin: []byte{min(a, b)}, End: []byte{max(a, b)}}) // or none
	}
	return ranges
}

// TestNormalize checks that ranges are sorted, do not touch, and hold the same keys as before.
func TestNormalize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranges := drawRanges(t, "ranges")
		holds := func(ranges []kv.Range, key byte) bool {
			return slices.ContainsFunc(ranges, func(r kv.Range) bool { return r.Contains([]byte{key}) })
		}
		got := normalized(slices.Clone(ranges))
		for i, r := range got {
			if string(r.Begin) >= string(r.End) || i > 0 && string(got[i-1].End) >= string(r.Begin) {
				t.Fatalf("%q became %q", ranges, got)
			}
		}
		for key := byte('a'); key <= 'p'; key++ {
			if holds(got, key) != holds(ranges, key) {
				t.Fatalf("%q became %q: one of them holds %q", ranges, got, key)
			}
		}
	})
}

// A log has the commits after any version up to which it was not trimmed, and begins anew when it
// was emptied.
func TestLog(t *testing.T) {
	var l recentWrites
	key := func(version uint64) []byte { return fmt.Appendf(nil, "%03d", version) }
	add := func(from, to uint64) {
		for v := from; v <= to; v++ {
			l.Add(v, writes{Keys: [][]byte{key(v)}})
		}
	}
	check := func(trimmed, latest uint64) {
		t.Helper()
		if got := l.Len(); got != int(latest-trimmed) {
			t.Errorf("%d commits, want %d", got, latest-trimmed)
		}
		for v := trimmed; v <= latest; v++ {
			if got := len(l.Since(v)); got != int(latest-v) {
				t.Errorf("%d commits since %d, want %d", got, v, latest-v)
			}
			for of := trimmed + 1; of <= latest; of++ {
				if got := l.Wrote(v, kv.KeyRange(key(of))); got != (of > v) {
					t.Errorf("version %d was written after %d: %v", of, v, got)
				}
			}
		}
	}
	check(0, 0)
	add(1, 20)
	check(0, 20)
	l.Trim(7)
	check(7, 20)
	l.Trim(3)
	check(7, 20)
	l.Trim(50)
	check(20, 20)
	add(60, 70)
	check(59, 70)
}

// To look at too many commits is to find one.
func TestWroteMany(t *testing.T) {
	var l recentWrites
	for v := range uint64(maxRecent) {
		if l.Wrote(0, kv.KeyRange([]byte("a"))) {
			t.Fatalf("after %d commits elsewhere one is found", v)
		}
		l.Add(v+1, writes{Keys: [][]byte{[]byte("b")}})
	}
	if !l.Wrote(0, kv.KeyRange([]byte("a"))) || l.Wrote(1, kv.KeyRange([]byte("a"))) {
		t.Errorf("with %d commits, and one less, it is told wrongly where was written", maxRecent)
	}
}

// BenchmarkInAny compares the reads of a transaction that had many with what others wrote meanwhile.
func BenchmarkInAny(b *testing.B) {
	for _, n := range []int{1, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var reads []kv.Range
			for i := range n {
				reads = append(reads, kv.KeyRange(fmt.Appendf(nil, "q%08d", i)))
			}
			w := writes{Keys: [][]byte{[]byte("r1"), []byte("r2")}}
			for b.Loop() {
				if w.InAny(reads) {
					b.Fatal("they overlap")
				}
			}
		})
	}
}
