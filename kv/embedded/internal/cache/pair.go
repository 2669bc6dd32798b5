package cache

import "github.com/conq-go/conq/kv/internal/overlay"

// Pair is a key and a value, neither to be changed.
type Pair struct {
	after []byte // the key, and a zero byte
	value []byte // nil if it is large

	number uint64 // of the write in the backlog, if nothing was there before, or 0
}

// pairSize is how many bytes a pair takes beside its key and value.
const pairSize = 64

// NewPair returns a pair in memory of its own, which has the value, however large it is.
func NewPair(key, value []byte) Pair {
	n := len(key) + 1
	buf := make([]byte, n+len(value))
	copy(buf, key)
	copy(buf[n:], value)
	return Pair{after: buf[:n:n], value: buf[n:]}
}

// Key returns the pair's key.
func (p Pair) Key() []byte { return p.after[: len(p.after)-1 : len(p.after)-1] }

// After returns the key that follows the pair's.
func (p Pair) After() []byte { return p.after }

// Value returns the pair's value, or nil if it is Large.
func (p Pair) Value() []byte { return p.value }

// Large tells whether the value is too large for the cache.
func (p Pair) Large() bool { return p.value == nil }

func (p Pair) size() int { return len(p.after) + len(p.value) + pairSize }

// Pair returns what the cache keeps of a pair, in memory of its own.
func (c *Cache) Pair(key, value []byte) Pair {
	if len(value) <= c.limits.Value {
		return NewPair(key, value)
	}
	return LargePair(key)
}

// LargePair returns what the cache keeps of a pair with a large value, in memory of its own.
func LargePair(key []byte) Pair {
	p := NewPair(key, nil)
	p.value = nil
	return p
}

// written returns what the cache keeps of a pair that was written: in the memory that it has, unless the value is large, as the
// key would keep that.
func (c *Cache) written(o *overlay.Change) Pair {
	if len(o.Value) > c.limits.Value {
		return c.Pair(o.Key, o.Value)
	}
	return Pair{after: o.Key[:len(o.Key)+1], value: o.Value}
}
