package embedded

import "bytes"

// tail is a part of the key space without keys, but for its begin, if that is one.
type tail struct {
	begin, end []byte
	key        bool // whether begin is one
}

// tailBlock has the tails that end behind from, and not behind that of the next block, in
// order. Of each it has what differs from from, since they mostly begin alike:
//
//	how many bytes of end are those of from; how many follow; these;
//	how many bytes of begin are those of end; how many follow, times two, and one if it is a key; these
type tailBlock struct {
	from    []byte
	encoded []byte
	changed uint64 // the version before which one of them was different
	used    bool   // since it was last looked at to be forgotten
	edits   uint32 // how often encoded was changed

	// Where from and encoded are, mostly: who has come to the block reads on there. Against
	// memory of their own, and 2 KB of it, a push among 1,000,000 priorities takes 0.9 of the
	// time with Memory.
	memory [tailBlockSize - 64]byte
}

// newTailBlock returns a block that has nothing.
func newTailBlock(from []byte) *tailBlock {
	b := new(tailBlock)
	n := copy(b.memory[:], from)
	b.from, b.encoded = b.memory[:n:n], b.memory[n:n]
	return b
}

const (
	longestTail   = 200 // bytes of a key: longer ones are not kept
	longestRest   = 60  // and of a begin, beside those of its end
	tailBlockSize = 1 << 10
	tailEntry     = 32 // bytes that a block takes where it is found
	tailSlack     = 32 // and memory for the one more that makes it two
	cacheLine     = 64
)

// fits tells whether the tail can be kept. Four of the longest keys and three rests have 980 bytes:
// with more, the halves of a block that is made two might need other memory. That keys have up to
// 200 bytes, not 127, lets a push among 200,000 priorities of a queue with a name of 120 to 160 take
// 5 to 7 µs of a processor, not 17 to 20, as with a short name.
func (t tail) fits() bool {
	return max(len(t.begin), len(t.end)) <= longestTail && len(t.begin)-prefix(t.end, t.begin) <= longestRest
}

func (b *tailBlock) size() int { return tailBlockSize + tailEntry }

// append appends a tail that ends behind from.
func (b *tailBlock) append(to []byte, t tail) []byte {
	ends := prefix(b.from, t.end)
	to = append(append(to, byte(ends), byte(len(t.end)-ends)), t.end[ends:]...)
	begins := prefix(t.end, t.begin)
	key := 0
	if t.key {
		key = 1
	}
	return append(append(to, byte(begins), byte((len(t.begin)-begins)<<1|key)), t.begin[begins:]...)
}

// endAt returns where the end of the tail at an index is, and where its begin.
func (b *tailBlock) endAt(at int) (from, to int) { return at + 2, at + 2 + int(b.encoded[at+1]) }

// next returns the index behind the tail at an index.
func (b *tailBlock) next(at int) int {
	_, at = b.endAt(at)
	return at + 2 + int(b.encoded[at+1]>>1)
}

// tail returns the one at an index, in a buffer that has room for it.
func (b *tailBlock) tail(at int, buffer []byte) (t tail) {
	from, to := b.endAt(at)
	begins, begin := int(b.encoded[to]), b.encoded[to+2:b.next(at)]
	t.end = append(append(buffer[:0], b.from[:b.encoded[at]]...), b.encoded[from:to]...)
	t.begin = append(append(t.end, t.end[:begins]...), begin...)[len(t.end):]
	t.key = b.encoded[to+1]&1 == 1
	return t
}

// read reads a byte of each line of a block's memory. Mostly that is in no cache, and so a search
// waits for all lines at once, and not for one after the other: with Interval, a push among
// 1,000,000 priorities takes 0.97 of the time.
func (b *tailBlock) read() (sum byte) {
	for i := 0; i < len(b.memory); i += cacheLine {
		sum |= b.memory[i]
	}
	return sum
}

// search returns the index of the first tail that ends behind key, or with before, at it or
// behind. The block's from must not be behind key.
func (b *tailBlock) search(key []byte, before bool) (at int) {
	same := prefix(b.from, key)
	for ; at < len(b.encoded); at = b.next(at) {
		switch ends := int(b.encoded[at]); {
		case ends > same: // key is what from is not before end is, and both are behind it
			continue
		case ends < same:
			return at
		}
		from, to := b.endAt(at)
		if c := bytes.Compare(b.encoded[from:to], key[same:]); c > 0 || c == 0 && before {
			return at
		}
	}
	return at
}
