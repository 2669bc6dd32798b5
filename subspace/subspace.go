// Package subspace gives a part of a store's keys to one use: all keys of a
// [Subspace] begin with its prefix, and go on with a packed tuple.
//
// # Layout
//
//	key     prefix, then a packed tuple of at least one element
//	range   prefix 00 .. prefix ff: those keys, as every type code of the tuple
//	        encoding lies between 00 and ff; the bare prefix is not in it
//
// The prefix is a packed tuple as a rule, so that subspaces of different tuples
// have no key in common, unless one tuple begins with the other.
//
// This is FoundationDB's Subspace, byte for byte: New("Q") here is
// Subspace(('Q',)) in Python.
//
// # Ownership and concurrency
//
// A Subspace never changes and is safe for concurrent use. Arguments are copied;
// keys are new slices; ranges and what Bytes returns must not be modified.
package subspace

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// ErrOutside means that a key does not belong to the subspace.
var ErrOutside = errors.New("subspace: key is outside")

// roomForTuple is how much space Pack sets aside behind the prefix: enough for
// the keys of both queues.
const roomForTuple = 48

// Subspace is the keys that begin with a prefix. The zero value has an empty
// prefix: all keys.
type Subspace struct {
	prefix []byte // never modified; capacity = length
}

// New returns the subspace of the packed tuple of elems. The error is a
// tuple.ErrElement.
func New(elems ...any) (Subspace, error) { return Subspace{}.Sub(elems...) }

// FromBytes returns the subspace of a prefix that need not be a packed tuple.
func FromBytes(prefix []byte) Subspace { return own(bytes.Clone(prefix)) }

// Named returns the subspace of the packed tuple (name). name must be UTF-8,
// which is not checked here.
func Named(name string) Subspace { return own(tuple.AppendString(nil, name)) }

// Sub returns the subspace of s's prefix and the packed tuple of elems. The
// error is a tuple.ErrElement.
func (s Subspace) Sub(elems ...any) (Subspace, error) {
	prefix, err := s.Pack(elems)
	if err != nil {
		return Subspace{}, err
	}
	return own(prefix), nil
}

// Int is Sub for one integer, which never fails.
func (s Subspace) Int(i int64) Subspace {
	prefix := make([]byte, len(s.prefix), len(s.prefix)+9)
	copy(prefix, s.prefix)
	return own(tuple.AppendInt(prefix, i))
}

// own returns the subspace of a prefix that nobody else has.
func own(prefix []byte) Subspace { return Subspace{slices.Clip(prefix)} }

// Bytes returns the prefix. It must not be modified; appending to it copies.
func (s Subspace) Bytes() []byte { return s.prefix }

// Pack returns the key of t in s. The error is a tuple.ErrElement.
func (s Subspace) Pack(t tuple.Tuple) ([]byte, error) {
	key := make([]byte, 0, len(s.prefix)+roomForTuple)
	key, err := t.Append(append(key, s.prefix...))
	if err != nil {
		return nil, err
	}
	return key, nil
}

// Unpack returns the tuple whose key in s is key. The error is an [ErrOutside],
// or a tuple.ErrMalformed with an offset behind the prefix.
func (s Subspace) Unpack(key []byte) (tuple.Tuple, error) {
	packed, ok := bytes.CutPrefix(key, s.prefix)
	if !ok {
		return nil, fmt.Errorf("%w: %.200q does not begin with %.200q", ErrOutside, key, s.prefix)
	}
	return tuple.Unpack(packed)
}

// Range returns the range of all keys of s that Pack can return for a tuple
// that is not empty.
func (s Subspace) Range() kv.Range {
	n := len(s.prefix) + 1
	both := make([]byte, 2*n) // one allocation for both
	return rangeOf(both, append(both[:0], s.prefix...))
}

// RangeOfInt is s.Int(i).Range().
func (s Subspace) RangeOfInt(i int64) kv.Range {
	both := make([]byte, 2*(len(s.prefix)+9+1)) // one allocation for both bounds
	return rangeOf(both, tuple.AppendInt(append(both[:0], s.prefix...), i))
}

// rangeOf returns the range behind a prefix that begins both, where there is room for both
// bounds.
func rangeOf(both, prefix []byte) kv.Range {
	n := len(prefix) + 1
	copy(both[n:], prefix)
	both[n-1], both[2*n-1] = 0x00, 0xff
	return kv.Range{Begin: both[:n:n], End: both[n : 2*n : 2*n]}
}

// Contains tells whether key begins with s's prefix, as FoundationDB's contains
// does. A key of Named("Q\x00") begins with the prefix of Named("Q"), so where
// names may have zero bytes, ask Range.
func (s Subspace) Contains(key []byte) bool { return bytes.HasPrefix(key, s.prefix) }
