package embedded

import (
	"bytes"

	"github.com/conq-go/conq/kv"
)

// cursor implements overlay.Cursor: it finds pairs near, and what is not known there
// in Pebble. What it finds there for the first time is then known near.
type cursor struct {
	t    *txn
	open bool
	span kv.Range
	o    kv.RangeOptions

	reading
	fetched []pair // the next pairs, before pos
	own     bool   // they are the reader's
	one     [1]pair
	at      []byte // buffer of pos, while they are
	missed  int    // pairs that came from Pebble
	steps   int
	scan    scan

	prev, next *cursor // in t.cursors
}

// stepsToCheck is how many pairs a loop returns between two looks at the clock.
const stepsToCheck = 64

func (t *txn) cursor(span kv.Range, o kv.RangeOptions) (*cursor, error) {
	if err := t.reading(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	c := &cursor{t: t, open: true, span: span, o: o, reading: reading{reverse: o.Reverse}, next: t.cursors}
	if c.next != nil {
		c.next.prev = c
	}
	t.cursors = c
	return c, nil
}

func (c *cursor) Close() error {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	return c.close()
}

// close does nothing if the transaction has ended, and closed it.
func (c *cursor) close() error {
	if !c.open {
		return nil
	}
	c.open = false
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		c.t.cursors = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	}
	return c.scan.close()
}

// Seek implements overlay.Cursor.
func (c *cursor) Seek(key []byte) (kv.KeyValue, bool, error) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.pos, c.end, c.ahead = key, c.span.End, 0
	if c.reverse {
		c.end = c.span.Begin
	}
	c.fetched, c.own, c.scan.stands = nil, false, false
	return c.take()
}

// Next implements overlay.Cursor.
func (c *cursor) Next() (kv.KeyValue, bool, error) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	return c.take()
}

func (c *cursor) take() (kv.KeyValue, bool, error) {
	if err := c.check(); err != nil {
		return kv.KeyValue{}, false, err
	}
	if len(c.fetched) == 0 && !c.done() {
		if err := c.fetch(); err != nil {
			return kv.KeyValue{}, false, err
		}
	}
	if len(c.fetched) == 0 {
		return kv.KeyValue{}, false, nil
	}
	p := c.fetched[0]
	c.fetched = c.fetched[1:]
	switch {
	case c.own:
		return kv.KeyValue{Key: p.key(), Value: p.value}, true, nil
	case c.o.KeysOnly:
		return kv.KeyValue{Key: bytes.Clone(p.key())}, true, nil
	case p.large():
		value, err := c.t.far(p.key())
		return kv.KeyValue{Key: bytes.Clone(p.key()), Value: value}, err == nil, err
	}
	return p.copied(), true, nil
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

// fetch gets the next pairs, if there are any.
func (c *cursor) fetch() error {
	if c.missed >= c.t.db.near.most.pairs {
		return c.step()
	}
	want := c.t.db.near.most.ahead
	if c.o.Limit > 0 {
		want = min(want, c.o.Limit)
	}
	c.readNear(want)
	if len(c.fetched) == 0 && !c.done() {
		if err := c.t.catchUp(func() { c.readNear(want) }); err != nil {
			return err
		}
	}
	if len(c.fetched) > 0 || c.done() {
		return nil
	}
	return c.fill(want)
}

// more gets the next pairs in place of those that were got before, and returns how many.
func (c *cursor) more() int {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.fetched = nil
	if c.check() != nil || c.done() || c.fetch() != nil {
		return 0
	}
	return len(c.fetched)
}

// readNear gets the next pairs as far as they are known near.
func (c *cursor) readNear(want int) {
	from := c.pos
	c.fetched, c.own = c.t.db.near.read(&c.reading, c.one[:0], want, c.t.version), false
	c.t.observe(c.reading, from)
	c.scan.stands = c.scan.stands && bytes.Equal(c.pos, from)
	if c.low != nil {
		c.t.db.fetchAhead(stretchAhead{c.low, c.span, c.reverse})
	}
}

// step gets one pair from Pebble. That is how a long loop reads on: nobody will soon
// begin where it is.
func (c *cursor) step() error {
	key, value, ok, err := c.scan.from(c)
	if err != nil {
		return err
	}
	c.fetched = nil
	if !ok {
		c.pos = c.end
		return nil
	}
	p := newPair(key, value)
	c.fetched, c.own = append(c.one[:0], p), true
	c.at = append(c.at[:0], p.after...) // as p is the reader's
	c.pos = c.at
	if c.reverse {
		c.pos = c.at[:len(c.at)-1]
	}
	return nil
}

// push appends a pair that will be known near.
func (c *cursor) push(p pair) {
	c.fetched = append(c.fetched, p)
	c.pos = p.after
	if c.reverse {
		c.pos = p.key()
	}
}

// fill gets pairs from Pebble: more than are wanted, where readers take more and
// more. They are known near then.
func (c *cursor) fill(want int) error {
	if err := c.t.look(); err != nil {
		return err
	}
	before := c.reading
	want, c.missed = max(want, c.ahead), c.missed+want
	first := want // how many, if they are small
	if !c.o.KeysOnly {
		first = max(want, c.t.db.near.most.first)
	}
	c.fetched = make([]pair, 0, first)
	bytes := 0
	var memory pairs
	c.own = false
	for (len(c.fetched) < want && bytes < maxFetch || len(c.fetched) < first && bytes < smallFetch) && !c.done() {
		key, value, ok, err := c.scan.from(c)
		if err != nil {
			return err
		}
		if !ok {
			c.pos = c.end
			break
		}
		p := c.t.db.near.pair(&memory, key, value)
		bytes += p.size()
		c.push(p)
	}
	c.t.db.learnNear(c.t, before, c.fetched, c.pos)
	return nil
}

// learnNear remembers what t has read from r.pos up to to, unless it has been
// written to since.
func (db *DB) learnNear(t *txn, r reading, pairs []pair, to []byte) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if t.covers() && !db.recent.Wrote(t.version, r.upTo(to)) {
		db.near.learn(r, pairs, to, t.version)
	}
}
