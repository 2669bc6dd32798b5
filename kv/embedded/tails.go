package embedded

import (
	"bytes"
	"hash/maphash"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/tidwall/btree"
)

// tails keeps in memory the last keys of ranges that are near no more, and in which ranges
// there are none: a push needs the last key of its priority, an enqueue that of its queue,
// and no value. One takes about 50 bytes, where near takes 500, so they are known of two
// million queues or priorities. To look for one in Pebble instead takes 20 to 50 µs: with
// tails, a push among 1,000,000 priorities takes 0.16 of the time with Memory, 0.13 with
// Interval and 0.7 with Always.
//
// It is what is left of stretches of near when those are forgotten, and is kept up to date
// as they are: a commit that writes in a tail changes it. No stretch has a part of a tail, so
// a commit looks here only for what is not near. Where commits come to a tail again and again,
// that is near again (see lately).
//
// near's lock guards it.
type tails struct {
	blocks *btree.BTreeG[*tailBlock] // by from
	pivot  tailBlock                 // for searches
	most   tailSizes
	size   int         // of all blocks, in bytes
	hand   []byte      // from which block on one is to be forgotten next
	recent []tailPlace // of those that were read: mostly, where the next commit writes
	found  *tailBlock  // by the last search: the next one often is for a key there
	read   byte        // what was read of blocks: nobody needs it, but so it is read
	buffer [2 * longestTail]byte
	lately lately
}

type tailSizes struct {
	bytes int // of all blocks
	block int // of what a block has
}

// A million priorities of one item take about 50 MB.
var usualTails = tailSizes{bytes: 112 << 20, block: tailBlockSize}

func newTails() *tails {
	return &tails{most: usualTails, lately: lately{seed: maphash.MakeSeed()}, blocks: newTree[*tailBlock]()}
}

// tailPlace is where a tail was found. It is there still if its block was not edited: so who
// writes there need not search again, and with Interval, a push among 1,000,000 priorities takes
// 0.97 of the time.
type tailPlace struct {
	*tailBlock
	at    int
	edits uint32
}

// held is a tail that holds a key, and where it is, or has no block.
type held struct {
	tail
	b  *tailBlock
	at int
}

// find returns where the first tail is that ends behind key, or with before, at it or behind;
// or nil.
func (t *tails) find(key []byte, before bool) (b *tailBlock, at int) {
	if t.blocks.Len() == 0 {
		return nil, 0
	}
	if b, at = t.place(key, before); b == nil || at == len(b.encoded) {
		return t.behind(key, b), 0
	}
	return b, at
}

// place returns where in its block a tail belongs that ends behind key, or with before, at
// it; or nil.
func (t *tails) place(key []byte, before bool) (b *tailBlock, at int) {
	if b = t.found; b != nil && bytes.Compare(b.from, key) < 0 {
		if at = b.search(key, before); at < len(b.encoded) {
			return b, at
		}
	}
	if b = t.block(key, before); b == nil {
		return nil, 0
	}
	t.found = b
	t.read |= b.read()
	return b, b.search(key, before)
}

// behind returns the first block from key on that is not b, or nil.
func (t *tails) behind(key []byte, b *tailBlock) (next *tailBlock) {
	t.pivot.from = key
	t.blocks.Ascend(&t.pivot, func(found *tailBlock) bool {
		next = found
		return found == b
	})
	if next == b {
		return nil
	}
	return next
}

// block returns the one for tails that end behind key, or with before, at it.
func (t *tails) block(key []byte, before bool) *tailBlock {
	t.pivot.from = key
	return last(t.blocks, &t.pivot, before)
}

// holding returns the tail that holds key, until the buffer is used again.
func (t *tails) holding(key []byte) held {
	if b, at := t.find(key, false); b != nil {
		return t.held(b, at, key)
	}
	return held{}
}

// held returns the tail at an index if key is not before it.
func (t *tails) held(b *tailBlock, at int, key []byte) held {
	if found := b.tail(at, t.buffer[:]); bytes.Compare(found.begin, key) <= 0 {
		return held{found, b, at}
	}
	return held{}
}

// last returns the last key of a range at version, or nil, if it is known. It is the
// caller's.
func (t *tails) last(span kv.Range, version uint64) (key []byte, known bool) {
	t.found = nil // which is hardly ever the one, and takes longer than the tree
	b, at := t.find(span.End, true)
	if b == nil || b.changed > version || bytes.Equal(span.Begin, span.End) {
		return nil, false
	}
	found := b.tail(at, t.buffer[:])
	switch {
	case bytes.Compare(found.begin, span.End) >= 0:
		return nil, false
	case found.key && bytes.Compare(found.begin, span.Begin) >= 0:
		t.use(b, at)
		return bytes.Clone(found.begin), true
	}
	c := bytes.Compare(found.begin, span.Begin)
	if c > 0 {
		return nil, false
	}
	t.use(b, at)
	// The tail is cut at span: so what lies before it stays known when a key comes into span.
	if c < 0 && (tail{begin: span.Begin, end: found.end}).fits() {
		t.replace(b, at, b.next(at), tail{span.Begin, found.end, false}, b.changed)
		t.put(tail{found.begin, span.Begin, found.key}, b.changed)
		t.forget()
	}
	return nil, true
}

// use notes that a tail was read.
func (t *tails) use(b *tailBlock, at int) {
	b.used = true
	if len(t.recent) == maxRecent {
		t.recent = t.recent[:0]
	}
	t.recent = append(t.recent, tailPlace{b, at, b.edits})
}

// recently returns the tail that holds key, if the changes of a commit come to it in order and
// it is in the block of one of those that were read, mostly in the place of the next one, which
// it takes from recent.
func (t *tails) recently(recent *[]tailPlace, key []byte) held {
	for ; len(*recent) > 0; *recent = (*recent)[1:] {
		p := (*recent)[0]
		if bytes.Compare(key, p.from) < 0 {
			break
		}
		if p.edits == p.tailBlock.edits {
			if found := t.held(p.tailBlock, p.at, key); found.b != nil && bytes.Compare(key, found.end) < 0 {
				return found
			}
		}
		if at := p.search(key, false); at < len(p.encoded) {
			return t.held(p.tailBlock, at, key)
		}
	}
	return held{}
}

// keep takes in what is known of the ends of ranges in a stretch that is forgotten.
func (t *tails) keep(s *stretch) {
	defer t.forget()
	if len(s.pairs) == 0 {
		if s.tail {
			t.put(tail{s.begin, s.end, false}, s.changed)
		}
		return
	}
	first, distinct := len(s.pairs)-1, s.distinct()
	if distinct {
		first = 0
	} else if !s.tail {
		return
	}
	// What lies before the only item of a queue is asked for by nobody, but before that of a
	// priority others may come.
	if p := s.pairs[0]; first == 0 && (distinct || !s.head) && !bytes.Equal(s.begin, p.key()) {
		t.put(tail{s.begin, p.key(), false}, s.changed)
	}
	for i, p := range s.pairs[first:] {
		end := s.end
		if first+i+1 < len(s.pairs) {
			end = s.pairs[first+i+1].key()
		}
		t.put(tail{p.key(), end, true}, s.changed)
	}
}

// put adds a tail. Nothing of it may be known.
func (t *tails) put(known tail, version uint64) {
	if !known.fits() {
		return
	}
	b, at := t.place(known.end, true)
	if b == nil {
		b = t.add(nil)
	}
	t.replace(b, at, at, known, version)
}

func (t *tails) add(from []byte) *tailBlock {
	b := newTailBlock(from)
	t.blocks.Set(b)
	t.size += b.size()
	return b
}

func (t *tails) drop(b *tailBlock) {
	t.blocks.Delete(b)
	t.size -= b.size()
	b.encoded = nil // also for those who remember it
	b.edits++
}

// replace puts a tail in the place of what lies between two indexes, which is one or none.
func (t *tails) replace(b *tailBlock, at, to int, by tail, version uint64) {
	var buffer [2 * (2 + longestTail)]byte
	b.encoded = slices.Replace(b.encoded, at, to, b.append(buffer[:0], by)...)
	b.edits++
	b.changed = max(b.changed, version)
	if room := len(b.memory) - len(b.from); len(b.encoded) > min(t.most.block, room-tailSlack) {
		t.split(b, at)
	}
}

// split makes a block two after one was put at an index: there, if that is its last, as when
// ranges come in order, or in the middle.
func (t *tails) split(b *tailBlock, grown int) {
	where := len(b.encoded) / 2
	if b.next(grown) == len(b.encoded) {
		where = grown
	}
	before, at := 0, b.next(0)
	for at < where {
		before, at = at, b.next(at)
	}
	if at == len(b.encoded) {
		return
	}
	var buffer [2 * longestTail]byte
	second := t.add(b.tail(before, buffer[:]).end)
	second.changed = b.changed
	for i := at; i < len(b.encoded); i = b.next(i) {
		second.encoded = second.append(second.encoded, b.tail(i, buffer[:]))
	}
	memory := b.memory[len(b.from):len(b.from)]
	b.encoded = append(memory, b.encoded[:at]...) // where it was, unless that was too small
}

// set takes in that a commit of that version has set a key. in is the tail that holds it, if
// that is known already. If another commit has set a key in the same tail lately, the tail is
// dropped, and set returns what it was without its own key: that should be near.
func (t *tails) set(key []byte, in held, version uint64) (empty kv.Range) {
	if in.b == nil {
		in = t.holding(key)
	}
	b, at := in.b, in.at
	switch {
	case b == nil || in.key && bytes.Equal(in.begin, key):
	case t.lately.again(in.end, version):
		empty = clone(kv.Range{Begin: in.begin, End: in.end})
		if in.key {
			empty.Begin = append(empty.Begin, 0)
		}
		t.cut(b, at, b.next(at))
	case !(tail{begin: key, end: in.end}).fits():
		t.cut(b, at, b.next(at))
	default:
		t.replace(b, at, b.next(at), tail{key, in.end, true}, version)
		t.forget()
	}
	return empty
}

// lately has some of the tails in which a commit has set a key, each in the place that a hash
// gives it. A queue that others have pushed out is near again with the second item: an enqueue
// takes 0.7 of the time of one that finds its place here. With 64 places, of 1,000 priorities
// too many come and go, and 16 callers fill a priority queue 0.9 times as fast.
type lately struct {
	seed maphash.Seed
	last [8]struct{ hash, version uint64 }
}

// again enters a tail by its end, and tells whether it was there, from another commit.
func (l *lately) again(end []byte, version uint64) bool {
	hash := maphash.Bytes(l.seed, end)
	last := &l.last[hash%uint64(len(l.last))]
	before := *last
	last.hash, last.version = hash, version
	return before.hash == hash && before.version != version
}

// clear takes in that a key was cleared.
func (t *tails) clear(key []byte) {
	if in := t.holding(key); in.b != nil && in.key && bytes.Equal(in.begin, key) {
		t.cut(in.b, in.at, in.b.next(in.at))
	}
}

// remove forgets each tail of which a part lies in r.
func (t *tails) remove(r kv.Range) {
	for {
		b, at := t.find(r.Begin, false)
		if b == nil {
			return
		}
		to := at
		for to < len(b.encoded) && bytes.Compare(b.tail(to, t.buffer[:]).begin, r.End) < 0 {
			to = b.next(to)
		}
		all := to == len(b.encoded)
		if t.cut(b, at, to); !all || at == to {
			return
		}
	}
}

// yield forgets what is known of a range that is to be near, but keeps what lies before it. What
// lies behind it, if that is a part of a tail, has no keys: yield returns where that ends, and the
// version before which it was different.
func (t *tails) yield(r kv.Range) (end []byte, changed uint64) {
	end = r.End
	if last := t.holding(r.End); last.b != nil && bytes.Compare(last.begin, r.End) < 0 {
		end, changed = bytes.Clone(last.end), last.b.changed
	}
	first := t.holding(r.Begin)
	if first.b == nil || bytes.Equal(first.begin, r.Begin) {
		t.remove(r)
		return end, changed
	}
	before, version := tail{bytes.Clone(first.begin), r.Begin, first.key}, first.b.changed
	t.remove(r)
	t.put(before, version)
	t.forget()
	return end, changed
}

// cut forgets the tails between two indexes.
func (t *tails) cut(b *tailBlock, at, to int) {
	b.edits++
	if b.encoded = slices.Delete(b.encoded, at, to); len(b.encoded) == 0 {
		t.drop(b)
	}
}

// forget drops blocks until the rest is not too large: the next one, in the order of keys, of
// which none was used since the last time.
func (t *tails) forget() {
	for t.size > t.most.bytes && t.blocks.Len() > 1 {
		t.pivot.from = t.hand
		t.hand = nil
		t.blocks.Ascend(&t.pivot, func(b *tailBlock) bool {
			if t.size <= t.most.bytes {
				t.hand = b.from
				return false
			}
			if b.used {
				b.used = false
				return true
			}
			t.drop(b)
			t.hand = b.from
			return false
		})
	}
}
