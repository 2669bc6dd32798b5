package embedded

import (
	"bytes"

	"github.com/tidwall/btree"
)

// ordered is what a tree has by where it begins, which may not change while it is there.
type ordered interface{ start() []byte }

func (s *stretch) start() []byte { return s.begin }
func (g *gap) start() []byte     { return g.begin }

// newTree returns an empty tree, which its user locks.
func newTree[T ordered]() *btree.BTreeG[T] {
	before := func(a, b T) bool { return bytes.Compare(a.start(), b.start()) < 0 }
	return btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})
}

// last returns the last of a tree that begins where pivot does, unless before is set, or before
// that; or nil.
func last[T ordered](t *btree.BTreeG[T], pivot T, before bool) (found T) {
	t.Descend(pivot, func(it T) bool {
		if before && bytes.Equal(it.start(), pivot.start()) {
			return true
		}
		found = it
		return false
	})
	return found
}
