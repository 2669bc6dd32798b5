package cache

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// Of a gap that was cut where keys were set, the rest is known.
func TestGapCutAgain(t *testing.T) {
	s := newStore(Usual)
	s.gaps.Add(kv.Range{Begin: []byte("a"), End: []byte("z")}, 1)
	for _, key := range []string{"c", "d", "e"} {
		s.set(nil, []byte(key))
		if got := s.gaps.Past([]byte(key), false, 1); string(got) != key {
			t.Errorf("%q is set, and passed over as far as %q", key, got)
		}
		if got := s.gaps.Past([]byte("x"), false, 1); string(got) != "z" {
			t.Errorf("after %q was set, the gap from x on ends at %q, want z", key, got)
		}
	}
}

// A queue that is taken from leaves one gap at its head, also when an older transaction is always open,
// whether or not it is in the cache.
func TestGapsJoin(t *testing.T) {
	testkit.Long(t)
	for _, cached := range []bool{true, false} {
		limits := Usual
		if !cached {
			limits.Bytes = 0
		}
		s := newStore(limits)
		const n = 3000
		s.set(nil, items("q", 0, n)...)
		s.gaps.Add(kv.Range{Begin: []byte("q"), End: item("q", 0)}, s.version)
		for i := range n - 1 {
			s.oldest = s.version - min(s.version-1, 5)
			s.read(all, false, 1)
			if !cached && i%20 == 0 { // as a read does that has stepped over so many
				s.gaps.Add(kv.Range{Begin: []byte("q"), End: item("q", i)}, s.version)
			}
			s.commit(func(o *overlay.Overlay) { o.Clear(item("q", i)) })
			if end := s.gaps.Past([]byte("q"), false, s.oldest); i > 200 && string(end) < string(item("q", i-200)) {
				t.Fatalf("cached: %v; after %d items the oldest transaction knows a gap up to %q", cached, i, end)
			}
		}
		s.oldest = s.version
		s.set(nil, []byte("other"))
		if got := s.gaps.Len(); got == 0 || got > 10 || len(s.gaps.fresh) > 10 {
			t.Errorf("cached: %v; %d gaps, of which %d wait to be joined, want a few", cached, got, len(s.gaps.fresh))
		}
		if end := s.gaps.Past([]byte("q"), false, s.version); string(end) < string(item("q", n-2*limits.Gap)) {
			t.Errorf("cached: %v; the gap at the head ends at %q", cached, end)
		}
	}
}

// The memory of gaps is bounded, whatever the length of their keys, and counted as it is.
func TestGapBytes(t *testing.T) {
	s := newStore(Usual)
	rng := rand.New(rand.NewPCG(1, 2))
	long := bytes.Repeat([]byte("k"), 10_000)
	for i := range 4000 {
		key := fmt.Appendf(nil, "%04d%s", rng.IntN(5000), long)
		s.oldest = s.version - min(s.version-1, uint64(rng.IntN(3)))
		switch i % 4 {
		case 0:
			s.set(nil, key)
		case 1:
			s.commit(func(o *overlay.Overlay) { o.Clear(key) })
		default:
			s.gaps.Add(kv.Range{Begin: key, End: kv.After(key)}, s.version)
		}
		if s.gaps.bytes > mostGapBytes+len(long)*4 {
			t.Fatalf("after %d steps gaps have %d bytes", i, s.gaps.bytes)
		}
	}
	size := 0
	s.gaps.tree.Scan(func(one *gap) bool { size += one.size(); return true })
	if size != s.gaps.bytes || size == 0 {
		t.Errorf("gaps have %d bytes, and %d are counted", size, s.gaps.bytes)
	}
}

// Gaps that touch are told as one.
func TestRuns(t *testing.T) {
	g := NewGaps()
	for i, r := range []kv.Range{{Begin: []byte("a"), End: []byte("c")}, {Begin: []byte("c"), End: []byte("e")}, {Begin: []byte("g"), End: []byte("h")}} {
		g.Add(r, uint64(i+1))
	}
	if got := fmt.Sprintf("%s", g.Runs()); got != "[{a e} {g h}]" {
		t.Errorf("runs are %s", got)
	}
}
