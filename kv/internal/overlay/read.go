package overlay

import (
	"fmt"
	"iter"

	"github.com/conq-go/conq/kv"
)

// Pairs returns what a Reader's Range does: each loop over it calls read with explicit bounds,
// which the caller of Range can't change any more, unless the range or the limit is invalid.
func Pairs(given kv.Range, limit int, read func(r kv.Range, yield func(kv.KeyValue) bool) error) iter.Seq2[kv.KeyValue, error] {
	r, invalid := given.Bounds()
	r = Clone(r)
	if limit < 0 {
		invalid = fmt.Errorf("%w: negative limit %d", kv.ErrInvalid, limit)
	}
	return func(yield func(kv.KeyValue, error) bool) {
		err := invalid
		if err == nil {
			err = read(r, func(pair kv.KeyValue) bool { return yield(pair, nil) })
		}
		if err != nil {
			yield(kv.KeyValue{}, err)
		}
	}
}

// Scan calls yield for the pairs of a Merger until it returns false, there were limit pairs, or alive
// fails. cover, if it is not nil, gets what the transaction depends on by then, and does so with each pair, as a
// loop may be left hanging (iter.Pull): the latest range counts, in the memory of those before.
func (m Merger) Scan(limit int, cover func(kv.Range), alive func() error, yield func(kv.KeyValue) bool) error {
	covered := coverage{of: m.r, reverse: m.reverse}
	if cover == nil {
		cover = func(kv.Range) {}
	}
	for n := 1; ; n++ {
		if err := alive(); err != nil {
			return err
		}
		pair, ok, err := m.Next()
		if err != nil {
			return err
		}
		if !ok {
			cover(covered.of)
			return nil
		}
		cover(covered.upTo(pair.Key))
		if !yield(pair) || n == limit {
			return nil
		}
	}
}

// coverage is the part of a range that a loop has covered.
type coverage struct {
	of      kv.Range
	reverse bool
	bound   []byte // the one that moves
}

// upTo returns the part of a loop that has returned key. Its memory is that of the next one.
func (c *coverage) upTo(key []byte) kv.Range {
	c.bound = append(append(c.bound[:0], key...), 0)
	if c.reverse {
		return kv.Range{Begin: c.bound[:len(key)], End: c.of.End}
	}
	return kv.Range{Begin: c.of.Begin, End: c.bound}
}

// Covered returns the part of r that a loop has covered when it has returned key.
func Covered(r kv.Range, key []byte, reverse bool) kv.Range {
	return (&coverage{of: r, reverse: reverse}).upTo(key)
}
