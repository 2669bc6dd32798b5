// Package overlay buffers the writes of a transaction and lays them over what
// an engine reads from its store, for engines without writable transactions of
// their own. It is what makes a transaction see its own writes.
//
// Writes are kept in two parts: the last change of each key written since, and
// the ranges cleared before that. So an engine that applies an overlay clears its
// ranges first and changes its keys second.
//
// An overlay belongs to one transaction and is not safe for concurrent use. It
// copies what it is given; the slices that it hands out are its own, to be
// neither changed nor kept, unless said otherwise.
package overlay

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/tidwall/btree"
)

// Kind is what a transaction did to a key last.
type Kind uint8

const (
	Set   Kind = iota // Value replaces what is stored
	Clear             // the key is removed
	Add               // Delta is added to what is stored
)

// Change is the last change of a key.
type Change struct {
	Key, Value []byte // behind the key, where it can be resliced to, is a zero byte
	Delta      int64
	Kind       Kind
}

// Overlay is a buffer of writes. The zero value is empty and ready for use.
//
// Most transactions write a key or two, or many in ascending order, so changes are
// a sorted slice, which costs a quarter of a tree then; they become a tree only when
// many have come in another order.
type Overlay struct {
	one     [1]Change // the first change: most transactions need no memory beside its own
	oneList [1]*Change
	room    []Change // for the next ones

	list    []*Change              // by key, unless there is a tree
	tree    *btree.BTreeG[*Change] // by key; mostly nil
	cleared RangeSet
	bytes   int
	ops     int // writes
	clears  int // of ranges
	gaps    gaps
}

// maxList is how many changes may be in the slice for one to be put between them.
// Tests make it smaller.
var maxList = 256

// newChange returns one with copies of the key and the value.
func (o *Overlay) newChange(key, value []byte, kind Kind) *Change {
	copies := make([]byte, len(key)+1+len(value)) // the zero byte is that behind the key
	copy(copies, key)
	copy(copies[len(key)+1:], value)
	switch n := len(o.room); {
	case n < cap(o.room):
	case n == 0:
		o.room = o.one[:0]
	default:
		o.room = make([]Change, 0, 2*n)
	}
	o.room = append(o.room, Change{Key: copies[: len(key) : len(key)+1], Value: copies[len(key)+1:], Kind: kind})
	return &o.room[len(o.room)-1]
}

func (o *Overlay) put(c *Change) {
	o.bytes += len(c.Key) + len(c.Value)
	if c.Kind == Add {
		o.bytes += 8
	}
	o.ops++
	if o.list == nil {
		o.list = o.oneList[:0]
	}
	n := len(o.list)
	switch {
	case o.tree != nil:
		o.tree.Set(c)
	case n == 0 || bytes.Compare(o.list[n-1].Key, c.Key) < 0:
		o.list = append(o.list, c)
	default:
		i, found := o.search(c.Key)
		switch {
		case found:
			o.list[i] = c
		case n < maxList:
			o.list = slices.Insert(o.list, i, c)
		default:
			o.grow(c)
		}
	}
}

// grow makes the slice a tree, and puts c in it.
func (o *Overlay) grow(c *Change) {
	o.tree = btree.NewBTreeGOptions(func(a, b *Change) bool { return bytes.Compare(a.Key, b.Key) < 0 },
		btree.Options{NoLocks: true})
	for _, c := range o.list {
		o.tree.Load(c)
	}
	o.list = nil
	o.tree.Set(c)
}

// search returns the index in the slice of the first change at or behind key, and
// whether it is key's.
func (o *Overlay) search(key []byte) (int, bool) {
	return slices.BinarySearchFunc(o.list, key, func(c *Change, key []byte) int { return bytes.Compare(c.Key, key) })
}

// Set buffers a value.
func (o *Overlay) Set(key, value []byte) {
	o.appears(key)
	o.put(o.newChange(key, value, Set))
}

// Clear buffers the removal of a key.
func (o *Overlay) Clear(key []byte) { o.put(o.newChange(key, nil, Clear)) }

// ClearRange buffers the removal of a range, whose bounds must be explicit.
func (o *Overlay) ClearRange(r kv.Range) {
	r = Clone(r)
	if o.tree != nil {
		for c := o.first(r.Begin); c != nil && bytes.Compare(c.Key, r.End) < 0; c = o.first(r.Begin) {
			o.tree.Delete(c)
		}
	} else {
		from, _ := o.search(r.Begin)
		to, _ := o.search(r.End)
		o.list = slices.Delete(o.list, from, max(from, to))
	}
	o.cleared.Add(r)
	o.bytes += len(r.Begin) + len(r.End)
	o.ops++
	o.clears++
}

// Add buffers an addition. It is folded into an earlier change of the key.
func (o *Overlay) Add(key []byte, delta int64) {
	c, known := o.Lookup(key)
	switch {
	case !known:
	case c != nil && c.Kind == Add:
		delta += c.Delta
	case c != nil && c.Kind == Set:
		o.Set(key, Sum(c.Value, delta))
		return
	default: // cleared
		o.Set(key, Sum(nil, delta))
		return
	}
	sum := o.newChange(key, nil, Add)
	sum.Delta = delta
	o.appears(key)
	o.put(sum)
}

// Sum returns the value of a key that had the given one after delta has been
// added, in a new slice: see [kv.Tx.Add].
func Sum(value []byte, delta int64) []byte {
	sum := make([]byte, 8)
	copy(sum, value)
	binary.LittleEndian.PutUint64(sum, binary.LittleEndian.Uint64(sum)+uint64(delta))
	return sum
}

// Own returns the value of a key that the transaction itself has decided, in a slice of the caller's, or nil if it
// has cleared it.
func (o *Overlay) Own(key []byte) (value []byte, decided bool) {
	change, known := o.Lookup(key)
	if change == nil || change.Kind == Add {
		return nil, known && change == nil
	}
	value, _ = change.over(nil)
	return value, true
}

// Added returns what the transaction's additions make of the stored value of a key that it has not decided.
func (o *Overlay) Added(key, stored []byte) []byte {
	if change, _ := o.Lookup(key); change != nil && change.Kind == Add {
		return Sum(stored, change.Delta)
	}
	return stored
}

// Lookup tells what the transaction did to key: known is false if it did
// nothing; a nil change with known true means that a cleared range holds it.
func (o *Overlay) Lookup(key []byte) (c *Change, known bool) {
	if o.tree != nil {
		if c, ok := o.tree.Get(&Change{Key: key}); ok {
			return c, true
		}
	} else if i, ok := o.search(key); ok {
		return o.list[i], true
	}
	return nil, o.cleared.Contains(key)
}

// Empty tells whether nothing was written.
func (o *Overlay) Empty() bool { return o.ops == 0 }

// Untouched tells whether nothing was written in r, whose bounds must be explicit:
// then r is as in the store.
func (o *Overlay) Untouched(r kv.Range) bool {
	if o.ops == 0 {
		return true
	}
	c := o.first(r.Begin)
	return (c == nil || bytes.Compare(c.Key, r.End) >= 0) && !o.cleared.Meets(r)
}

// Bytes returns the size of all writes, as [kv.Limits] counts it.
func (o *Overlay) Bytes() int { return o.bytes }

// Ops returns the number of keys that are written, and of ranges that were cleared, as [kv.Limits] counts them.
func (o *Overlay) Ops() int {
	if o.tree != nil {
		return o.tree.Len() + o.clears
	}
	return len(o.list) + o.clears
}

// Changes calls f for each changed key, in key order. The overlay may be
// dropped but not changed afterwards if f keeps a slice.
func (o *Overlay) Changes(f func(*Change)) {
	for _, c := range o.All() {
		f(c)
	}
}

// All returns what Changes calls f for.
func (o *Overlay) All() []*Change {
	if o.tree == nil {
		return o.list
	}
	all := make([]*Change, 0, o.tree.Len())
	o.tree.Scan(func(c *Change) bool { all = append(all, c); return true })
	return all
}

// Len returns the number of changed keys.
func (o *Overlay) Len() int {
	if o.tree != nil {
		return o.tree.Len()
	}
	return len(o.list)
}

// Cleared returns the cleared ranges, sorted and disjoint.
func (o *Overlay) Cleared() []kv.Range { return o.cleared }

// first returns the first change at or behind key, or nil.
func (o *Overlay) first(key []byte) (found *Change) {
	if o.tree != nil {
		o.tree.Ascend(&Change{Key: key}, func(c *Change) bool { found = c; return false })
	} else if i, _ := o.search(key); i < len(o.list) {
		found = o.list[i]
	}
	return found
}

// last returns the last change before key, or nil.
func (o *Overlay) last(key []byte) (found *Change) {
	if o.tree == nil {
		if i, _ := o.search(key); i > 0 {
			found = o.list[i-1]
		}
		return found
	}
	o.tree.Descend(&Change{Key: key}, func(c *Change) bool {
		if bytes.Equal(c.Key, key) {
			return true
		}
		found = c
		return false
	})
	return found
}
