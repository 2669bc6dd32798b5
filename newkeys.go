package conq

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/tuple"
)

// newKeys is what a transaction needs to make keys of new items.
type newKeys struct {
	key    []byte // of the item that was added last
	random []byte // for the keys of several

	// Of items of a priority queue.
	order      []placed
	priorities []int64 // the different ones, ascending
}

// placed is an item of several that are pushed.
type placed struct {
	priority int64
	index    int
}

// mostDrawn is for how many keys random bytes are drawn at once, at most. That is four
// times as fast as one by one.
const mostDrawn = 64

// draw draws the random bytes of so many keys.
func (k *newKeys) draw(s *store, n int) error {
	n *= recipe.RandomSize
	k.random = slices.Grow(k.random[:0], n)[:n]
	return s.draw(k.random)
}

// make makes a key of a prefix, an integer, and the random bytes of the nth key for which some were
// drawn.
func (k *newKeys) make(prefix []byte, index int64, nth int) []byte {
	random := k.random[nth*recipe.RandomSize:][:recipe.RandomSize]
	k.key = tuple.AppendInt(append(k.key[:0], prefix...), index)
	k.key = tuple.AppendBytes(k.key, random)
	return k.key
}

// sort puts payloads in the order of their keys.
func (k *newKeys) sort(payloads []prioritized) {
	k.order = byPriority(payloads)
	for n, item := range k.order {
		if n == 0 || k.order[n-1].priority != item.priority {
			k.priorities = append(k.priorities, item.priority)
		}
	}
}

// byPriority returns the places of payloads in the order of their priorities, and of one priority
// in their own.
func byPriority(payloads []prioritized) []placed {
	to := make([]placed, len(payloads))
	for i, p := range payloads {
		to[i] = placed{p.priority, i}
	}
	slices.SortStableFunc(to, func(a, b placed) int { return cmp.Compare(a.priority, b.priority) })
	return to
}

// keyAt returns the key of a new item with the given integers, packed.
func (s *store) keyAt(place []byte) ([]byte, error) {
	var random [recipe.RandomSize]byte
	if err := s.draw(random[:]); err != nil {
		return nil, err
	}
	prefix := s.prefix()
	key := make([]byte, 0, len(prefix)+len(place)+2*len(random)+2+9) // room for pieces
	key = append(key, prefix...)
	key = append(key, place...)
	return tuple.AppendBytes(key, random[:]), nil
}

// draw fills random.
func (s *store) draw(random []byte) error {
	if _, err := io.ReadFull(s.random, random); err != nil {
		return fmt.Errorf("conq: queue %q: no random bytes for a key: %w", s.name, err)
	}
	return nil
}
