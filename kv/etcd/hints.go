package etcd

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"sync"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// hints remember where pairs were found at the ends of ranges, so that the next
// read of such an end can ask for a narrow part of the range.
//
// That matters since a member looks at each key of a range that it is asked for:
// it counts them all, even if it returns one; and it can return the last keys of a
// range only by sorting all of it. With hints, to read at either end of a queue
// costs the same at any depth.
//
// A hint may be wrong, or forgotten, at any time. It decides only on how many
// requests a read takes: what is in a narrow range is read as exactly as what is
// in the whole, and if it holds too little, more is read.
type hints struct {
	ends bounded[string, hint] // of ranges; each queue in use needs two

	sizes   sync.Mutex
	average int // bytes of a pair
}

// hint is about one end of a range.
type hint struct {
	edge []byte // near which pairs are
	scale
}

// front and back name the ends of a range.
func front(r kv.Range) string { return "f" + string(r.Begin) }
func back(r kv.Range) string  { return "b" + string(r.End) }

// move tells that the last pair of a range is now at edge.
func (hs *hints) move(end string, edge []byte) {
	h, _ := hs.ends.get(end)
	h.edge = edge
	hs.ends.set(end, h)
}

// unknownPair is how large a pair is taken to be before one was seen.
const unknownPair = 4 << 10

// saw learns how large pairs are.
func (hs *hints) saw(pairs []kv.KeyValue) {
	if len(pairs) == 0 {
		return
	}
	size := 0
	for _, pair := range pairs {
		size += len(pair.Key) + len(pair.Value)
	}
	hs.sizes.Lock()
	defer hs.sizes.Unlock()
	hs.average = (hs.average + size/len(pairs)) / 2
}

// fitting returns about how many pairs have so many bytes.
func (hs *hints) fitting(size int) int {
	hs.sizes.Lock()
	defer hs.sizes.Unlock()
	if hs.average == 0 {
		return size / unknownPair
	}
	return size / hs.average
}

// scale tells how far apart keys are, taken as numbers: the 8 bytes behind what
// the keys of a page had in common. The zero value knows nothing.
type scale struct {
	common int    // bytes
	step   uint64 // from one key to the next, on average
}

// scaleOf measures n sorted keys by the first and the last.
func scaleOf(first, last []byte, n int) scale {
	if n < 2 {
		return scale{}
	}
	p := 0
	for p < len(first) && p < len(last) && first[p] == last[p] {
		p++
	}
	step := (number(last[p:]) - number(first[p:])) / uint64(n-1)
	return scale{common: p, step: max(step, 1)}
}

// number is the first 8 bytes of b as a big-endian number.
func number(b []byte) uint64 {
	var window [8]byte
	copy(window[:], b)
	return binary.BigEndian.Uint64(window[:])
}

// above returns a key about n keys above edge, or nil if it can't tell.
func (s scale) above(edge []byte, n int) []byte {
	if s.step == 0 || len(edge) < s.common {
		return nil
	}
	high, far := bits.Mul64(s.step, uint64(n))
	at, carry := bits.Add64(number(edge[s.common:]), far, 1)
	key := bytes.Clone(edge[:s.common])
	for i := len(key) - 1; carry > 0; i-- { // into what edge has in common with no more than its neighbours
		if i < 0 {
			return nil
		}
		key[i]++
		if key[i] > 0 {
			carry = 0
		}
	}
	if high != 0 {
		return nil
	}
	return binary.BigEndian.AppendUint64(key, at)
}

// beyond returns a key behind all that have with edge in common what its neighbours have, but for the last n bytes of that and one
// more: keys may be numbers in digits, of which few follow on a byte.
func (s scale) beyond(edge []byte, n int) []byte {
	last := s.common - n - 1
	if s.step == 0 || last < 0 || len(edge) <= last || edge[last] >= math.MaxUint8-1 {
		return nil
	}
	key := bytes.Clone(edge[:last+1])
	key[last] += 2
	return key
}

// below returns a key about n keys below edge, or nil if it can't tell.
func (s scale) below(edge []byte, n int) []byte {
	if s.step == 0 || len(edge) < s.common {
		return nil
	}
	high, far := bits.Mul64(s.step, uint64(n))
	at, borrow := bits.Sub64(number(edge[s.common:]), far, 0)
	key := bytes.Clone(edge[:s.common])
	if high != 0 || borrow != 0 || at == 0 {
		return key
	}
	return overlay.Least(binary.BigEndian.AppendUint64(key, at), edge)
}

// middle returns a key between two keys, or nil if it finds none.
func middle(low, high []byte) []byte {
	p := 0
	for p < len(low) && p < len(high) && low[p] == high[p] {
		p++
	}
	from, to := number(low[p:]), number(high[p:])
	if to-from < 2 {
		return nil
	}
	return binary.BigEndian.AppendUint64(bytes.Clone(high[:p]), from+(to-from)/2)
}
