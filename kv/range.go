package kv

import (
	"bytes"
	"fmt"
)

// KeyRange returns the range that holds key alone.
func KeyRange(key []byte) Range { return Range{key, After(key)} }

// PrefixRange returns the range of all keys that begin with prefix. An empty
// prefix, or one of 0xff bytes only, gives all keys from it on.
func PrefixRange(prefix []byte) Range {
	end := bytes.Clone(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return Range{Begin: prefix}
	}
	end[len(end)-1]++
	return Range{prefix, end}
}

// After returns the first possible key behind key, in a new slice.
func After(key []byte) []byte {
	return append(key[:len(key):len(key)], 0)
}

// Bounds returns r with an explicit end, or ErrInvalid if it ends before it
// begins. A range that begins behind all keys, and has no end, is empty. Engines
// call it on each range that they are given.
func (r Range) Bounds() (Range, error) {
	if len(r.End) == 0 {
		r.End = []byte{0xff} // behind all keys
		if bytes.Compare(r.Begin, r.End) > 0 {
			r.Begin = r.End
		}
	}
	if bytes.Compare(r.Begin, r.End) > 0 {
		return r, fmt.Errorf("%w: range ends at %q, before it begins at %q", ErrInvalid, r.End, r.Begin)
	}
	return r, nil
}

// Contains tells whether key lies in r.
func (r Range) Contains(key []byte) bool {
	return bytes.Compare(key, r.Begin) >= 0 && (len(r.End) == 0 || bytes.Compare(key, r.End) < 0)
}

// CheckKey returns the error for a key that can't be stored, or nil.
func (l Limits) CheckKey(key []byte) error {
	switch {
	case len(key) == 0:
		return fmt.Errorf("%w: empty key", ErrInvalid)
	case key[0] == 0xff:
		return fmt.Errorf("%w: key %.40q begins with 0xff, which is reserved", ErrInvalid, key)
	case l.Key > 0 && len(key) > l.Key:
		return &TooLargeError{"key", len(key), l.Key, "bytes"}
	}
	return nil
}

// CheckSet returns the error for a pair that can't be stored, or nil.
func (l Limits) CheckSet(key, value []byte) error {
	if err := l.CheckKey(key); err != nil {
		return err
	}
	if l.Value > 0 && len(value) > l.Value {
		return &TooLargeError{"value", len(value), l.Value, "bytes"}
	}
	return nil
}

// CheckTransaction returns the error for a transaction of so many bytes and
// operations, or nil.
func (l Limits) CheckTransaction(bytes, operations int) error {
	if l.Transaction > 0 && bytes > l.Transaction {
		return &TooLargeError{"transaction", bytes, l.Transaction, "bytes"}
	}
	if l.Operations > 0 && operations > l.Operations {
		return &TooLargeError{"transaction", operations, l.Operations, "operations"}
	}
	return nil
}
