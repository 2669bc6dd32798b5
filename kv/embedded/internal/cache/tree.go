package cache

import (
	"bytes"

	"github.com/tidwall/btree"
)

// span is a part of the key space. What is in a tree has one.
type span struct{ begin, end []byte }

func (s *span) bounds() *span { return s }

type spanned interface {
	comparable
	bounds() *span
}

// tree has disjoint spans by where they begin, which may not change while they are there. It has no lock.
type tree[T spanned] struct {
	*btree.BTreeG[T]
	pivot T // for searches, so that they allocate nothing
}

// newTree returns an empty tree, which has pivot for itself.
func newTree[T spanned](pivot T) *tree[T] {
	before := func(a, b T) bool { return bytes.Compare(a.bounds().begin, b.bounds().begin) < 0 }
	return &tree[T]{btree.NewBTreeGOptions(before, btree.Options{NoLocks: true}), pivot}
}

// at returns what is searched for a span that begins at key. After the search forget must be called.
func (t *tree[T]) at(key []byte) T {
	t.pivot.bounds().begin = key
	return t.pivot
}

// forget has the tree not keep the memory of the key that was searched for, which may have a large value.
func (t *tree[T]) forget() { t.pivot.bounds().begin = nil }

// beginning returns the span that begins at key, if there is one.
func (t *tree[T]) beginning(key []byte) (T, bool) {
	s, ok := t.Get(t.at(key))
	t.forget()
	return s, ok
}

// holding returns the span that holds key, or with before set, the one that holds the keys just before
// it; or nil.
func (t *tree[T]) holding(key []byte, before bool) (none T) {
	s := t.last(key, before)
	if s == none {
		return none
	}
	if c := bytes.Compare(s.bounds().end, key); c < 0 || c == 0 && !before {
		return none
	}
	return s
}

// last returns the last span that begins at key or before it, or with before set, before it; or nil.
func (t *tree[T]) last(key []byte, before bool) (found T) {
	t.Descend(t.at(key), func(s T) bool {
		if before && bytes.Equal(s.bounds().begin, key) {
			return true
		}
		found = s
		return false
	})
	t.forget()
	return found
}

// next returns the first span that begins at key or behind it, or nil.
func (t *tree[T]) next(key []byte) (found T) {
	t.Ascend(t.at(key), func(s T) bool { found = s; return false })
	t.forget()
	return found
}

// endingBehind returns the first span that ends behind key, or nil.
func (t *tree[T]) endingBehind(key []byte) (none T) {
	if s := t.holding(key, false); s != none {
		return s
	}
	return t.next(key)
}
