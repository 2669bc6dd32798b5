package embedded

import (
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// pair is a key and a value, neither to be changed. The key has a zero byte behind
// it, which makes the key that follows it. The value of a large pair is nil.
type pair struct {
	after, value []byte

	number uint64 // of the write in the backlog, if nothing was there before, or 0
}

func (p pair) large() bool { return p.value == nil }

func (p pair) key() []byte { return p.after[: len(p.after)-1 : len(p.after)-1] }

// size is about what a pair takes in memory.
func (p pair) size() int { return len(p.after) + len(p.value) + pairSize }

const pairSize = 64 // bytes that a pair takes beside its key and value

// copied returns the pair in one new slice of the caller's.
func (p pair) copied() kv.KeyValue {
	n := len(p.after) - 1
	buf := make([]byte, n+len(p.value))
	copy(buf, p.after[:n])
	copy(buf[n:], p.value)
	return kv.KeyValue{Key: buf[:n:n], Value: buf[n:]}
}

func newPair(key, value []byte) pair { return new(pairs).new(key, value) }

// pairs makes several pairs in one piece of memory, as they mostly go together.
type pairs struct {
	free []byte
	next int // how much to allocate next
}

// pairsChunk bounds what one pair that stays keeps of those that have gone.
const pairsChunk = 4 << 10

func (m *pairs) new(key, value []byte) pair {
	n := len(key) + 1
	size := n + len(value)
	if size > len(m.free) {
		m.free = make([]byte, max(size, m.next))
		m.next = min(max(2*m.next, 4*size), pairsChunk)
	}
	buf := m.free[:size:size]
	m.free = m.free[size:]
	copy(buf, key)
	copy(buf[n:], value)
	return pair{after: buf[:n:n], value: buf[n:]}
}

// pair returns what is worth keeping of a pair.
func (n *near) pair(m *pairs, key, value []byte) pair {
	if len(value) <= n.most.value {
		return m.new(key, value)
	}
	p := m.new(key, nil)
	p.value = nil
	return p
}

// written returns what is worth keeping of a pair that was written. It is not copied.
func (n *near) written(c *overlay.Change) pair {
	p := pair{after: c.Key[:len(c.Key)+1], value: c.Value}
	if len(p.value) > n.most.value {
		p.value = nil
	}
	return p
}
