package embedded

import (
	"bytes"
	"sync"

	"github.com/conq-go/conq/kv"
	"github.com/tidwall/btree"
)

// near keeps in memory what lies where reads begin: the heads and tails of queues.
// So a dequeue or an enqueue need not search the LSM tree, and costs the same at
// any depth. It knows stretches of the key space, with all pairs in them, as of the
// latest version:
//
//   - a stretch is learned from a read, and only if nothing has been written in it
//     since the version of that read (see DB.learnNear);
//   - a commit that writes in a stretch changes it, under the store's lock, so before
//     any transaction can begin that is to see it;
//   - a stretch says at which version it last changed: an older reader can't use it,
//     and reads its snapshot.
//
// A stretch grows from what lies behind it as its pairs are taken: see ahead. One
// that gets too many becomes two. What is known is bounded in bytes: forgotten first is
// what lies between the ends of queues, the oldest before the others, and then what was
// not used. So a queue that is short enough
// is near as a whole, and one that is filled does not push out the ends of others. Against
// keeping the ends alone, and with Interval, 16 callers do 1.1 times as many drains of a
// queue and 1.15 times as many transfers, and 1.2 times as many transfers through a priority
// queue, of which any priority may be the next: 64 do 1.3 times as many.
//
// Its lock comes after the store's.
type near struct {
	mu        sync.Mutex
	stretches *btree.BTreeG[*stretch] // by begin; disjoint
	begins    map[string]*stretch     // the same by begin: most reads begin where one does,
	ends      map[string]*stretch     // and by end, as most backward ones where one ends
	pivot     stretch                 // for searches, so that they allocate nothing
	middles   []*stretch              // to be forgotten first, in this order, unless used
	queue     []*stretch              // to be forgotten then, likewise
	spares    []*stretch              // to be forgotten last, likewise: short heads
	rooms     [][]pair                // memory of stretches that were forgotten, for others
	size      int
	most      nearSizes
	due       []*stretch // of which deadSpace is to be told, during a commit
	lastKeys  *lastKeys  // what is left of those that were forgotten
}

// nearSizes bound what is near. They are the same in all stores but those of tests. With
// 64 pairs fetched at once, and 128 in a stretch, a pop in a long queue took 1.04 to 1.08
// times as long as with 256 and 512; with these, 16 callers drain a queue 1.02 to 1.07 times
// as fast as with those, and a lone one 1.05 to 1.1 times, with Interval.
type nearSizes struct {
	bytes int // of all stretches; less than a stretch takes turns all of it off
	pairs int // in a stretch
	first int // pairs fetched at first, if they are small: a search costs as much as dozens
	tail  int // pairs left of a tail
	ahead int // pairs fetched at once, in the end

	// Where the last key of a range is asked for in the middle of a stretch, the stretch is cut
	// if it has more pairs than inner, or if there is no such key, than between: a new item
	// comes there, and moves half of the stretch. So priorities with many items get stretches
	// of their own, and those with one stay together. With 32 and Interval, 16 callers
	// transfer 0.95 times as many items through a priority queue; with 128, they fill one of
	// 1,000 priorities 0.85 times as fast.
	inner, between int

	value int // bytes of a value that is not large
	dead  int // pairs taken from an end, after which the space that they leave is known dead
}

var usualSizes = nearSizes{bytes: 16 << 20, pairs: 1024, first: 16, tail: 8, ahead: 512, inner: 64, between: 256, value: 16 << 10, dead: 64}

const (
	stretchSize = 256       // bytes that a stretch takes beside its pairs
	maxFetch    = 128 << 10 // bytes fetched at once
	smallFetch  = 4 << 10   // and at first
)

func newNear() *near {
	return &near{most: usualSizes, stretches: newTree[*stretch](), begins: make(map[string]*stretch), ends: make(map[string]*stretch), lastKeys: newLastKeys()}
}

// holding returns the stretch that holds key, or with before set, the one that
// holds the keys just before it; or nil.
func (n *near) holding(key []byte, before bool) (found *stretch) {
	n.pivot.begin = key
	if found = last(n.stretches, &n.pivot, before); found == nil {
		return nil
	}
	if c := bytes.Compare(found.end, key); c < 0 || c == 0 && !before {
		return nil
	}
	return found
}

// at returns the stretch that begins with key, or nil.
func (n *near) at(key []byte) *stretch { return n.begins[string(key)] }

// next returns the stretch with what r comes to next, or nil.
func (n *near) next(r *reading) *stretch {
	if r.reverse {
		return n.before(r.pos)
	}
	if s := n.at(r.pos); s != nil {
		return s
	}
	return n.holding(r.pos, false)
}

// before returns the stretch that holds the keys just before key, or nil.
func (n *near) before(key []byte) *stretch {
	if s := n.ending(key); s != nil {
		return s
	}
	return n.holding(key, true)
}

// ending returns the stretch that ends with key, or nil.
func (n *near) ending(key []byte) *stretch { return n.ends[string(key)] }

// list makes a stretch one of those that can be found.
func (n *near) list(s *stretch) {
	n.stretches.Set(s)
	n.begins[string(s.begin)] = s
	n.ends[string(s.end)] = s
}

// unlist is for before its bounds change, too.
func (n *near) unlist(s *stretch) {
	n.stretches.Delete(s)
	delete(n.begins, string(s.begin))
	delete(n.ends, string(s.end))
}

// read appends to pairs what is known of the next ones at version, up to so many,
// and moves r past them. If it appends fewer, and r is not done, then what lies at
// r.pos is not known. If it is called there again, and that is still so, r.ahead stays.
func (n *near) read(r *reading, pairs []pair, limit int, version uint64) []pair {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.low = nil
	for len(pairs) < limit && !r.done() {
		s := n.next(r)
		if s == nil || s.changed > version {
			break
		}
		r.ahead = 0
		s.used = true
		if r.reverse {
			pairs = s.backward(r, pairs, limit)
		} else {
			pairs = s.forward(r, pairs, limit)
		}
		if len(pairs) < limit && !r.done() {
			n.absorb(s, r.reverse)
		}
	}
	return pairs
}

// absorb joins s with the neighbour that a reader comes to next, if there is one. Where
// pairs are taken, at a queue's head, stretches would otherwise become empty one after
// the other, and each reader would have to pass them all.
func (n *near) absorb(s *stretch, reverse bool) {
	a, b := s, n.at(s.end)
	if reverse {
		a, b = n.before(s.begin), s
	}
	if a == nil || b == nil || !n.one(a, b) {
		return
	}
	n.drop(b)
	n.unlist(a)
	n.grow(a, b.size-stretchSize)
	a.end, a.tail = b.end, b.tail
	n.list(a)
	a.pairs = append(a.pairs, b.pairs...)
	b.pairs = nil // it may be in a queue for a while
	a.between += b.between
	a.changed, a.ahead, a.steady = max(a.changed, b.changed), max(a.ahead, b.ahead), a.steady || b.steady
	if !reverse {
		a.fetching = b.fetching
	}
}

// one tells whether two stretches should be one: mostly if that leaves room, as it would soon
// be cut again without.
func (n *near) one(a, b *stretch) bool {
	both, less := len(a.pairs)+len(b.pairs), min(len(a.pairs), len(b.pairs))
	return both <= n.most.pairs/2 || both <= n.most.pairs && less <= n.most.pairs/16
}

// get returns the value of a key at version, or nil, if it is known.
func (n *near) get(key []byte, version uint64) (value []byte, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.holding(key, false)
	if s == nil || s.changed > version {
		return nil, false
	}
	s.used = true
	i, ok := s.search(key)
	switch {
	case !ok:
		return nil, true
	case s.pairs[i].large():
		return nil, false
	default:
		return append([]byte{}, s.pairs[i].value...), true
	}
}

// last returns the last key of a range at version, or nil, if it is known. The key must not
// be changed.
func (n *near) last(span kv.Range, version uint64) (key []byte, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lastOf(span, version)
}

// lastOfEach puts the last keys of ranges at version in their places, and returns the indices of
// those that are not known, or have no ordinary bounds.
func (n *near) lastOfEach(spans []kv.Range, keys [][]byte, version uint64) (missing []int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, span := range spans {
		known := false
		if bytes.Compare(span.Begin, span.End) < 0 {
			keys[i], known = n.lastOf(span, version)
		}
		if !known {
			missing = append(missing, i)
		}
	}
	return missing
}

// lastOf is last with the lock held.
func (n *near) lastOf(span kv.Range, version uint64) (key []byte, known bool) {
	s := n.ending(span.End)
	if s == nil {
		if key, known = n.lastKeys.last(span, version); known {
			return key, true
		}
		s = n.holding(span.End, true)
	}
	if s == nil || s.changed > version {
		return nil, false
	}
	i := len(s.pairs)
	if !bytes.Equal(s.end, span.End) {
		i, _ = s.search(span.End)
	}
	if i > 0 && bytes.Compare(s.pairs[i-1].key(), span.Begin) >= 0 {
		key, known = s.pairs[i-1].key(), true
	} else {
		known = bytes.Compare(s.begin, span.Begin) <= 0
	}
	n.asked(s, span.End, i, key == nil).used = true
	return key, known
}

// asked takes in that the last key of a range was asked for that ends at end, before the pair at
// an index of s; with none, there was no such key. It may cut s there (see nearSizes.inner), and
// returns the stretch that has what lies before end. s is not cut where few pairs move for a new
// item, or none, as the key is its last: its parts would be joined again at once where the smallest
// priorities, or the last item of one, are taken while such items are pushed and popped. With that,
// the slowest tenth of pushes took 1.27 times as long, or a push and a PopMax 8 times.
func (n *near) asked(s *stretch, end []byte, i int, none bool) *stretch {
	inside := !bytes.Equal(s.end, end)
	if inside {
		most := n.most.inner
		if none {
			most = n.most.between
		}
		if len(s.pairs) > most && (none || i < len(s.pairs)) && i > n.most.inner {
			s, _ = n.cut(s, end, i, true)
			n.forget()
		} else if s.inner == nil {
			s.inner = bytes.Clone(end)
		}
	}
	if none && (inside || len(s.pairs) > 0) {
		s.askedBetween()
	}
	return s
}
