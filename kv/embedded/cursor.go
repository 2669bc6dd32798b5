package embedded

import (
	"bytes"

	"github.com/conq-go/conq/internal/linked"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/cache"
)

// cursor implements overlay.Cursor: it finds pairs in the cache, and what is not known there
// in Pebble. What it finds there for the first time is then in the cache.
type cursor struct {
	t     *txn
	place linked.Place[cursor] // in t.cursors
	span  kv.Range
	o     kv.RangeOptions

	cache.Cursor
	fetched []cache.Pair // the next pairs, before Pos
	missed  int          // pairs that came from Pebble
	steps   int
	scan    scan
}

const (
	maxFetch   = 128 << 10 // bytes fetched at once
	smallFetch = 4 << 10   // and at first
)

// stepsToCheck is how many pairs a loop returns between two looks at the clock.
const stepsToCheck = 64

func (t *txn) cursor(span kv.Range, o kv.RangeOptions) (*cursor, error) {
	if err := t.reading(); err != nil {
		return nil, err
	}
	defer t.mu.Unlock()
	c := &cursor{t: t, span: span, o: o}
	t.cursors.Add(&c.place, c)
	return c, nil
}

func (c *cursor) Close() error {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	return c.close()
}

// close does nothing if the transaction has ended, and closed it.
func (c *cursor) close() error {
	if !c.t.cursors.Remove(&c.place) {
		return nil
	}
	return c.scan.close()
}

// Seek implements overlay.Cursor.
func (c *cursor) Seek(key []byte) (kv.KeyValue, bool, error) {
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	c.Cursor = cache.NewCursor(c.span, c.o.Reverse)
	c.Pos = key
	c.fetched, c.scan.stands = nil, false
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
	if len(c.fetched) == 0 && !c.Done() {
		if err := c.fetch(); err != nil {
			return kv.KeyValue{}, false, err
		}
	}
	if len(c.fetched) == 0 {
		return kv.KeyValue{}, false, nil
	}
	p := c.fetched[0]
	c.fetched = c.fetched[1:]
	pair := kv.KeyValue{Key: bytes.Clone(p.Key())}
	var err error
	switch {
	case c.o.KeysOnly:
	case p.Large():
		pair.Value, err = c.t.getStored(p.Key())
	default:
		pair.Value = bytes.Clone(p.Value())
	}
	return pair, err == nil, err
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
	limits := c.t.db.cache.Limits()
	want := limits.Fetch
	if c.o.Limit > 0 {
		want = min(want, c.o.Limit)
	}
	if c.missed >= limits.Pairs {
		return c.fill(want, true)
	}
	c.readCache(want)
	if len(c.fetched) > 0 || c.Done() {
		return nil
	}
	return c.fill(want, false)
}

// readCache gets the next pairs as far as they are in the cache.
func (c *cursor) readCache(want int) {
	from := c.Pos
	c.fetched = c.t.db.cache.Read(&c.Cursor, nil, want, c.t.version)
	c.t.observe(c.Cursor, from)
	c.scan.stands = c.scan.stands && bytes.Equal(c.Pos, from)
}

// fill gets pairs from Pebble: more than are wanted, where readers take more and more. They are in the
// cache then, but not those of a long loop: nobody will soon begin where it is.
func (c *cursor) fill(want int, long bool) error {
	if err := c.t.look(); err != nil {
		return err
	}
	limits, before := c.t.db.cache.Limits(), c.Cursor
	want, c.missed = max(want, c.Fetch), c.missed+want
	first := want // how many, if they are small
	if !c.o.KeysOnly {
		first = max(want, limits.First)
	}
	keep := c.t.db.cache.Pair
	if long {
		keep = cache.NewPair
	}
	c.fetched = nil
	size := 0
	for (len(c.fetched) < want && size < maxFetch || len(c.fetched) < first && size < smallFetch) && !c.Done() {
		key, ok, err := c.scan.next(c)
		if err != nil {
			return c.t.db.readError(err)
		}
		if !ok {
			c.Pos = c.End
			break
		}
		value, large, err := c.scan.value(c, long)
		if err != nil {
			return c.t.db.readError(err)
		}
		p := keep(key, value)
		if large {
			p = cache.LargePair(key)
		}
		size += len(key) + len(value)
		c.fetched = append(c.fetched, p)
		if c.Pos = p.After(); c.Reverse {
			c.Pos = p.Key()
		}
	}
	if !long {
		c.t.remember(before.UpTo(c.Pos), func() { c.t.db.cache.Fill(before, c.fetched, c.Pos, c.t.version) })
	}
	return nil
}

// remember has the cache or its gaps take in what the transaction has read in r, by a call of take with
// the store's lock, unless r may have been written to since.
func (t *txn) remember(r kv.Range, take func()) {
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if t.covers() && !t.db.recent.Wrote(t.version, r) {
		take()
	}
}
