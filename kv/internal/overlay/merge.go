package overlay

import (
	"bytes"

	"github.com/conq-go/conq/kv"
)

// Cursor moves over the pairs of a range in an engine's store, in one
// direction. What it returns belongs to the caller.
type Cursor interface {
	// Seek moves to the first pair at or behind key; a reverse cursor to the
	// last one before key.
	Seek(key []byte) (pair kv.KeyValue, ok bool, err error)
	// Next moves to the next pair in the cursor's direction.
	Next() (pair kv.KeyValue, ok bool, err error)
}

// Merger returns the pairs of a range as the transaction sees them, one at a time: those that a
// cursor finds in the store with the overlay's changes laid over, which may change meanwhile.
type Merger struct {
	o       *Overlay
	r       kv.Range // what is left: its Begin moves up, or its End down
	reverse bool
	cursor  Cursor

	stored  kv.KeyValue // the store's next pair, if found
	found   bool
	started bool
	passed  bool // stored has been dealt with

	noting bool   // what it first steps over is to be noted as a gap
	from   []byte // where it began

	// As long as the overlay has no part in the range, the cursor's pairs are
	// returned as they are, and r is left as it was.
	clean bool
	ops   int    // the overlay's, when that was found
	at    []byte // the last key returned then
	buf   [64]byte
}

// Over returns a Merger of the pairs of r that the cursor finds. The cursor must
// keep to r. It does not read again what one before it in this direction has stepped over
// from the same place on, so all must read one version of the store.
func (o *Overlay) Over(cursor Cursor, r kv.Range, reverse bool) Merger {
	m := o.OverAll(cursor, r, reverse)
	m.noting = true
	return m
}

// OverAll is Over, but reads again what others have stepped over, as for an engine to which it matters
// what the cursor has read.
func (o *Overlay) OverAll(cursor Cursor, r kv.Range, reverse bool) Merger {
	return Merger{o: o, r: r, reverse: reverse, cursor: cursor, clean: o.Untouched(r), ops: o.ops}
}

// Next returns the next pair, or false after the last one.
func (m *Merger) Next() (kv.KeyValue, bool, error) {
	if m.clean && m.o.ops == m.ops {
		if err := m.advance(); err != nil || !m.found {
			return kv.KeyValue{}, false, err
		}
		m.passed = true
		if m.at == nil {
			m.at = m.buf[:0]
		}
		m.at = append(m.at[:0], m.stored.Key...)
		return m.stored, true, nil
	}
	if m.clean { // no more
		m.clean = false
		if m.started {
			m.pass(m.at)
			m.noting = false
		}
	}
	return m.next()
}

func (m *Merger) next() (kv.KeyValue, bool, error) {
	if m.noting {
		m.skip()
	}
	for {
		if err := m.advance(); err != nil {
			return kv.KeyValue{}, false, err
		}
		change := m.change()
		if change == nil || m.found && m.before(m.stored.Key, change.Key) {
			m.note()
			if m.found {
				m.pass(m.stored.Key)
				m.passed = true
			}
			return m.stored, m.found, nil
		}
		if change.Kind != Clear {
			m.note()
		}
		m.pass(change.Key)
		var stored []byte
		if m.found && bytes.Equal(m.stored.Key, change.Key) {
			stored = m.stored.Value
			m.passed = true
		}
		if value, ok := change.over(stored); ok {
			return kv.KeyValue{Key: bytes.Clone(change.Key), Value: value}, true, nil
		}
	}
}

// over returns the value that the change makes of a stored one, in a slice of
// the caller's, and whether there is one at all.
func (c *Change) over(stored []byte) ([]byte, bool) {
	switch c.Kind {
	case Set:
		return append([]byte{}, c.Value...), true
	case Add:
		return Sum(stored, c.Delta), true
	default:
		return nil, false
	}
}

// advance moves the store's next pair past what has been passed and past
// cleared ranges. The latter are sought past, not stepped through: a cleared
// range may hold millions.
func (m *Merger) advance() (err error) {
	switch {
	case !m.started:
		m.started = true
		m.stored, m.found, err = m.cursor.Seek(m.start())
	case m.passed:
		m.stored, m.found, err = m.cursor.Next()
	}
	m.passed = false
	for err == nil && m.found && !m.clean && m.r.Contains(m.stored.Key) {
		gap, ok := m.o.cleared.Holding(m.stored.Key)
		if !ok {
			return nil
		}
		to := gap.End
		if m.reverse {
			to = gap.Begin
		}
		m.stored, m.found, err = m.cursor.Seek(to)
	}
	m.found = m.found && m.r.Contains(m.stored.Key)
	return err
}

func (m *Merger) start() []byte {
	if m.reverse {
		return m.r.End
	}
	return m.r.Begin
}

// change returns the next change in what is left of the range.
func (m *Merger) change() (c *Change) {
	if m.reverse {
		c = m.o.last(m.r.End)
	} else {
		c = m.o.first(m.r.Begin)
	}
	if c == nil || !m.r.Contains(c.Key) {
		return nil
	}
	return c
}

// before tells whether a comes before b in the direction of reading.
func (m *Merger) before(a, b []byte) bool {
	if m.reverse {
		a, b = b, a
	}
	return bytes.Compare(a, b) < 0
}

// pass takes key and all before it out of what is left. It copies key, which
// may go to the caller.
func (m *Merger) pass(key []byte) {
	if m.reverse {
		m.r.End = bytes.Clone(key)
	} else {
		m.r.Begin = kv.After(key)
	}
}
