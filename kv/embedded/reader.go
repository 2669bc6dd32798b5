package embedded

import (
	"context"
	"fmt"
	"iter"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// reader implements kv.Reader on a transaction.
type reader struct {
	t        *tx
	snapshot bool
}

func (r reader) Context() context.Context { return r.t.ctx }

func (r reader) Snapshot() kv.Reader { return &r.t.snapshot }

// Lazily implements kv.Lazily for a read transaction.
func (r reader) Lazily() { r.t.Lazily() }

func (r reader) Get(key []byte) ([]byte, error) {
	t := r.t
	if err := t.db.limits.CheckKey(key); err != nil {
		return nil, err
	}
	change, known := t.Writer.Lookup(key)
	if known && (change == nil || change.Kind != overlay.Add) {
		if err := t.alive(); err != nil || change == nil || change.Kind == overlay.Clear {
			return nil, err
		}
		return append([]byte{}, change.Value...), nil
	}
	span := keyRange(key)
	value, err := t.get(span)
	if err != nil {
		return nil, err
	}
	if !r.snapshot {
		t.reads = append(t.reads, span)
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
		r.loop(span, o, yield)
	}
}

// LastKey implements kv.LastKey: a snapshot read of what is in the cache needs no loop.
func (r reader) LastKey(span, among kv.Range) ([]byte, error) {
	span, err := span.Bounds()
	if err != nil {
		return nil, err
	}
	if !r.snapshot || !r.t.Writer.Untouched(span) {
		return r.lastOf(span)
	}
	if key, known, err := r.t.lastKey(span); known || err != nil {
		return key, err
	}
	if among, err = among.Bounds(); err != nil {
		return nil, err
	}
	return r.t.lookForLast(span, among)
}

// LastKeys implements kv.LastKeys: what is in the cache is read at once.
func (r reader) LastKeys(spans []kv.Range, among kv.Range, to [][]byte) ([][]byte, error) {
	to = append(to, make([][]byte, len(spans))...)
	keys := to[len(to)-len(spans):]
	missing, err := r.lastCached(spans, keys)
	for _, i := range missing {
		if keys[i], err = r.LastKey(spans[i], among); err != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return to, nil
}

// lastCached puts the last keys of ranges in their places, and returns the indices of those that
// are not in the cache, or perhaps not.
func (r reader) lastCached(spans []kv.Range, keys [][]byte) (missing []int, err error) {
	if r.snapshot && r.t.Writer.Empty() {
		return r.t.lastKeys(spans, keys)
	}
	for i := range spans {
		missing = append(missing, i)
	}
	return missing, nil
}

func (r reader) lastOf(span kv.Range) ([]byte, error) {
	for last, err := range r.Range(span, kv.RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}) {
		return last.Key, err
	}
	return nil, nil
}

// Known implements kv.Known: snapshot reads of what is in the cache.
func (r reader) Known(span kv.Range, o kv.RangeOptions, to []kv.KeyValue) ([]kv.KeyValue, bool, error) {
	span, err := span.Bounds()
	if err != nil || !r.snapshot || o.Limit > r.t.db.cache.Limits().Pairs || !r.t.Writer.Untouched(span) {
		return to, false, err
	}
	return r.t.known(span, o, to)
}

func (r reader) loop(span kv.Range, o kv.RangeOptions, yield func(kv.KeyValue, error) bool) {
	covered := r.cover(span, o.Reverse)
	c, err := r.t.cursor(span, o)
	if err != nil {
		yield(kv.KeyValue{}, err)
		return
	}
	defer c.Close()
	pairs := r.t.Writer.Over(c, span, o.Reverse)
	for n := 1; ; n++ {
		pair, ok, err := pairs.Next()
		if err == nil && r.t.ctx.Err() != nil {
			err = context.Cause(r.t.ctx)
		}
		switch {
		case err != nil:
			yield(kv.KeyValue{}, err)
			return
		case !ok:
			covered.all(span)
			return
		}
		covered.upTo(pair.Key)
		if !yield(pair, nil) || n == o.Limit {
			return
		}
	}
}

// keyRange returns the range of one key, with a copy of it.
func keyRange(key []byte) kv.Range {
	end := append(append(make([]byte, 0, len(key)+1), key...), 0)
	return kv.Range{Begin: end[:len(key)], End: end}
}

// clone returns a copy of a range. A beginning that is empty is nil: with its invariants
// on, Pebble can't seek another one.
func clone(r kv.Range) kv.Range {
	n := len(r.Begin)
	both := append(append(make([]byte, 0, n+len(r.End)), r.Begin...), r.End...)
	c := kv.Range{End: both[n:]}
	if n > 0 {
		c.Begin = both[:n:n]
	}
	return c
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
		r.Begin = append(movable(r.Begin, r.End, len(key)), key...)
	} else {
		r.End = append(append(movable(r.End, r.Begin, len(key)+1), key...), 0)
	}
}

// movable returns the buffer of the bound that moves, emptied, or a new one if
// that is still the one that stays.
func movable(moves, stays []byte, n int) []byte {
	if len(moves) > 0 && len(stays) > 0 && &moves[0] == &stays[0] {
		return make([]byte, 0, n)
	}
	return moves[:0:cap(moves)]
}

func (c coverage) all(span kv.Range) {
	if c.t != nil {
		c.t.reads[c.i] = span
	}
}
