package linear

import "iter"

// state is a possible state of the queue.
type state struct {
	// present are the items that are there, ascending: record bytes each.
	present slots
	// going are those that takes have chosen, but not removed.
	going slots
	// lossy is how many items takes of unknown outcome may still remove at each
	// end.
	lossy [2]uint16
}

// slot is an item that is there, with what has been learnt of its order: it was
// put before all that item early was put before, and after all that item late
// was put after. At first both are the item itself.
type slot struct{ item, early, late int }

// record is the size of a slot: three numbers of two bytes, high byte first.
const record = 6

// slots are items, ascending by item: record bytes each.
type slots string

func (s slots) len() int { return len(s) / record }

func (s slots) at(i int) slot {
	b := string(s[i*record:])
	return slot{number(b), number(b[2:]), number(b[4:])}
}

func number(b string) int { return int(b[0])<<8 | int(b[1]) }

// all returns the items.
func (s slots) all() iter.Seq[slot] {
	return func(yield func(slot) bool) {
		for i := range s.len() {
			if !yield(s.at(i)) {
				return
			}
		}
	}
}

// find returns where an item is, or would be, and whether it is one of them.
func (s slots) find(item int) (int, bool) {
	low, high := 0, s.len()
	for low < high {
		if middle := (low + high) / 2; s.at(middle).item < item {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, low < s.len() && s.at(low).item == item
}

// with returns the items and one more.
func (s slots) with(x slot) slots {
	i, _ := s.find(x.item)
	b := append(make([]byte, 0, len(s)+record), s[:i*record]...)
	return slots(append(x.append(b), s[i*record:]...))
}

// without returns the items but the i-th.
func (s slots) without(i int) slots { return s[:i*record] + s[(i+1)*record:] }

func (s slot) append(b []byte) []byte {
	for _, n := range [...]int{s.item, s.early, s.late} {
		b = append(b, byte(n>>8), byte(n))
	}
	return b
}
