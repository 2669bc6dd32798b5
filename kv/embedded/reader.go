package embedded

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// reader implements kv.Reader on a transaction.
type reader struct {
	t        *tx
	snapshot bool
}

func (r reader) Context() context.Context { return r.t.ctx }

func (r reader) Snapshot() kv.Reader { return reader{r.t, true} }

func (r reader) Get(key []byte) ([]byte, error) {
	t := r.t
	if err := t.db.limits.CheckKey(key); err != nil {
		return nil, err
	}
	change, known := t.writes.Lookup(key)
	if known && (change == nil || change.Kind != overlay.Add) {
		if err := t.alive(); err != nil || change == nil || change.Kind == overlay.Clear {
			return nil, err
		}
		return append([]byte{}, change.Value...), nil
	}
	value, err := t.get(key)
	if err != nil {
		return nil, err
	}
	if !r.snapshot {
		end := append(append(make([]byte, 0, len(key)+1), key...), 0)
		t.reads = append(t.reads, kv.Range{Begin: end[:len(key)], End: end})
	}
	if known {
		value = overlay.Sum(value, change.Delta)
	}
	return value, nil
}

func (r reader) Range(span kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	span, err := span.Bounds()
	if err == nil && o.Limit < 0 {
		err = fmt.Errorf("%w: negative limit %d", kv.ErrInvalid, o.Limit)
	}
	span = clone(span)
	return func(yield func(kv.KeyValue, error) bool) {
		if err != nil {
			yield(kv.KeyValue{}, err)
			return
		}
		covered := r.cover(span, o.Reverse)
		n := 0
		for pair, err := range r.t.writes.Merge(span, o.Reverse, func() (overlay.Cursor, error) {
			return r.t.cursor(span, o.Reverse)
		}) {
			if err == nil {
				covered.upTo(pair.Key)
				n++
			}
			if !yield(pair, err) || err != nil || n == o.Limit {
				return
			}
		}
		covered.all(span)
	}
}

func clone(r kv.Range) kv.Range {
	return kv.Range{Begin: bytes.Clone(r.Begin), End: bytes.Clone(r.End)}
}

// coverage is the conflict range of a range read, which grows with each key
// that is returned: a loop may be left at any time, or never.
type coverage struct {
	t       *tx // nil for a snapshot read
	i       int // in t.reads
	reverse bool
}

func (r reader) cover(span kv.Range, reverse bool) coverage {
	if r.snapshot {
		return coverage{}
	}
	from := span.Begin
	if reverse {
		from = span.End
	}
	r.t.reads = append(r.t.reads, kv.Range{Begin: from, End: from})
	return coverage{r.t, len(r.t.reads) - 1, reverse}
}

func (c coverage) upTo(key []byte) {
	if c.t == nil {
		return
	}
	// The bound that moves gets a buffer of its own at first, and keeps it.
	r := &c.t.reads[c.i]
	if c.reverse {
		r.Begin = append(movable(r.Begin, r.End), key...)
	} else {
		r.End = append(append(movable(r.End, r.Begin), key...), 0)
	}
}

// movable returns the buffer of the bound that moves, emptied, or a new one if
// that is still the one that stays.
func movable(moves, stays []byte) []byte {
	if len(moves) > 0 && len(stays) > 0 && &moves[0] == &stays[0] {
		return nil
	}
	return moves[:0:cap(moves)]
}

func (c coverage) all(span kv.Range) {
	if c.t != nil {
		c.t.reads[c.i] = span
	}
}

// stepsToCheck is how many pairs a loop returns between two looks at the
// context and the clock.
const stepsToCheck = 64

// cursor implements overlay.Cursor on a Pebble iterator.
type cursor struct {
	t       *txn
	iter    *pebble.Iterator
	span    kv.Range
	reverse bool
	steps   int
	skipped int      // tombstones that the iterator has stepped over
	gap     kv.Range // the next dead space ahead, if some is known
	at      []byte   // buffer of Next
}

func (t *txn) cursor(span kv.Range, reverse bool) (overlay.Cursor, error) {
	if err := t.reading(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	it, err := t.view.snap.NewIter(&pebble.IterOptions{LowerBound: span.Begin, UpperBound: span.End})
	if err != nil {
		return nil, err
	}
	c := &cursor{t: t, iter: it, span: span, reverse: reverse}
	if t.cursors == nil {
		t.cursors = make(map[*cursor]struct{})
	}
	t.cursors[c] = struct{}{}
	return c, nil
}

func (c *cursor) Close() error {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if _, open := c.t.cursors[c]; !open {
		return nil // the transaction has ended, and closed it
	}
	delete(c.t.cursors, c)
	return c.iter.Close()
}

// Next steps over dead space too: what is alive may lie scattered in it, as the
// heads of many priorities do.
func (c *cursor) Next() (kv.KeyValue, bool, error) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if err := c.check(); err != nil {
		return kv.KeyValue{}, false, err
	}
	c.at = append(c.at[:0], c.iter.Key()...)
	pair, ok, err := c.step()
	if err == nil && c.costly() {
		if c.reverse {
			c.t.db.learn(c.t, c.empty(c.at, pair.Key, ok))
		} else {
			c.t.db.learn(c.t, c.empty(kv.After(c.at), pair.Key, ok))
		}
	}
	return pair, ok, err
}

// step moves to the next pair, with a seek if dead space lies before it.
func (c *cursor) step() (kv.KeyValue, bool, error) {
	var state pebble.IterValidityState
	switch {
	case c.gap.End == nil && c.reverse:
		return c.pair(c.iter.Prev())
	case c.gap.End == nil:
		return c.pair(c.iter.Next())
	case c.reverse:
		state = c.iter.PrevWithLimit(c.gap.End)
	default:
		state = c.iter.NextWithLimit(c.gap.Begin)
	}
	if state != pebble.IterAtLimit {
		return c.pair(state == pebble.IterValid)
	}
	if c.reverse {
		return c.seek(c.gap.Begin)
	}
	return c.seek(c.gap.End)
}

// empty returns the range in which nothing was found: from where the search began
// to the key that it found, or to the end.
func (c *cursor) empty(from, found []byte, ok bool) kv.Range {
	switch {
	case c.reverse && ok:
		return kv.Range{Begin: kv.After(found), End: from}
	case c.reverse:
		return kv.Range{Begin: c.span.Begin, End: from}
	case ok:
		return kv.Range{Begin: from, End: found}
	}
	return kv.Range{Begin: from, End: c.span.End}
}

func (c *cursor) check() error {
	if c.t.ended != nil {
		return c.t.ended
	}
	if c.steps++; c.steps%stepsToCheck == 0 {
		return c.t.check()
	}
	return nil
}

// Seek steps over dead space, and remembers what it had to step over.
func (c *cursor) Seek(key []byte) (kv.KeyValue, bool, error) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if err := c.check(); err != nil {
		return kv.KeyValue{}, false, err
	}
	pair, ok, err := c.seek(key)
	if err == nil && c.costly() {
		c.t.db.learn(c.t, c.empty(key, pair.Key, ok))
	}
	return pair, ok, err
}

func (c *cursor) seek(key []byte) (pair kv.KeyValue, ok bool, err error) {
	dead, version := c.t.db.dead, c.t.view.version
	if c.reverse {
		if key = dead.backward(key, version); bytes.Compare(key, c.span.Begin) <= 0 {
			return pair, false, nil
		}
		pair, ok, err = c.pair(c.iter.SeekLT(key))
	} else {
		if key = dead.forward(key, version); bytes.Compare(key, c.span.End) >= 0 {
			return pair, false, nil
		}
		pair, ok, err = c.pair(c.iter.SeekGE(key))
	}
	c.gap = kv.Range{}
	if ok {
		c.gap = dead.ahead(pair.Key, c.reverse, version)
	}
	return pair, ok, err
}

// costly tells whether the iterator has stepped over many tombstones since it
// was last asked.
func (c *cursor) costly() bool {
	s := c.iter.Stats()
	steps := s.ForwardStepCount[pebble.InternalIterCall] + s.ReverseStepCount[pebble.InternalIterCall] +
		int(s.InternalStats.PointsCoveredByRangeTombstones)
	before := c.skipped
	c.skipped = steps
	return steps-before >= c.t.db.manyTombstones
}

// pair returns the iterator's pair in slices of the caller's.
func (c *cursor) pair(ok bool) (kv.KeyValue, bool, error) {
	if !ok {
		return kv.KeyValue{}, false, c.iter.Error()
	}
	value, err := c.iter.ValueAndErr()
	if err != nil {
		return kv.KeyValue{}, false, err
	}
	key := c.iter.Key()
	n := len(key)
	buf := make([]byte, n+len(value)) // one allocation for both
	copy(buf, key)
	copy(buf[n:], value)
	return kv.KeyValue{Key: buf[:n:n], Value: buf[n:]}, true, nil
}

// learn remembers a range that t has found empty, unless it has been written to
// since.
func (db *DB) learn(t *txn, r kv.Range) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if !t.listed {
		return // too old: the window no longer reaches back so far
	}
	since := db.window.since(t.view.version)
	for i := range since {
		if since[i].overlapsRange(r) {
			return
		}
	}
	db.dead.learn(r.Begin, r.End, t.view.version)
}
