package cache

import (
	"bytes"

	"github.com/tidwall/btree"
)

// span is what a tree has by where it begins, which may not change while it is there.
type span interface{ bounds() (begin, end []byte) }

func (h *hotRange) bounds() (begin, end []byte) { return h.begin, h.end }
func (g *gap) bounds() (begin, end []byte)      { return g.begin, g.end }

// newTree returns an empty tree of disjoint spans. It has no lock.
func newTree[T span]() *btree.BTreeG[T] {
	before := func(a, b T) bool {
		begin, _ := a.bounds()
		other, _ := b.bounds()
		return bytes.Compare(begin, other) < 0
	}
	return btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})
}

// holding returns the span that holds the key with which pivot begins, or with before set, the one
// that holds the keys just before it; or nil.
func holding[T span](t *btree.BTreeG[T], pivot T, before bool) (found T) {
	key, _ := pivot.bounds()
	t.Descend(pivot, func(s T) bool {
		begin, end := s.bounds()
		if before && bytes.Equal(begin, key) {
			return true
		}
		if c := bytes.Compare(end, key); c > 0 || c == 0 && before {
			found = s
		}
		return false
	})
	return found
}
