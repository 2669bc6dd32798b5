package embedded

// index finds stretches by the hashes of their bounds. It is a table with linear probing, at
// most half full, and at least an eighth, unless it is small: to look one up reads one line of
// memory, mostly. Of two stretches with one hash it has the one that was set last: who needs the
// other has the tree. With Memory, an enqueue on any of 1,000 queues takes 0.9 of the time of one
// with maps from bounds.
type index struct {
	slots []slot // a power of two, or none
	used  int
}

type slot struct {
	hash uint64
	s    *stretch // or nil
}

// find returns where a hash is, or where it belongs.
func (x *index) find(hash uint64) int {
	i := int(hash) & (len(x.slots) - 1)
	for x.slots[i].s != nil && x.slots[i].hash != hash {
		i = (i + 1) & (len(x.slots) - 1)
	}
	return i
}

func (x *index) get(hash uint64) *stretch {
	if x.used == 0 {
		return nil
	}
	return x.slots[x.find(hash)].s
}

func (x *index) set(hash uint64, s *stretch) {
	if 2*x.used >= len(x.slots) {
		x.resize(max(minSlots, 2*len(x.slots)))
	}
	i := x.find(hash)
	if x.slots[i].s == nil {
		x.used++
	}
	x.slots[i] = slot{hash, s}
}

// minSlots is how many slots there are at least.
const minSlots = 16

func (x *index) resize(slots int) {
	old := x.slots
	x.slots = make([]slot, slots)
	for _, o := range old {
		if o.s != nil {
			x.slots[x.find(o.hash)] = o
		}
	}
}

// remove removes a stretch, if it is what is found by its hash. What comes behind it moves
// closer to where it belongs.
func (x *index) remove(hash uint64, s *stretch) {
	if x.get(hash) != s {
		return
	}
	x.used--
	last := len(x.slots) - 1
	gap := x.find(hash)
	for i := (gap + 1) & last; x.slots[i].s != nil; i = (i + 1) & last {
		if home := int(x.slots[i].hash); (i-home)&last >= (i-gap)&last {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = slot{}
	if 8*x.used < len(x.slots) && len(x.slots) > minSlots {
		x.resize(len(x.slots) / 2)
	}
}
