package overlay

import (
	"bytes"
	"fmt"
	"iter"

	"github.com/conq-go/conq/kv"
)

// Pairs returns what a Reader's Range does: each loop over it calls read with explicit bounds,
// which the caller of Range can't change any more, unless the range or the limit is invalid.
func Pairs(given kv.Range, limit int, read func(r kv.Range, yield func(kv.KeyValue) bool) error) iter.Seq2[kv.KeyValue, error] {
	r, invalid := given.Bounds()
	r = clone(r)
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
// fails. covered becomes what the transaction depends on, and grows with each pair, as a loop may be
// left hanging (iter.Pull).
func (m Merger) Scan(limit int, covered *kv.Range, alive func() error, yield func(kv.KeyValue) bool) error {
	whole := m.r
	for n := 1; ; n++ {
		if err := alive(); err != nil {
			return err
		}
		pair, ok, err := m.Next()
		if err != nil {
			return err
		}
		if !ok {
			*covered = whole
			return nil
		}
		*covered = Covered(whole, pair.Key, m.reverse)
		if !yield(pair) || n == limit {
			return nil
		}
	}
}

// Covered returns the part of r that a loop has covered when it has returned key.
func Covered(r kv.Range, key []byte, reverse bool) kv.Range {
	if reverse {
		return kv.Range{Begin: bytes.Clone(key), End: r.End}
	}
	return kv.Range{Begin: r.Begin, End: kv.After(key)}
}
