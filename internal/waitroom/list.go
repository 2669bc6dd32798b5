package waitroom

// list is those who wait. Anybody may leave it, and all may at once.
type list[V any] struct {
	first, last *waiter[V]
	length      int
}

func (l *list[V]) add(w *waiter[V]) {
	w.prev, w.waits = l.last, true
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
	l.length++
}

// remove tells whether w was in the list.
func (l *list[V]) remove(w *waiter[V]) bool {
	if !w.waits {
		return false
	}
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.waits = nil, nil, false
	l.length--
	return true
}
