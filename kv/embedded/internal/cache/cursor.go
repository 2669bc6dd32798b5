package cache

import (
	"bytes"

	"github.com/conq-go/conq/kv"
)

// Cursor is how far a read of a range has come.
type Cursor struct {
	Pos     []byte // what is left begins here, or with Reverse ends here; never behind End
	End     []byte // the other side of what is left
	Reverse bool
	Fetch   int // how many pairs should be fetched from Pos on, if more than 0
}

// NewCursor returns one that has come nowhere.
func NewCursor(r kv.Range, reverse bool) Cursor {
	if reverse {
		return Cursor{Pos: r.End, End: r.Begin, Reverse: true}
	}
	return Cursor{Pos: r.Begin, End: r.End}
}

// Done tells whether nothing is left.
func (c *Cursor) Done() bool {
	if c.Reverse {
		return bytes.Compare(c.Pos, c.End) <= 0
	}
	return bytes.Compare(c.Pos, c.End) >= 0
}

// UpTo returns what lies between here and a key that comes later.
func (c *Cursor) UpTo(key []byte) kv.Range {
	if c.Reverse {
		return kv.Range{Begin: key, End: c.Pos}
	}
	return kv.Range{Begin: c.Pos, End: key}
}

// pass moves past a range that the cursor has come to, or to the end if that is in it.
func (c *Cursor) pass(begin, end []byte) {
	if c.Pos = end; c.Reverse {
		c.Pos = begin
	}
	if c.Done() {
		c.Pos = c.End
	}
}
