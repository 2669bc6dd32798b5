package embedded

import (
	"context"
	"iter"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/conq-go/conq/kv/internal/retry"
)

// reader implements kv.Reader on a transaction.
type reader struct {
	t        *tx
	snapshot bool
}

func (r reader) Context() context.Context { return r.t.ctx }

func (r reader) Snapshot() kv.Reader { return &r.t.snapshot }

// Lazily implements kv.Lazily.
func (r reader) Lazily() { r.t.lazy = r.t.mayBeLazy }

func (r reader) Get(key []byte) ([]byte, error) {
	t := r.t
	if err := t.db.limits.CheckKey(key); err != nil {
		return nil, err
	}
	if value, own := t.Writer.Own(key); own {
		if err := t.alive(); err != nil {
			return nil, err
		}
		return value, nil
	}
	span := keyRange(key)
	value, err := t.get(span)
	if err != nil {
		return nil, err
	}
	if !r.snapshot {
		t.reads = append(t.reads, span)
	}
	return t.Writer.Added(key, value), nil
}

func (r reader) Range(span kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return overlay.Pairs(span, o.Limit, func(span kv.Range, yield func(kv.KeyValue) bool) error {
		cover := r.cover()
		c, err := r.t.cursor(span, o)
		if err != nil {
			return err
		}
		defer c.Close()
		return r.t.Writer.Over(c, span, o.Reverse).Scan(o.Limit, cover, func() error { return retry.Ended(r.t.ctx) }, yield)
	})
}

// cover returns what sets the conflict range of a loop, or nil if it has none.
func (r reader) cover() func(kv.Range) {
	if r.snapshot {
		return nil
	}
	i := len(r.t.reads)
	r.t.reads = append(r.t.reads, kv.Range{})
	return func(covered kv.Range) { r.t.reads[i] = covered }
}

// LastKey implements kvext.LastKey: a snapshot read of what is in the cache needs no loop.
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

func (r reader) lastOf(span kv.Range) ([]byte, error) {
	for last, err := range r.Range(span, kv.RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}) {
		return last.Key, err
	}
	return nil, nil
}

// Known implements kvext.Known: snapshot reads of what is in the cache.
func (r reader) Known(span kv.Range, o kv.RangeOptions, to []kv.KeyValue) ([]kv.KeyValue, bool, error) {
	span, err := span.Bounds()
	if err != nil || !r.snapshot || o.Limit > r.t.db.cache.Limits().Pairs || !r.t.Writer.Untouched(span) {
		return to, false, err
	}
	return r.t.known(span, o, to)
}

// keyRange returns the range of one key, with a copy of it.
func keyRange(key []byte) kv.Range {
	end := append(append(make([]byte, 0, len(key)+1), key...), 0)
	return kv.Range{Begin: end[:len(key)], End: end}
}
