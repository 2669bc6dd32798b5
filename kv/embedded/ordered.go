package embedded

import (
	"bytes"

	"github.com/tidwall/btree"
)

// ordered is what trees have by where it begins.
type ordered interface{ start() []byte }

func (s *stretch) start() []byte   { return s.begin }
func (g *gap) start() []byte       { return g.begin }
func (b *tailBlock) start() []byte { return b.from }

// lastFrom returns the last of a tree that begins where pivot does, unless before is set, or
// before that; or nil.
func lastFrom[T ordered](tree *btree.BTreeG[T], pivot T, before bool) (found T) {
	tree.Descend(pivot, func(t T) bool {
		if before && bytes.Equal(t.start(), pivot.start()) {
			return true
		}
		found = t
		return false
	})
	return found
}
