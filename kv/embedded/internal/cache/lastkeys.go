package cache

import (
	"bytes"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/tidwall/btree"
)

// lastKeys has the last keys of ranges that are in no hot range, and ranges that have no keys. One
// takes about 200 bytes, so they are known of half a million queues or priorities. To look for one in
// the store takes 20 to 50 µs instead.
//
// A commit that writes in one changes it. The cache's lock guards it.
type lastKeys struct {
	byEnd *btree.BTreeG[*lastKey] // disjoint
	pivot lastKey                 // for searches, so that they allocate nothing
	bytes int
	most  int    // bytes
	hand  []byte // what ends behind it is looked at next, to be evicted
}

// lastKey is a part of the key space without keys, but for its begin, if that is one.
type lastKey struct {
	begin, end []byte
	isKey      bool   // begin is one
	used       bool   // since it was last looked at to be evicted
	changed    uint64 // the version before which it was different
}

// lastKeySize is how many bytes one takes beside its bounds.
const lastKeySize = 128

func (k *lastKey) size() int { return len(k.begin) + len(k.end) + lastKeySize }

func newLastKeys(most int) *lastKeys {
	before := func(a, b *lastKey) bool { return bytes.Compare(a.end, b.end) < 0 }
	return &lastKeys{byEnd: btree.NewBTreeGOptions(before, btree.Options{NoLocks: true}), most: most}
}

// endingBehind returns the first that ends behind key, or nil.
func (l *lastKeys) endingBehind(key []byte) (found *lastKey) {
	l.pivot.end = key
	l.byEnd.Ascend(&l.pivot, func(k *lastKey) bool {
		if bytes.Equal(k.end, key) {
			return true
		}
		found = k
		return false
	})
	return found
}

// holding returns the one that holds key, or nil.
func (l *lastKeys) holding(key []byte) *lastKey {
	if k := l.endingBehind(key); k != nil && bytes.Compare(k.begin, key) <= 0 {
		return k
	}
	return nil
}

// before returns the one that holds the keys just before key, or nil.
func (l *lastKeys) before(key []byte) (found *lastKey) {
	l.pivot.end = key
	l.byEnd.Ascend(&l.pivot, func(k *lastKey) bool {
		if bytes.Compare(k.begin, key) < 0 {
			found = k
		}
		return false
	})
	return found
}

// last returns the last key of a range at version, or nil, if it is known.
func (l *lastKeys) last(span kv.Range, version uint64) (key []byte, known bool) {
	k := l.before(span.End)
	if k == nil || k.changed > version || bytes.Equal(span.Begin, span.End) {
		return nil, false
	}
	c := bytes.Compare(k.begin, span.Begin)
	switch {
	case k.isKey && c >= 0:
		key = k.begin
	case c > 0:
		return nil, false
	case c < 0:
		l.cut(k, span.Begin)
	}
	k.used = true
	return key, true
}

// cut makes two of one: so what lies before at stays known when a key comes behind it.
func (l *lastKeys) cut(k *lastKey, at []byte) {
	before := &lastKey{begin: k.begin, end: bytes.Clone(at), isKey: k.isKey, changed: k.changed}
	l.bytes -= k.size()
	k.begin, k.isKey = before.end, false
	l.bytes += k.size()
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
		l.put(&lastKey{begin: both[:n:n], end: both[n:], isKey: isKey, changed: version})
	}
}

func (l *lastKeys) put(k *lastKey) {
	l.byEnd.Set(k)
	l.bytes += k.size()
	l.evict()
}

func (l *lastKeys) drop(k *lastKey) {
	l.byEnd.Delete(k)
	l.bytes -= k.size()
}

// set takes in that a commit of that version has set a key.
func (l *lastKeys) set(key []byte, version uint64) {
	k := l.holding(key)
	if k == nil || k.isKey && bytes.Equal(k.begin, key) {
		return
	}
	l.bytes += len(key) - len(k.begin)
	k.begin, k.isKey, k.changed = bytes.Clone(key), true, version
	l.evict()
}

// clear takes in that a key was cleared.
func (l *lastKeys) clear(key []byte) {
	if k := l.holding(key); k != nil && k.isKey && bytes.Equal(k.begin, key) {
		l.drop(k)
	}
}

// remove forgets each of which a part lies in r.
func (l *lastKeys) remove(r kv.Range) {
	for k := l.endingBehind(r.Begin); k != nil && bytes.Compare(k.begin, r.End) < 0; k = l.endingBehind(r.Begin) {
		l.drop(k)
	}
}

// yield forgets what is known of what is to be a hot range, but keeps what lies before it. What
// lies behind it, if that is a part of one, has no keys: yield returns where that ends, and the
// version before which it was different.
func (l *lastKeys) yield(r kv.Range) (end []byte, changed uint64) {
	end = r.End
	if k := l.holding(r.End); k != nil && bytes.Compare(k.begin, r.End) < 0 {
		end, changed = k.end, k.changed
	}
	if k := l.holding(r.Begin); k != nil && bytes.Compare(k.begin, r.Begin) < 0 {
		l.cut(k, r.Begin)
	}
	l.remove(r)
	return end, changed
}

// evict drops what is too much: the next one, in the order of keys, that was not used since the
// last time.
func (l *lastKeys) evict() {
	for l.bytes > l.most {
		k := l.endingBehind(l.hand)
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
