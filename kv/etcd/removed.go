package etcd

import (
	"bytes"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// A key that has gone leaves no trace in its range. So a transaction that has read a range
// compares each of the keys that it saw there; or, where there is no room for so many, one
// marker: a commit that removes keys changes the marker of their family.

// families is how many markers there are.
const families = 256

// family returns what decides on the marker of a key: the key up to its first NUL,
// not counting the first byte. That is the first string in a key made of a tuple:
// the name of a queue. ok is false if there is none, and then it is the whole key, or
// the first bytes of it.
func family(key []byte) (head []byte, ok bool) {
	const longest = 256
	head = key[:min(len(key), longest)]
	if len(head) < 2 {
		return head, false
	}
	i := bytes.IndexByte(head[1:], 0)
	if i < 0 {
		return head, false
	}
	return head[:i+2], true
}

// familyOf returns the number of the marker of all keys in r, if they have the same.
func familyOf(r kv.Range) (number byte, ok bool) {
	head, ok := family(r.Begin)
	return numberOf(head), ok && bytes.HasPrefix(r.End, head)
}

func numberOf(head []byte) byte {
	h := fnv.New32a()
	h.Write(head)
	return byte(h.Sum32() % families)
}

// marker is the key of a marker.
func (l *layout) marker(number byte) []byte { return append([]byte(l.removed), number) }

// mostCompared is how many bytes of keys that were seen in ranges are compared: half of what
// the limits leave of a request.
const mostCompared = (maxRequest - maxTransaction) / 2

// compareSeen adds the comparisons of keys that were seen in the ranges of c, or of the markers
// of those families for whose keys there is no room.
func (c *commit) compareSeen() {
	groups := make(map[byte][]string) // by marker
	for i, keys := range c.seenIn() {
		switch number, ok := familyOf(c.covered[i]); {
		case !ok:
			c.compareKeys(keys)
		case len(keys) > 0:
			groups[number] = append(groups[number], keys...)
		}
	}
	room := maxOperations - c.count() - len(c.t.keys) - len(c.t.known) - len(groups) // with a marker for each
	left := mostCompared
	for _, number := range slices.Sorted(maps.Keys(groups)) {
		keys := groups[number]
		size := 0
		for _, key := range keys {
			size += len(key)
		}
		if len(keys) <= room+1 && size <= left {
			c.compareKeys(keys)
			room -= len(keys) - 1
			left -= size
		} else {
			c.marked = append(c.marked, number)
		}
	}
}

// seenIn returns the keys that were seen in each of the ranges of c.
func (c *commit) seenIn() [][]string {
	seen := make([][]string, len(c.covered))
	for key, mod := range c.t.view.mods {
		if mod == 0 {
			continue
		}
		if i, ok := c.covered.Index([]byte(key)); ok {
			seen[i] = append(seen[i], key)
		}
	}
	return seen
}

func (c *commit) compareKeys(keys []string) {
	c.seen += len(keys)
	for _, key := range keys {
		c.compares = append(c.compares, modIs(c.t.db.layout.at([]byte(key)), c.t.view.mods[key]))
	}
}

// compareMarkers returns the comparisons of markers, first that of range writes. If there
// is room for one only, it is for all markers that there are, as they lie side by side:
// then any key that is removed, and any range that is written to, is a conflict.
func (c *commit) compareMarkers() []*pb.Compare {
	l := &c.t.db.layout
	if c.coarse {
		return []*pb.Compare{notSince([]byte(l.removed), kv.After([]byte(l.last)), c.t.rev)}
	}
	compares := []*pb.Compare{notSince([]byte(l.last), nil, c.base)}
	for _, number := range c.marked {
		compares = append(compares, notSince(l.marker(number), nil, c.t.rev))
	}
	return compares
}

// markRemoved returns the operations that change the markers of removed keys.
func (l *layout) markRemoved(clears [][]byte) (ops []*pb.RequestOp) {
	var done [families]bool
	for _, key := range clears {
		head, _ := family(key)
		if number := numberOf(head); !done[number] {
			done[number] = true
			ops = append(ops, put(l.marker(number), nil))
		}
	}
	return ops
}
