package embedded

import (
	"bytes"
	"math"

	"github.com/tidwall/btree"
)

// ordered is what a tree has by where it begins.
type ordered interface{ start() []byte }

func (s *stretch) start() []byte   { return s.begin }
func (g *gap) start() []byte       { return g.begin }
func (b *tailBlock) start() []byte { return b.from }

// tree has things by where they begin. That may not change while they are there.
//
// Beside each it has the first bytes of its beginning, but for those that all have in common:
// so a search mostly reads nothing but the tree. What is in it are the ends of queues, or of
// priorities, and of thousands of these most are in no cache. With Memory, a push among
// 1,000,000 priorities takes 0.85 of the time.
type tree[T ordered] struct {
	entries *btree.BTreeG[entry[T]]
	same    []byte // what all that is not empty begins with
}

// entry is something in a tree, and what it begins with behind same.
type entry[T ordered] struct {
	first, second uint64
	it            T
}

func (e entry[T]) before(other entry[T]) bool {
	switch {
	case e.first != other.first:
		return e.first < other.first
	case e.second != other.second:
		return e.second < other.second
	default:
		return bytes.Compare(e.it.start(), other.it.start()) < 0
	}
}

func newTree[T ordered]() *tree[T] {
	return &tree[T]{entries: btree.NewBTreeGOptions(entry[T].before, btree.Options{NoLocks: true})}
}

// entry returns that of something in the tree, or of a pivot that may begin anywhere.
func (t *tree[T]) entry(it T) entry[T] {
	key := it.start()
	n := len(t.same)
	switch {
	case bytes.HasPrefix(key, t.same):
		return entry[T]{head(key[n:]), head(key[min(n+8, len(key)):]), it}
	case bytes.Compare(key, t.same) < 0:
		return entry[T]{0, 0, it}
	default:
		return entry[T]{math.MaxUint64, math.MaxUint64, it}
	}
}

func (t *tree[T]) Len() int { return t.entries.Len() }

func (t *tree[T]) Set(it T) {
	if key := it.start(); len(key) > 0 && (t.Len() < 2 || !bytes.HasPrefix(key, t.same)) {
		t.shorten(key)
	}
	t.entries.Set(t.entry(it))
}

// shorten makes same what key and all that is in the tree begin with. As long as there is
// something, that can be no more often than same has bytes.
func (t *tree[T]) shorten(key []byte) {
	all := t.entries.Items()
	n := len(key)
	for _, e := range all {
		if other := e.it.start(); len(other) > 0 {
			n = min(n, prefix(key, other))
		}
	}
	t.same = bytes.Clone(key[:n])
	t.entries.Clear()
	for _, e := range all {
		t.entries.Set(t.entry(e.it))
	}
}

// Get returns what begins where pivot does.
func (t *tree[T]) Get(pivot T) (T, bool) {
	found, ok := t.entries.Get(t.entry(pivot))
	return found.it, ok
}

func (t *tree[T]) Delete(it T) { t.entries.Delete(t.entry(it)) }

func (t *tree[T]) Clear() { t.entries.Clear() }

// Ascend calls f with what begins where pivot does, or behind, in order, until f returns false.
func (t *tree[T]) Ascend(pivot T, f func(T) bool) {
	t.entries.Ascend(t.entry(pivot), func(e entry[T]) bool { return f(e.it) })
}

// Descend calls f with what begins where pivot does, or before, in reverse, until f returns
// false.
func (t *tree[T]) Descend(pivot T, f func(T) bool) {
	t.entries.Descend(t.entry(pivot), func(e entry[T]) bool { return f(e.it) })
}

// last returns the last that begins where pivot does, unless before is set, or before that; or
// nil.
func (t *tree[T]) last(pivot T, before bool) (found T) {
	t.entries.Descend(t.entry(pivot), func(e entry[T]) bool {
		if before && bytes.Equal(e.it.start(), pivot.start()) {
			return true
		}
		found = e.it
		return false
	})
	return found
}
