package cache

import (
	"bytes"
	"slices"

	"github.com/conq-go/conq/kv"
)

// lastKeys has the last keys of ranges that are in no hot range, and ranges that have no keys. One
// takes about 200 bytes, so they are known of half a million queues or priorities. To look for one in
// the store takes 20 to 50 µs instead.
//
// A commit that writes in one changes it. The cache's lock guards it.
type lastKeys struct {
	tree  *tree[*lastKey]
	bytes int
	most  int    // bytes
	hand  []byte // what ends behind it is looked at next, to be evicted
}

// lastKey is a part of the key space without keys, but for its begin, if that is one.
type lastKey struct {
	span
	isKey   bool   // begin is one
	used    bool   // since it was last looked at to be evicted
	changed uint64 // the version before which it was different
}

// lastKeySize is how many bytes one takes beside its bounds.
const lastKeySize = 128

func (k *lastKey) size() int { return len(k.begin) + len(k.end) + lastKeySize }

func newLastKeys(most int) *lastKeys {
	return &lastKeys{tree: newTree(new(lastKey)), most: most}
}

// last returns the last key of a range at version, or nil, if it is known.
func (l *lastKeys) last(r kv.Range, version uint64) (key []byte, known bool) {
	k := l.tree.holding(r.End, true)
	if k == nil || k.changed > version || bytes.Equal(r.Begin, r.End) {
		return nil, false
	}
	c := bytes.Compare(k.begin, r.Begin)
	switch {
	case k.isKey && c >= 0:
		key = k.begin
	case c > 0:
		return nil, false
	case c < 0:
		l.cut(k, r.Begin)
	}
	k.used = true
	return key, true
}

// cut makes two of one: so what lies before at stays known when a key comes behind it.
func (l *lastKeys) cut(k *lastKey, at []byte) {
	before := &lastKey{span: span{k.begin, bytes.Clone(at)}, isKey: k.isKey, changed: k.changed}
	l.drop(k)
	k.begin, k.isKey = before.end, false
	l.put(k)
	l.put(before)
}

// keep takes in the last keys of a hot range that is evicted.
func (l *lastKeys) keep(h *hotRange) {
	many, first := h.manyLast(), len(h.pairs)-1
	switch {
	case first < 0:
		if h.tail {
			l.add(h.begin, h.end, false, h.changed)
		}
		return
	case many:
		first = 0
	case !h.tail:
		return
	}
	// What lies before the only item of a queue is asked for by nobody, but before that of a
	// priority others may come.
	if first == 0 && (many || !h.head) {
		l.add(h.begin, h.pairs[0].Key(), false, h.changed)
	}
	for i, p := range h.pairs[first:] {
		end := h.end
		if first+i+1 < len(h.pairs) {
			end = h.pairs[first+i+1].Key()
		}
		l.add(p.Key(), end, true, h.changed)
	}
}

// add adds what is known of a range, of which nothing may be known, unless it is empty.
func (l *lastKeys) add(begin, end []byte, isKey bool, version uint64) {
	if bytes.Compare(begin, end) < 0 {
		n, both := len(begin), slices.Concat(begin, end)
		l.put(&lastKey{span: span{both[:n:n], both[n:]}, isKey: isKey, changed: version})
	}
}

func (l *lastKeys) put(k *lastKey) {
	l.tree.Set(k)
	l.bytes += k.size()
	l.evict()
}

func (l *lastKeys) drop(k *lastKey) {
	l.tree.Delete(k)
	l.bytes -= k.size()
}

// set takes in that a commit of that version has set a key.
func (l *lastKeys) set(key []byte, version uint64) {
	k := l.tree.holding(key, false)
	if k == nil || k.isKey && bytes.Equal(k.begin, key) {
		return
	}
	l.drop(k)
	k.begin, k.isKey, k.changed = bytes.Clone(key), true, version
	l.put(k)
}

// clear takes in that a key was cleared.
func (l *lastKeys) clear(key []byte) {
	if k := l.tree.holding(key, false); k != nil && k.isKey && bytes.Equal(k.begin, key) {
		l.drop(k)
	}
}

// remove forgets each of which a part lies in r.
func (l *lastKeys) remove(r kv.Range) {
	for k := l.tree.endingBehind(r.Begin); k != nil && bytes.Compare(k.begin, r.End) < 0; k = l.tree.endingBehind(r.Begin) {
		l.drop(k)
	}
}

// yield forgets what is known of what is to be a hot range, but keeps what lies before it. What
// lies behind it, if that is a part of one, has no keys: yield returns where that ends, and the
// version before which it was different.
func (l *lastKeys) yield(r kv.Range) (end []byte, changed uint64) {
	end = r.End
	if k := l.tree.holding(r.End, false); k != nil && bytes.Compare(k.begin, r.End) < 0 {
		end, changed = k.end, k.changed
	}
	if k := l.tree.holding(r.Begin, false); k != nil && bytes.Compare(k.begin, r.Begin) < 0 {
		l.cut(k, r.Begin)
	}
	l.remove(r)
	return end, changed
}

// evict drops what is too much.
func (l *lastKeys) evict() {
	for l.bytes > l.most {
		l.rest(1)
	}
}

// rest looks at the next n, in the order of keys, and drops those that were not used since the last time.
func (l *lastKeys) rest(n int) {
	for range n {
		k := l.tree.endingBehind(l.hand)
		if k == nil {
			l.hand = nil // and begins anew
			continue
		}
		l.hand = k.end
		if k.used {
			k.used = false
		} else {
			l.drop(k)
		}
	}
}
