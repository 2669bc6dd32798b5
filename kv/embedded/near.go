package embedded

import (
	"bytes"
	"slices"
	"sync"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
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
// not used. So a queue that is short enough is near as a whole, and one that is filled
// does not push out the ends of others. Against keeping the ends alone, and with
// Interval, 16 callers do 1.1 times as many drains of a queue and 1.15 times as many
// transfers, and 1.2 times as many transfers through a priority queue, of which any
// priority may be the next: 64 do 1.3 times as many.
//
// Its lock comes after the store's.
type near struct {
	mu        sync.Mutex
	stretches *btree.BTreeG[*stretch] // by begin; disjoint
	begins    map[string]*stretch     // the same, as most reads begin where one does,
	ends      map[string]*stretch     // and most backward ones where one ends
	pivot     stretch                 // for searches, so that they allocate nothing
	middles   []*stretch              // to be forgotten first, in this order, unless used
	queue     []*stretch              // to be forgotten then, likewise
	latest    *stretch                // that was read: mostly, where the next commit writes
	rooms     [][]pair                // memory of stretches that were forgotten, for others
	size      int
	most      nearSizes
	due       []*stretch // of which deadSpace is to be told, during a commit
}

// nearSizes bound what is near. They are the same in all stores but those of tests. With
// 64 pairs fetched at once, and 128 in a stretch, a pop in a long queue took 1.04 to 1.08
// times as long.
type nearSizes struct {
	bytes int // of all stretches; less than a stretch takes turns all of it off
	pairs int // in a stretch
	first int // pairs fetched at first, if they are small: a search costs as much as dozens
	ahead int // pairs fetched at once, in the end
	value int // bytes of a value that is not large
	dead  int // pairs taken from an end, after which the space that they leave is known dead
}

var usualSizes = nearSizes{bytes: 8 << 20, pairs: 512, first: 8, ahead: 256, value: 16 << 10, dead: 64}

const (
	stretchSize = 256       // bytes that a stretch takes beside its pairs
	maxFetch    = 128 << 10 // bytes fetched at once
	smallFetch  = 4 << 10   // and at first
)

// stretch is a part of the key space of which all pairs are known.
type stretch struct {
	begin, end []byte
	pairs      []pair
	memory     []pair // which pairs is the rest of, as it loses its first
	changed    uint64 // the version before which it was different
	size       int    // of it all, in bytes
	ahead      int    // how many pairs the next read beyond it should fetch
	steady     bool   // that many were wanted before

	// Whether reads begin at begin, or backward ones at end: those sides are worth
	// keeping.
	head, tail bool
	inner      []byte // not a bound, but where a backward read began
	taken      [2]int // pairs from either end since deadSpace was told of it
	fetching   bool   // what lies beyond it is to be fetched
	used       bool   // since it was last looked at to be forgotten
	gone       bool
}

func newNear() *near {
	n := &near{most: usualSizes, begins: make(map[string]*stretch), ends: make(map[string]*stretch)}
	n.stretches = btree.NewBTreeGOptions(
		func(a, b *stretch) bool { return bytes.Compare(a.begin, b.begin) < 0 },
		btree.Options{NoLocks: true})
	return n
}

func (s *stretch) holds(key []byte) bool {
	return bytes.Compare(s.begin, key) <= 0 && bytes.Compare(key, s.end) < 0
}

// search returns the index of the first pair at or behind key, and whether it is
// key's.
func (s *stretch) search(key []byte) (int, bool) { return search(s.pairs, key) }

// search looks at the ends first: that is where queues change.
func search(pairs []pair, key []byte) (int, bool) {
	n := len(pairs)
	switch {
	case n == 0:
		return 0, false
	case bytes.Compare(pairs[n-1].key(), key) < 0:
		return n, false
	}
	if c := bytes.Compare(pairs[0].key(), key); c >= 0 {
		return 0, c == 0
	}
	return slices.BinarySearchFunc(pairs, key, func(p pair, key []byte) int { return bytes.Compare(p.key(), key) })
}

// holding returns the stretch that holds key, or with before set, the one that
// holds the keys just before it; or nil.
func (n *near) holding(key []byte, before bool) (found *stretch) {
	n.pivot.begin = key
	n.stretches.Descend(&n.pivot, func(s *stretch) bool {
		if before && bytes.Equal(s.begin, key) {
			return true
		}
		found = s
		return false
	})
	if found == nil {
		return nil
	}
	if c := bytes.Compare(found.end, key); c < 0 || c == 0 && !before {
		return nil
	}
	return found
}

// at returns the stretch that begins with key, or nil.
func (n *near) at(key []byte) *stretch { return n.begins[string(key)] }

// next returns the stretch with what r comes to next, or nil. To look among the begins
// first makes a peek at one of 1,000 queues 0.9 times as long.
func (n *near) next(r *reading) *stretch {
	if r.reverse {
		return n.before(r.pos)
	}
	if s := n.at(r.pos); s != nil {
		return s
	}
	return n.holding(r.pos, false)
}

// before returns the stretch that holds the keys just before key, or nil. To look among the
// ends first has 16 callers fill a priority queue 1.05 times as fast.
func (n *near) before(key []byte) *stretch {
	if s := n.latest; s != nil && bytes.Equal(s.end, key) {
		return s
	}
	if s := n.ends[string(key)]; s != nil {
		return s
	}
	return n.holding(key, true)
}

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

// reading is how far a cursor has come.
type reading struct {
	pos     []byte // what is left begins here, or with reverse ends here
	end     []byte // the other side of what is left
	reverse bool
	ahead   int // how many pairs should be fetched from pos on, if more than 0

	low []byte // where to fetch ahead from, as few pairs are left before that
}

// done tells whether nothing is left.
func (r *reading) done() bool {
	if r.reverse {
		return bytes.Compare(r.pos, r.end) <= 0
	}
	return bytes.Compare(r.pos, r.end) >= 0
}

// upTo returns what lies between here and a key that comes later.
func (r *reading) upTo(key []byte) kv.Range {
	if r.reverse {
		return kv.Range{Begin: key, End: r.pos}
	}
	return kv.Range{Begin: r.pos, End: key}
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
		s.used, r.ahead, n.latest = true, 0, s
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

func (s *stretch) forward(r *reading, pairs []pair, limit int) []pair {
	i, _ := s.search(r.pos)
	for ; i < len(s.pairs) && len(pairs) < limit; i++ {
		if bytes.Compare(s.pairs[i].key(), r.end) >= 0 {
			r.pos = r.end
			return pairs
		}
		pairs = append(pairs, s.pairs[i])
		r.pos = s.pairs[i].after
	}
	if i == len(s.pairs) {
		r.pos, r.ahead = s.end, s.ahead
	} else {
		s.runsLow(r, len(s.pairs)-i, s.end)
	}
	return pairs
}

func (s *stretch) backward(r *reading, pairs []pair, limit int) []pair {
	i, _ := s.search(r.pos)
	for ; i > 0 && len(pairs) < limit; i-- {
		if bytes.Compare(s.pairs[i-1].key(), r.end) < 0 {
			r.pos = r.end
			return pairs
		}
		pairs = append(pairs, s.pairs[i-1])
		r.pos = s.pairs[i-1].key()
	}
	if i == 0 {
		r.pos, r.ahead = s.begin, s.ahead
	} else {
		s.runsLow(r, i, s.begin)
	}
	return pairs
}

// runsLow notes in r that what lies beyond s should be fetched, if readers take so
// much that they will soon come there.
func (s *stretch) runsLow(r *reading, left int, beyond []byte) {
	if !s.fetching && s.steady && left <= s.ahead*3/4 && !(&reading{pos: beyond, end: r.end, reverse: r.reverse}).done() {
		s.fetching, r.low = true, beyond
	}
}

// absorb makes s one with the neighbour that a reader comes to next, if there is
// one: of a queue's head, where pairs are taken, only the empty stretches would be
// left, and each reader would have to pass them all.
func (n *near) absorb(s *stretch, reverse bool) {
	a, b := s, n.at(s.end)
	if reverse {
		a, b = n.before(s.begin), s
	}
	if a == nil || b == nil || !n.one(len(a.pairs), len(b.pairs)) {
		return
	}
	n.drop(b)
	n.unlist(a)
	n.size += b.size - stretchSize
	a.size += b.size - stretchSize
	a.end, a.tail = b.end, b.tail
	n.list(a)
	if len(a.pairs) > 0 {
		a.pairs = append(a.pairs, b.pairs...)
	} else {
		a.pairs, a.memory = b.pairs, b.memory
	}
	a.changed, a.ahead = max(a.changed, b.changed), max(a.ahead, b.ahead)
}

// one tells whether two stretches with so many pairs should be one. Mostly that leaves
// room, as it would soon be two again.
func (n *near) one(a, b int) bool {
	return a+b <= n.most.pairs/2 || a+b <= n.most.pairs && min(a, b) <= n.most.pairs/16
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
	s := n.before(span.End)
	if s == nil || s.changed > version {
		return nil, false
	}
	s.used, n.latest = true, s
	if s.inner == nil && !bytes.Equal(s.end, span.End) {
		s.inner = bytes.Clone(span.End)
	}
	if i, _ := s.search(span.End); i > 0 && bytes.Compare(s.pairs[i-1].key(), span.Begin) >= 0 {
		return s.pairs[i-1].key(), true
	}
	return nil, bytes.Compare(s.begin, span.Begin) <= 0
}

// commit takes in what a commit did, and tells deadSpace what it need not find out:
// where a queue is near, one gap for dozens of items instead of one for each, which
// made transfers through a short queue 1.7 times as many with Interval.
//
// The writes go to the backlog, if it is not nil: those that are not known to cancel each
// other out, or to change nothing.
func (n *near) commit(e *effects, version uint64, later *backlog) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if later != nil {
		later.mu.Lock()
		defer later.mu.Unlock()
	}
	for _, r := range e.cleared {
		n.clear(r, version)
		if later != nil {
			later.add(removeRange, r.Begin, r.End)
		}
	}
	s := n.latest
	for _, c := range e.changes {
		if s == nil || !s.holds(c.Key) {
			if s = n.holding(c.Key, false); s == nil {
				e.notNear(c, later)
				continue
			}
		}
		s.changed = version
		switch c.Kind {
		case overlay.Clear:
			n.remove(s, c.Key, later)
		default:
			i := n.set(s, n.written(c), c.Value, later)
			if len(s.pairs) > n.most.pairs {
				n.split(s, i)
				s = nil
			}
		}
	}
	for _, s := range n.due {
		if !s.gone { // else it was split, and its parts begin to count anew
			n.tell(s, e)
		}
	}
	clear(n.due)
	n.due = n.due[:0]
	n.forget()
}

// notNear takes in a change where nothing is near.
func (e *effects) notNear(c *overlay.Change, later *backlog) {
	kind := set
	if c.Kind == overlay.Clear {
		kind = remove
		e.far = append(e.far, c.Key)
	}
	if later != nil {
		later.add(kind, c.Key, c.Value)
	}
}

// tell adds to the effects of a commit which gaps there are at the ends of s.
func (n *near) tell(s *stretch, e *effects) {
	first, last := s.end, s.begin
	if len(s.pairs) > 0 {
		first, last = s.pairs[0].key(), s.pairs[len(s.pairs)-1].after
	}
	if s.taken[0] >= n.most.dead {
		e.gaps = append(e.gaps, kv.Range{Begin: s.begin, End: first})
		s.taken[0] = 0
	}
	if s.taken[1] >= n.most.dead {
		e.gaps = append(e.gaps, kv.Range{Begin: last, End: s.end})
		s.taken[1] = 0
	}
}

// set puts a pair in s and returns where.
func (n *near) set(s *stretch, p pair, value []byte, later *backlog) int {
	i, found := s.search(p.key())
	if later != nil {
		number := later.add(set, p.key(), value)
		if !found || later.cancel(s.pairs[i].number) {
			p.number = number
		}
	}
	if found {
		n.grow(s, p.size()-s.pairs[i].size())
		s.pairs[i] = p
		return i
	}
	n.grow(s, p.size())
	s.pairs = slices.Insert(s.pairs, i, p)
	return i
}

func (n *near) remove(s *stretch, key []byte, later *backlog) {
	i, found := s.search(key)
	if !found {
		return
	}
	if later != nil && !later.cancel(s.pairs[i].number) {
		later.add(remove, key, nil)
	}
	n.grow(s, -s.pairs[i].size())
	switch i {
	case 0:
		s.pairs[0] = pair{} // which memory still has
		s.pairs = s.pairs[1:]
		n.took(s, 0)
	case len(s.pairs) - 1:
		s.pairs[i] = pair{}
		s.pairs = s.pairs[:i]
		n.took(s, 1)
	default:
		s.pairs = slices.Delete(s.pairs, i, i+1)
	}
}

// took counts a pair that was taken from the beginning of s, or from its end.
func (n *near) took(s *stretch, end int) {
	if s.taken[end]++; s.taken[end] == n.most.dead {
		n.due = append(n.due, s)
	}
}

func (n *near) grow(s *stretch, bytes int) {
	s.size += bytes
	n.size += bytes
}

// clear empties r in all stretches.
func (n *near) clear(r kv.Range, version uint64) {
	first := n.holding(r.Begin, false)
	if first == nil {
		first = &stretch{begin: r.Begin}
	}
	n.stretches.Ascend(first, func(s *stretch) bool {
		if bytes.Compare(s.begin, r.End) >= 0 {
			return false
		}
		s.changed = version
		from, _ := s.search(r.Begin)
		to, _ := s.search(r.End)
		for _, p := range s.pairs[from:max(from, to)] {
			n.grow(s, -p.size())
		}
		s.pairs = slices.Delete(s.pairs, from, max(from, to))
		return true
	})
}

// split makes s two, after a pair was set at an index: where backward reads begin, if that
// is known; or near the end, if it grows there, so that of a queue which is filled little is
// copied, and what lies before its end is full; or in the middle. With Interval, 16 callers
// fill a queue 1.04 times as fast as with halves in new memory, and a priority queue, which
// at first is near as a whole, 1.4 times as fast as if its priorities were cut anywhere.
func (n *near) split(s *stretch, grown int) {
	if s.inner != nil {
		first, second := n.cutInner(s)
		switch grown -= len(first.pairs); {
		case len(first.pairs) > n.most.pairs:
			s, grown = first, grown+len(first.pairs)
		case len(second.pairs) > n.most.pairs:
			s = second
		default:
			return
		}
	}
	if last := len(s.pairs) - 1; grown == last {
		n.cutLast(s, min(n.most.first, last/2))
	} else {
		n.cutLast(s, len(s.pairs)/2)
	}
}

// cutInner makes s two where a backward read began, so that the first has a tail.
func (n *near) cutInner(s *stretch) (first, second *stretch) {
	i, _ := s.search(s.inner)
	return n.cut(s, s.inner, i, true)
}

// cutLast makes s two, of which the second has so many pairs.
func (n *near) cutLast(s *stretch, pairs int) (first, second *stretch) {
	i := len(s.pairs) - pairs
	return n.cut(s, bytes.Clone(s.pairs[i].key()), i, false)
}

// cut makes s two, at a key that is that of the pair at an index or lies before it. The
// first may have a tail.
func (n *near) cut(s *stretch, at []byte, i int, tail bool) (first, second *stretch) {
	n.drop(s)
	second = &stretch{begin: at, end: s.end, pairs: append(n.room(), s.pairs[i:]...), tail: s.tail}
	clear(s.pairs[i:])
	first = &stretch{begin: s.begin, end: at, pairs: s.pairs[:i], head: s.head, tail: tail}
	for _, part := range []*stretch{first, second} {
		part.changed, part.ahead, part.steady, part.used = s.changed, s.ahead, s.steady, s.used
		part.size = stretchSize
		for _, p := range part.pairs {
			part.size += p.size()
		}
		n.add(part)
	}
	return first, second
}

// room returns memory for a stretch that will grow, which another has had, if there is
// some.
func (n *near) room() []pair {
	if last := len(n.rooms) - 1; last >= 0 {
		room := n.rooms[last]
		n.rooms = n.rooms[:last]
		return room
	}
	return make([]pair, 0, n.most.pairs+1)
}
