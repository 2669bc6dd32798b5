// Package overlay buffers the writes of a transaction and lays them over what
// an engine reads from its store, for engines without writable transactions of
// their own. It is what makes a transaction see its own writes.
//
// Writes are kept in two parts: the last change of each key written since, and
// the ranges cleared before that. So whoever applies an overlay clears its
// ranges first and changes its keys second.
//
// An overlay belongs to one transaction and is not safe for concurrent use. It
// copies what it is given; the slices that it hands out are its own, to be
// neither changed nor kept, unless said otherwise.
package overlay

import (
	"bytes"
	"encoding/binary"

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
	Key, Value []byte
	Delta      int64
	Kind       Kind
}

// Overlay is a buffer of writes. The zero value is empty and ready for use.
type Overlay struct {
	changes *btree.BTreeG[*Change] // by key; nil while empty
	cleared rangeSet
	bytes   int
	ops     int
}

// degree keeps the nodes of the tree small: most transactions write a key or
// two.
const degree = 8

func (o *Overlay) put(c *Change) {
	if o.changes == nil {
		o.changes = btree.NewBTreeGOptions(func(a, b *Change) bool { return bytes.Compare(a.Key, b.Key) < 0 },
			btree.Options{NoLocks: true, Degree: degree})
	}
	o.changes.Set(c)
	o.bytes += len(c.Key) + len(c.Value)
	o.ops++
}

// Set buffers a value.
func (o *Overlay) Set(key, value []byte) {
	buf := make([]byte, len(key)+len(value)) // one allocation for both
	copy(buf, key)
	copy(buf[len(key):], value)
	o.put(&Change{Key: buf[:len(key):len(key)], Value: buf[len(key):], Kind: Set})
}

// Clear buffers the removal of a key.
func (o *Overlay) Clear(key []byte) {
	o.put(&Change{Key: bytes.Clone(key), Kind: Clear})
}

// ClearRange buffers the removal of a range, whose bounds must be explicit.
func (o *Overlay) ClearRange(r kv.Range) {
	r = kv.Range{Begin: bytes.Clone(r.Begin), End: bytes.Clone(r.End)}
	for c := o.first(r.Begin); c != nil && bytes.Compare(c.Key, r.End) < 0; c = o.first(r.Begin) {
		o.changes.Delete(c)
	}
	o.cleared.add(r)
	o.bytes += len(r.Begin) + len(r.End)
	o.ops++
}

// Add buffers an addition. It is folded into an earlier change of the key.
func (o *Overlay) Add(key []byte, delta int64) {
	c, known := o.Lookup(key)
	switch {
	case !known:
		o.put(&Change{Key: bytes.Clone(key), Delta: delta, Kind: Add})
	case c != nil && c.Kind == Add:
		o.put(&Change{Key: c.Key, Delta: c.Delta + delta, Kind: Add})
	case c != nil && c.Kind == Set:
		o.Set(key, Sum(c.Value, delta))
	default: // cleared
		o.Set(key, Sum(nil, delta))
	}
}

// Sum returns the value of a key that had the given one after delta has been
// added, in a new slice: see [kv.Tx.Add].
func Sum(value []byte, delta int64) []byte {
	sum := make([]byte, 8)
	copy(sum, value)
	binary.LittleEndian.PutUint64(sum, binary.LittleEndian.Uint64(sum)+uint64(delta))
	return sum
}

// Lookup tells what the transaction did to key: known is false if it did
// nothing; a nil change with known true means that a cleared range holds it.
func (o *Overlay) Lookup(key []byte) (c *Change, known bool) {
	if o.changes != nil {
		if c, ok := o.changes.Get(&Change{Key: key}); ok {
			return c, true
		}
	}
	return nil, o.cleared.contains(key)
}

// Empty tells whether nothing was written.
func (o *Overlay) Empty() bool { return o.ops == 0 }

// Bytes returns the size of all writes, as [kv.Limits] counts it.
func (o *Overlay) Bytes() int { return o.bytes }

// Ops returns the number of writes.
func (o *Overlay) Ops() int { return o.ops }

// Changes calls f for each changed key, in key order. The overlay may be
// dropped but not changed afterwards if f keeps a slice.
func (o *Overlay) Changes(f func(*Change)) {
	if o.changes != nil {
		o.changes.Scan(func(c *Change) bool { f(c); return true })
	}
}

// Len returns the number of changed keys.
func (o *Overlay) Len() int {
	if o.changes == nil {
		return 0
	}
	return o.changes.Len()
}

// Cleared returns the cleared ranges, sorted and disjoint.
func (o *Overlay) Cleared() []kv.Range { return o.cleared }

// first returns the first change at or behind key, or nil.
func (o *Overlay) first(key []byte) (found *Change) {
	if o.changes != nil {
		o.changes.Ascend(&Change{Key: key}, func(c *Change) bool { found = c; return false })
	}
	return found
}

// last returns the last change before key, or nil.
func (o *Overlay) last(key []byte) (found *Change) {
	if o.changes != nil {
		o.changes.Descend(&Change{Key: key}, func(c *Change) bool {
			if bytes.Equal(c.Key, key) {
				return true
			}
			found = c
			return false
		})
	}
	return found
}
