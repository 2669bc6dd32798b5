package foundationdb

import (
	"bytes"

	"github.com/conq-go/conq/kv"
)

// reserved is the first key behind those of users.
var reserved = []byte{0xff}

// key returns a key of the store as it is in the cluster, in a new slice.
func (db *DB) key(key []byte) []byte {
	return append(append(make([]byte, 0, len(db.prefix)+len(key)), db.prefix...), key...)
}

// bounds returns the bounds of r in the cluster, in new slices: from the first key that there can be,
// as an empty one is not a key, up to the first reserved one.
func (db *DB) bounds(r kv.Range) (begin, end []byte) {
	return db.key(within(r.Begin)), db.key(within(r.End))
}

func within(key []byte) []byte {
	switch {
	case len(key) == 0:
		return []byte{0}
	case bytes.Compare(key, reserved) > 0:
		return reserved
	}
	return key
}

func empty(r kv.Range) bool { return bytes.Compare(r.Begin, r.End) >= 0 }

// less returns the range without the pairs up to key, of which it returns what is
// left to read.
func less(r kv.Range, key []byte, reverse bool) kv.Range {
	if reverse {
		return kv.Range{Begin: r.Begin, End: bytes.Clone(key)}
	}
	return kv.Range{Begin: kv.After(key), End: r.End}
}
