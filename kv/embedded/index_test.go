package embedded

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIndex checks the index against a map, with hashes that belong in the same few places,
// the last one among them.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x index
		want := make(map[uint64]*stretch)
		hash := rapid.Custom(func(t *rapid.T) uint64 {
			return rapid.Uint64Range(0, 3).Draw(t, "high")<<32 - rapid.Uint64Range(0, 3).Draw(t, "low")
		})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			h := hash.Draw(t, "hash")
			switch rapid.SampledFrom([]string{"set", "set", "remove", "remove another"}).Draw(t, "step") {
			case "set":
				want[h] = new(stretch)
				x.set(h, want[h])
			case "remove":
				if s, ok := want[h]; ok {
					x.remove(h, s)
					delete(want, h)
				}
			default:
				x.remove(h, new(stretch))
			}
			for high := range uint64(4) {
				for low := range uint64(4) {
					if h := high<<32 - low; x.get(h) != want[h] {
						t.Fatalf("hash %x is not that of what it was set to", h)
					}
				}
			}
			if n := len(x.slots); x.used != len(want) || n > 0 && n < 2*x.used || n > max(minSlots, 16*max(1, x.used)) {
				t.Fatalf("%d of %d slots are used, for %d stretches", x.used, len(x.slots), len(want))
			}
		}
	})
}

// TestIndexShrinks checks that what was once large is small again, with all that is left.
func TestIndexShrinks(t *testing.T) {
	var x index
	all := make([]stretch, 1000)
	hash := func(i int) uint64 { return uint64(i) * 7919 }
	for i := range all {
		x.set(hash(i), &all[i])
	}
	for i := len(all) - 1; i >= 0; i-- {
		if x.get(hash(i)) != &all[i] || x.get(hash(0)) != &all[0] {
			t.Fatalf("of %d, in %d slots, one is not found", x.used, len(x.slots))
		}
		x.remove(hash(i), &all[i])
		if n := len(x.slots); n < minSlots || n > max(minSlots, 16*x.used) {
			t.Fatalf("%d are in %d slots", x.used, n)
		}
	}
}

// TestOneHash is TestNear with bounds that have one of two hashes: what the indexes don't find,
// the tree does.
func TestOneHash(t *testing.T) { testNear(t, 1) }

// finds tells whether s is what reads come to that begin where it does, or end; with hashes of
// their own, through the indexes.
func (n *near) finds(s *stretch) bool {
	if n.ownHashes() && (n.at(s.begin) != s || n.ending(s.end) != s) {
		return false
	}
	return n.next(&reading{pos: s.begin, end: s.end}) == s && n.before(s.end) == s
}

// ownHashes tells whether bounds have hashes of their own.
func (n *near) ownHashes() bool { return n.most.hash == ^uint64(0) }

// checkIndex checks that an index has all stretches, or where they share hashes, some of them.
func (n *near) checkIndex(rt *rapid.T, x *index) {
	used, all := 0, n.stretches.Len()
	for _, o := range x.slots {
		if o.s == nil {
			continue
		}
		if used++; o.s.gone {
			rt.Fatalf("stretch %q to %q is gone, and in an index", o.s.begin, o.s.end)
		}
	}
	if used != x.used || used > all || used < all && n.ownHashes() {
		rt.Fatalf("an index has %d stretches, and says %d; there are %d", used, x.used, all)
	}
}
