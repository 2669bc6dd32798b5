package etcd

import (
	"encoding/binary"
	"fmt"

	"github.com/conq-go/conq/kv"
)

// layout is where a store lies among the keys of a cluster. Everything of it
// begins with its prefix and a NUL, which no prefix holds, so that stores whose
// prefixes begin alike do not meet. Package documentation has the list.
type layout struct {
	data    string // before each key of the store
	format  string
	last    string // the marker of range writes
	log     string // before each entry of the log of range writes
	floor   string
	removed string // before the number of each marker of removed keys
}

func newLayout(prefix string) layout {
	base := prefix + "\x00"
	return layout{data: base + "d", format: base + "f", last: base + "w", log: base + "x", floor: base + "y", removed: base + "r"}
}

// format is what this package writes, and all that it reads.
const format = "2"

// at returns where a key of the store lies.
func (l *layout) at(key []byte) []byte {
	b := make([]byte, 0, len(l.data)+len(key)+1) // one more, as a NUL is often appended
	return append(append(b, l.data...), key...)
}

// key is the other way round. It shares memory with its argument.
func (l *layout) key(b []byte) []byte { return b[len(l.data):] }

// logRange is the range of all entries of the log.
func (l *layout) logRange() kv.Range { return kv.PrefixRange([]byte(l.log)) }

const logFormat = 1

// encodeRanges returns the value of an entry of the log: a byte with its format,
// then each range's begin and end, with their lengths before them.
func encodeRanges(ranges []kv.Range) []byte {
	b := []byte{logFormat}
	for _, r := range ranges {
		for _, bound := range [][]byte{r.Begin, r.End} {
			b = append(binary.AppendUvarint(b, uint64(len(bound))), bound...)
		}
	}
	return b
}

// decodeRanges is the other way round.
func decodeRanges(b []byte) (ranges []kv.Range, err error) {
	if len(b) == 0 || b[0] != logFormat {
		return nil, fmt.Errorf("etcd: an entry of the log of range writes has not format %d: was it written by a newer version?", logFormat)
	}
	bound := func() (bound []byte, ok bool) {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, false
		}
		bound, b = b[n:n+int(size)], b[n+int(size):]
		return bound, true
	}
	for b = b[1:]; len(b) > 0; {
		begin, ok := bound()
		end, alsoOK := bound()
		if !ok || !alsoOK {
			return nil, fmt.Errorf("etcd: an entry of the log of range writes ends too early")
		}
		ranges = append(ranges, kv.Range{Begin: begin, End: end})
	}
	return ranges, nil
}
