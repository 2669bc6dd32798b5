package embedded

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv"
)

// scan is where a cursor stands in Pebble. It seeks past known gaps, and notes
// others that it has had to step over.
type scan struct {
	iter    *pebble.Iterator
	stands  bool // on the pair that the cursor has come to last
	skipped int  // tombstones that the iterator has stepped over
}

func (s *scan) close() error {
	if s.iter == nil {
		return nil
	}
	iter := s.iter
	s.iter = nil
	return iter.Close()
}

// next moves to the next pair from c.Pos on, and returns its key, which is the iterator's.
func (s *scan) next(c *cursor) (key []byte, ok bool, err error) {
	if s.iter == nil {
		if s.iter, err = c.t.snap.NewIter(&pebble.IterOptions{LowerBound: c.span.Begin, UpperBound: c.span.End}); err != nil {
			return nil, false, err
		}
	}
	ok = s.move(c)
	s.stands = ok
	if ok {
		key = s.iter.Key()
	} else {
		err = s.iter.Error()
	}
	if err == nil && s.costly(c.t.db.manyTombstones) {
		to := c.End
		if ok && c.Reverse {
			to = kv.After(key)
		} else if ok {
			to = key
		}
		empty := c.UpTo(to)
		c.t.remember(empty, func() { c.t.db.gaps.Add(empty, c.t.version) })
	}
	return key, ok, err
}

// value returns the value of the pair that the iterator is at, which is the iterator's. Where keys alone are wanted, that of a long
// loop is empty; so is one that is too large for the cache: it is not read, and large is true.
func (s *scan) value(c *cursor, long bool) (value []byte, large bool, err error) {
	if c.o.KeysOnly {
		if long {
			return nil, false, nil
		}
		if lazy := s.iter.LazyValue(); lazy.Len() > c.t.db.cache.Limits().Value {
			return nil, true, nil
		}
	}
	value, err = s.iter.ValueAndErr()
	return value, false, err
}

// move moves to the next pair, with a seek if it does not stand before it, or a gap lies there.
func (s *scan) move(c *cursor) bool {
	to := c.t.db.gaps.Past(c.Pos, c.Reverse, c.t.version)
	next := s.stands && bytes.Equal(to, c.Pos)
	switch {
	case next && c.Reverse:
		return s.iter.Prev()
	case next:
		return s.iter.Next()
	case c.Reverse:
		return bytes.Compare(to, c.span.Begin) > 0 && s.iter.SeekLT(to)
	default:
		return bytes.Compare(to, c.span.End) < 0 && s.iter.SeekGE(to)
	}
}

// manyTombstones is how many keys a read must have stepped over before what it found is worth
// remembering.
const manyTombstones = 16

// costly tells whether the iterator has stepped over many tombstones since it was
// last asked.
func (s *scan) costly(many int) bool {
	stats := s.iter.Stats()
	steps := stats.ForwardStepCount[pebble.InternalIterCall] + stats.ReverseStepCount[pebble.InternalIterCall] +
		int(stats.InternalStats.PointsCoveredByRangeTombstones)
	before := s.skipped
	s.skipped = steps
	return steps-before >= many
}
