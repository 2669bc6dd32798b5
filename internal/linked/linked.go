// Package linked has lists whose elements know their places in them, so that thousands can leave at
// once, each in O(1), and no memory is needed to enter.
package linked

// List has elements in the order in which they were added. The zero List is empty. It is not safe for
// concurrent use.
type List[T any] struct {
	first, last *Place[T]
	length      int
}

// Place is where an element is in a list, mostly a field of it. The zero Place is in none.
type Place[T any] struct {
	element    *T // nil if it is in no list
	prev, next *Place[T]
}

// Add adds an element behind all others, at its place, which must be in no list.
func (l *List[T]) Add(p *Place[T], element *T) { l.insert(p, element, l.last, nil) }

// AddFirst adds an element before all others.
func (l *List[T]) AddFirst(p *Place[T], element *T) { l.insert(p, element, nil, l.first) }

func (l *List[T]) insert(p *Place[T], element *T, prev, next *Place[T]) {
	p.element, p.prev, p.next = element, prev, next
	*l.onwards(prev), *l.back(next) = p, p
	l.length++
}

// onwards returns the link that leads on from a place, or with none to the first one.
func (l *List[T]) onwards(p *Place[T]) **Place[T] {
	if p == nil {
		return &l.first
	}
	return &p.next
}

// back returns the link that leads back from a place, or with none to the last one.
func (l *List[T]) back(p *Place[T]) **Place[T] {
	if p == nil {
		return &l.last
	}
	return &p.prev
}

// Remove tells whether a place was in the list, and now is not.
func (l *List[T]) Remove(p *Place[T]) bool {
	if !p.Taken() {
		return false
	}
	*l.onwards(p.prev), *l.back(p.next) = p.next, p.prev
	*p = Place[T]{}
	l.length--
	return true
}

// Len returns how many elements there are.
func (l *List[T]) Len() int { return l.length }

// First returns the first element, or nil.
func (l *List[T]) First() *T { return l.first.get() }

// Last returns the last element, or nil.
func (l *List[T]) Last() *T { return l.last.get() }

// Taken tells whether the place is in a list.
func (p *Place[T]) Taken() bool { return p.element != nil }

// Next returns the element behind a place, or nil.
func (p *Place[T]) Next() *T { return p.next.get() }

func (p *Place[T]) get() *T {
	if p == nil {
		return nil
	}
	return p.element
}
