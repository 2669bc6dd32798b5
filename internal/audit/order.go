package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/conq-go/conq/queue"
)

// order reports the takes that another item should have preceded.
func (h *History) order(items []item) Finding {
	f := Finding{Check: "order kept"}
	ahead := make([]int, len(items))
	for i := range ahead {
		ahead[i] = none
	}
	h.priorities(items, ahead)
	for _, group := range byPriority(items) {
		h.ties(items, group, ahead)
	}
	for b, a := range ahead {
		if a == none {
			continue
		}
		f.Add("item %d (priority %d, put %v) was taken at %v, before item %d (priority %d, put %v), taken at %v",
			items[b].ID, items[b].Priority, items[b].Span, items[b].take.Span,
			items[a].ID, items[a].Priority, items[a].Span, items[a].take.Span)
	}
	return f
}

// priorities looks for takes that left a better priority behind.
func (h *History) priorities(items []item, ahead []int) {
	front, back := newSweep(len(items)), newSweep(len(items))
	for i, it := range items {
		// ^x turns the order of x round and, unlike -x, can't overflow.
		front.add(i, it, it.Priority)
		back.add(i, it, ^it.Priority)
		if it.take.From == queue.Min {
			front.ask(i, it.take.Call, it.Priority, it.take.Return)
		} else {
			back.ask(i, it.take.Call, ^it.Priority, it.take.Return)
		}
	}
	front.run(ahead)
	back.run(ahead)
}

// ties looks for takes that left an item of the same priority behind which was
// nearer to the end. group are the indexes of all items of one priority.
func (h *History) ties(items []item, group, ahead []int) {
	first, last := newSweep(len(group)), newSweep(len(group))
	for _, i := range group {
		it := items[i]
		first.add(i, it, 0)
		last.add(i, it, -int64(it.Call))
		if it.take.From == queue.Min {
			first.ask(i, it.Call, 1, it.take.Return)
		} else {
			last.ask(i, it.take.Call, -int64(it.Return), it.take.Return)
		}
	}
	first.run(ahead)
	last.run(ahead)
}

func byPriority(items []item) map[int64][]int {
	groups := make(map[int64][]int)
	for i, it := range items {
		groups[it.Priority] = append(groups[it.Priority], i)
	}
	return groups
}

// empty reports the takes that found nothing where there was something.
func (h *History) empty(items []item) Finding {
	f := Finding{Check: "no false empty"}
	s := newSweep(len(items))
	for i, it := range items {
		s.add(i, it, 0)
	}
	seen := make([]int, len(h.Empties))
	for i, e := range h.Empties {
		seen[i] = none
		s.ask(i, e.Call, 1, e.Return)
	}
	s.run(seen)
	for i, a := range seen {
		if a != none {
			f.Add("the take at %v found nothing, though item %d was put at %v and not taken before %v",
				h.Empties[i], items[a].ID, items[a].Span, items[a].take.Span)
		}
	}
	return f
}

// none stands for no item.
const none = -1

// sweep answers questions of the form: which item was put before a moment, has a
// key below a bound, and is taken after another moment?
type sweep struct {
	points    []point
	questions []question
}

type point struct {
	item      int
	put       time.Duration // when the put had returned
	key       int64
	takenFrom time.Duration // when the take began
}

type question struct {
	index      int // in the answers
	put, taken time.Duration
	below      int64
}

func newSweep(n int) *sweep { return &sweep{points: make([]point, 0, n)} }

func (s *sweep) add(i int, it item, key int64) {
	s.points = append(s.points, point{i, it.Return, key, it.take.Call})
}

func (s *sweep) ask(index int, put time.Duration, below int64, taken time.Duration) {
	s.questions = append(s.questions, question{index, put, taken, below})
}

// run writes an item that answers a question to answers[index], and leaves
// those alone for which there is none.
func (s *sweep) run(answers []int) {
	keys := make([]int64, len(s.points))
	for i, p := range s.points {
		keys[i] = p.key
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	slices.SortFunc(s.points, func(a, b point) int { return cmp.Compare(a.put, b.put) })
	slices.SortFunc(s.questions, func(a, b question) int { return cmp.Compare(a.put, b.put) })
	tree := make(fenwick, len(keys))
	next := 0
	for _, q := range s.questions {
		for ; next < len(s.points) && s.points[next].put < q.put; next++ {
			rank, _ := slices.BinarySearch(keys, s.points[next].key)
			tree.add(rank, s.points[next])
		}
		rank, _ := slices.BinarySearch(keys, q.below)
		if p, ok := tree.latest(rank); ok && p.takenFrom > q.taken {
			answers[q.index] = p.item
		}
	}
}

// fenwick is a Fenwick tree of the points that are taken last.
type fenwick []*point

func (t fenwick) add(rank int, p point) {
	for i := rank; i < len(t); i |= i + 1 {
		if t[i] == nil || p.takenFrom > t[i].takenFrom {
			t[i] = &p
		}
	}
}

// latest returns the point taken last of those whose rank is below n.
func (t fenwick) latest(n int) (last point, ok bool) {
	for i := n - 1; i >= 0; i = i&(i+1) - 1 {
		if t[i] != nil && (!ok || t[i].takenFrom > last.takenFrom) {
			last, ok = *t[i], true
		}
	}
	return last, ok
}
