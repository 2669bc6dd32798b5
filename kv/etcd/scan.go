package etcd

import (
	"bytes"
	"iter"
	"math"
	"slices"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// cursor reads the pairs of a range, page by page. It implements overlay.Cursor.
type cursor struct {
	t        *tx
	r        kv.Range
	reverse  bool
	want     int  // pairs that are looked for; 0 for all
	keysOnly bool // without values
	record   bool // what was read has to be remembered in any case

	page  []kv.KeyValue // in the cursor's direction
	rest  kv.Range      // what is left to be read behind the page
	pages int           // read so far
	scale scale         // of the last page
}

func newCursor(t *tx, r kv.Range, reverse bool) *cursor {
	return &cursor{t: t, r: r, rest: r, reverse: reverse}
}

// Seek implements overlay.Cursor.
func (c *cursor) Seek(key []byte) (kv.KeyValue, bool, error) {
	for len(c.page) > 0 && c.before(c.page[0].Key, key) {
		c.page = c.page[1:]
	}
	switch {
	case len(c.page) > 0:
	case c.reverse:
		c.rest.End = overlay.Least(c.rest.End, bytes.Clone(key))
	default:
		c.rest.Begin = overlay.Greatest(c.rest.Begin, bytes.Clone(key))
	}
	return c.Next()
}

// before tells whether a pair comes before those that a Seek of key looks for.
func (c *cursor) before(pair, key []byte) bool {
	if c.reverse {
		return bytes.Compare(pair, key) >= 0
	}
	return bytes.Compare(pair, key) < 0
}

// Next implements overlay.Cursor.
func (c *cursor) Next() (kv.KeyValue, bool, error) {
	for len(c.page) == 0 {
		if bytes.Compare(c.rest.Begin, c.rest.End) >= 0 {
			return kv.KeyValue{}, false, nil
		}
		if err := c.turn(); err != nil {
			return kv.KeyValue{}, false, err
		}
	}
	pair := c.page[0]
	c.page = c.page[1:]
	return pair, true, nil
}

// Sizes of pages. The first one is as large as the caller asks for. Without a
// limit pages begin small, as many loops are left early, and grow.
const (
	firstPage = 64
	largePage = 1024
	pageBytes = 1 << 20
)

// size returns how many pairs the next page should have.
func (c *cursor) size() int {
	n := min(firstPage<<min(c.pages, 4), largePage)
	if c.pages == 0 && c.want > 0 {
		n = min(c.want, largePage)
		if n == 1 && !c.reverse && !c.known() {
			n = 2 // which tells how far they are apart
		}
	}
	if !c.keysOnly {
		n = min(n, c.t.db.hints.fitting(pageBytes))
	}
	return max(n, 1)
}

// turn reads the next page. It may be empty if there is more to be read.
func (c *cursor) turn() error {
	first := c.pages == 0
	size := c.size()
	c.pages++
	if c.reverse {
		return c.turnBack(first, size)
	}
	return c.turnOn(first, size)
}

// request asks for up to limit pairs at the begin of r.
func (c *cursor) request(r kv.Range, limit int) *pb.RangeRequest {
	l := &c.t.db.layout
	return &pb.RangeRequest{Key: l.at(r.Begin), RangeEnd: l.at(r.End), Limit: int64(limit), KeysOnly: c.keysOnly}
}

// fetch reads up to limit pairs at the begin of r, and tells how many more are in it.
func (c *cursor) fetch(r kv.Range, limit int) (pairs []kv.KeyValue, more int64, err error) {
	if bytes.Compare(r.Begin, r.End) >= 0 {
		return nil, 0, nil
	}
	l := &c.t.db.layout
	response, err := c.t.fetch(c.request(r, limit))
	if err != nil {
		return nil, 0, err
	}
	mods := make([]int64, len(response.Kvs))
	for i, found := range response.Kvs {
		if found.Value == nil {
			found.Value = []byte{}
		}
		pairs = append(pairs, kv.KeyValue{Key: l.key(found.Key), Value: found.Value})
		mods[i] = found.ModRevision
	}
	if more = response.Count - int64(len(pairs)); more > 0 && len(pairs) > 0 {
		r.End = kv.After(bytes.Clone(pairs[len(pairs)-1].Key))
	}
	c.t.saw(r, pairs, mods, c.record)
	if !c.keysOnly {
		c.t.db.hints.saw(pairs)
	}
	return pairs, more, nil
}

// saw remembers what was read of r, all of it.
func (t *tx) saw(r kv.Range, pairs []kv.KeyValue, mods []int64, record bool) {
	if t.readOnly || !record && len(t.view.mods)+len(pairs) > maxView {
		return
	}
	for i, pair := range pairs {
		t.view.sawKey(pair.Key, mods[i])
	}
	t.view.ranges.Add(r)
}

// A guess is given up when it has been off so many times; each time it is made wider by so much.
const (
	guesses = 3
	wider   = 8
)

// guessed returns how far to look for about size pairs, from where the cursor is: as far as they
// should be, then further and further, and at last to the end of what is left.
func (c *cursor) guessed(first bool, size int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		edge, s := c.rest.Begin, c.scale
		if c.reverse {
			edge = c.rest.End
		}
		if h, ok := c.t.db.hints.ends.get(c.end()); first && ok {
			switch {
			case !c.reverse:
				edge, s = overlay.Greatest(edge, h.edge), h.scale
			case bytes.Compare(h.edge, edge) < 0:
				edge, s = h.edge, h.scale
				if size == 1 && !yield(overlay.Greatest(edge, c.rest.Begin)) {
					return
				}
			}
		}
		for n, guess := 2*size, 0; guess < guesses; n, guess = n*wider, guess+1 {
			if at := c.near(edge, s, n); at != nil && !yield(at) {
				return
			}
		}
		if c.reverse {
			yield(c.rest.Begin)
			return
		}
		for n := 0; n < guesses; n++ {
			if at := c.inside(s.beyond(edge, n)); at != nil && !yield(at) {
				return
			}
		}
		yield(c.rest.End)
	}
}

// near returns a key in what is left that is about n pairs away from edge, or nil.
func (c *cursor) near(edge []byte, s scale, n int) []byte {
	at := s.above(edge, max(32, n))
	if c.reverse {
		at = s.below(edge, n)
	}
	return c.inside(at)
}

// inside returns a key if it is in what is left, or else nil.
func (c *cursor) inside(at []byte) []byte {
	if at == nil || bytes.Compare(at, c.rest.Begin) <= 0 || bytes.Compare(at, c.rest.End) >= 0 {
		return nil
	}
	return at
}

// first returns what a new cursor asks for first.
func (c *cursor) first() (r kv.Range, limit int) {
	size := c.size()
	for at := range c.guessed(true, size) {
		if c.reverse {
			return kv.Range{Begin: at, End: c.r.End}, c.few(size)
		}
		return kv.Range{Begin: c.r.Begin, End: at}, size
	}
	return c.r, size
}

// known tells whether it is known how far apart the keys are where the cursor begins.
func (c *cursor) known() bool {
	h, ok := c.t.db.hints.ends.get(c.end())
	return ok && h.step > 0
}

// turnOn reads the next page forwards: from a narrow part of the range, if there
// is a hint how far to look.
func (c *cursor) turnOn(first bool, size int) error {
	for to := range c.guessed(first, size) {
		whole := bytes.Equal(to, c.rest.End)
		pairs, more, err := c.fetch(kv.Range{Begin: c.rest.Begin, End: to}, size)
		if err != nil {
			return err
		}
		c.rest.Begin = to
		if len(pairs) > 0 {
			c.page = pairs
			if more > 0 {
				c.rest.Begin = kv.After(bytes.Clone(pairs[len(pairs)-1].Key))
			}
			c.measure(pairs, more > 0 || !whole)
			if first && !whole {
				c.narrow(more, size)
			}
			return nil
		}
		size = max(size, 2) // it has looked less far than there is something: keys are further apart than was known
	}
	c.forget()
	return nil
}

// narrow is for a guess that was too wide: a member has counted what is left, more than was to be read.
func (c *cursor) narrow(more int64, size int) {
	if h, ok := c.t.db.hints.ends.get(c.end()); ok && more > int64(16*max(32, size)) {
		h.step = max(1, h.step/uint64(more/int64(max(32, 2*size))))
		c.t.db.hints.ends.set(c.end(), h)
	}
}

// end names the end of the range at which the cursor begins.
func (c *cursor) end() string {
	if c.reverse {
		return back(c.r)
	}
	return front(c.r)
}

// forget is for a range that is empty: to read all of it is best.
func (c *cursor) forget() { c.t.db.hints.ends.forget(c.end()) }

// measure learns from a page, in order of its keys, for the next page and, if it is
// the first, for the next reader, if it is worth while.
func (c *cursor) measure(pairs []kv.KeyValue, worthwhile bool) {
	low, high := pairs[0].Key, pairs[len(pairs)-1].Key
	if s := scaleOf(low, high, len(pairs)); s.step > 0 {
		c.scale = s
	}
	switch {
	case c.pages > 1:
	case !worthwhile:
		c.forget()
	default:
		h, _ := c.t.db.hints.ends.get(c.end())
		if h.edge = bytes.Clone(high); c.scale.step > 0 {
			h.scale = c.scale
		}
		c.t.db.hints.ends.set(c.end(), h)
	}
}

// turnBack reads the next page in reverse. A member can only return the first keys
// of a range, so this looks for a narrow range at the end that holds about size
// pairs, and reads all of it.
func (c *cursor) turnBack(first bool, size int) error {
	if first {
		c.t.tails = append(c.t.tails, c.r)
	}
	for from := range c.guessed(first, size) {
		if found, err := c.back(from, size); found || err != nil {
			return err
		}
	}
	c.forget()
	return nil
}

// few returns how many pairs to ask for where about size are hoped for.
func (c *cursor) few(size int) int {
	if c.keysOnly {
		return max(2*size, firstPage)
	}
	return max(2*size, min(firstPage, c.t.db.hints.fitting(pageBytes)))
}

// back makes what is at and behind from the page, or less if that is very much: then from
// was a bad guess, and to read on to the end could take minutes. It tells whether there
// was anything; if not, that part has been dealt with.
func (c *cursor) back(from []byte, size int) (found bool, err error) {
	return c.readBack(from, size, int64(farAway*c.few(size)))
}

// farAway is how many more requests to read on to the end are so many that it is better
// looked for.
const farAway = 16

// readBack is back, where far is how many pairs are too many to read on.
func (c *cursor) readBack(from []byte, size int, far int64) (found bool, err error) {
	most := max(4*size, firstPage)
	var all []kv.KeyValue
	for more, r := int64(1), (kv.Range{Begin: from, End: c.rest.End}); more > 0; {
		var pairs []kv.KeyValue
		if pairs, more, err = c.fetch(r, c.few(size)); err != nil {
			return false, err
		}
		if more > far {
			return c.halve(pairs, more, size)
		}
		if len(pairs) > 0 {
			r.Begin = kv.After(bytes.Clone(pairs[len(pairs)-1].Key))
		}
		if all = append(all, pairs...); len(all) > most { // the rest is read again if it is needed
			all = slices.Clone(all[len(all)-most:])
			from = all[0].Key
		}
	}
	return c.take(from, all), nil
}

// take makes all the page: what there is at and behind from.
func (c *cursor) take(from []byte, all []kv.KeyValue) bool {
	c.rest.End = bytes.Clone(from)
	if len(all) == 0 {
		return false
	}
	c.measure(all, true)
	c.page = all
	slices.Reverse(c.page)
	return true
}

// halve finds the end of what is left behind pairs, where there are so many more: by
// halving, until what is behind the middle are few pairs. The first guesses are where the
// end is if all keys are as far apart as those of pairs, or somewhat further. It counts,
// which costs a member less than to return anything.
func (c *cursor) halve(pairs []kv.KeyValue, more int64, size int) (found bool, err error) {
	low := bytes.Clone(pairs[len(pairs)-1].Key) // too much is behind it
	s := scaleOf(pairs[0].Key, low, len(pairs))
	for n, guess := int(more), 0; ; n, guess = n*wider, guess+1 {
		var between []byte
		if guess < guesses {
			between = s.above(low, n)
		}
		if between == nil || bytes.Compare(between, c.rest.End) >= 0 {
			between = middle(low, c.rest.End)
		}
		if between == nil {
			return c.readBack(low, size, math.MaxInt64)
		}
		count, err := c.count(kv.Range{Begin: between, End: c.rest.End})
		switch {
		case err != nil:
			return false, err
		case count == 0:
			c.rest.End = between
		case count <= int64(4*size+firstPage):
			return c.readBack(between, size, math.MaxInt64)
		default:
			low = between
		}
	}
}

// count returns how many pairs are in r.
func (c *cursor) count(r kv.Range) (int64, error) {
	l := &c.t.db.layout
	response, err := c.t.fetch(&pb.RangeRequest{Key: l.at(r.Begin), RangeEnd: l.at(r.End), CountOnly: true})
	if err != nil {
		return 0, err
	}
	if response.Count == 0 {
		c.t.saw(r, nil, nil, c.record)
	}
	return response.Count, nil
}
