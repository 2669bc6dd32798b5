package etcd

import "sync"

// bounded is a map of up to maxBounded entries: one more takes the place of any other. What it holds
// may be forgotten at any time. It is safe for concurrent use.
type bounded[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]V
}

const maxBounded = 4096

func (b *bounded[K, V]) get(key K) (V, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.entries[key]
	return v, ok
}

func (b *bounded[K, V]) set(key K, v V) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.entries == nil {
		b.entries = make(map[K]V)
	}
	if _, there := b.entries[key]; !there && len(b.entries) >= maxBounded {
		for other := range b.entries { // any
			delete(b.entries, other)
			break
		}
	}
	b.entries[key] = v
}

func (b *bounded[K, V]) forget(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.entries, key)
}
