package linear

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
	"github.com/conq-go/conq/queue"
)

// model is the specification of one queue, for one history of it.
type model struct {
	fifoTies bool
	lifo     bool // the last of equals is taken somewhere in the history
	twoSteps bool
	items    []entry
	index    map[string]int // of items by value
}

// entry is an item with what its order follows from.
type entry struct {
	Item
	call, ret int64 // of its put
	place     int   // in its put
	kept      bool  // nobody is known to have taken it
}

// step is a call as the model sees it.
type step struct {
	Op
	indexes []int // of Items; -1 for one that was never put
	slack   int   // of Len: items that may be there although no put of them is left
	part    part  // of a Take in two steps
}

// part is a step of a take.
type part int

const (
	whole   part = iota
	chooses      // its items are nobody else's from here on
	removes      // from here on, those that look don't see them
)

var seed = maphash.MakeSeed()

// prepare turns a history into the operations that have to be explained and the
// model that has to explain them.
func prepare(h History) (porcupine.Model, []porcupine.Operation, error) {
	ops := slices.Clone(h.Ops)
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	unseen := settle(ops)
	m := &model{fifoTies: h.FIFOTies, twoSteps: h.TwoSteps, index: make(map[string]int)}
	m.lifo = slices.ContainsFunc(ops, func(op Op) bool { return op.Kind == Take && m.last(op.End) })
	if err := m.number(ops, unseen); err != nil {
		return porcupine.Model{}, nil, err
	}
	var steps []porcupine.Operation
	for i, op := range ops {
		s := m.step(op)
		switch {
		case unseen[i], op.Kind == Take && op.Unknown && !m.anyKept():
			continue
		case op.Kind == Take && op.Unknown:
			op.Return = op.Call // it is a permission, and valid from then on
		case op.Kind == Len:
			s.slack = slack(ops, unseen, op.Return)
		case h.TwoSteps && op.Kind == Take && len(op.Items) > 0 && slices.ContainsFunc(ops, op.isSeenBy):
			s.part = removes
			steps = append(steps, s.operation(op))
			s.part = chooses
		}
		steps = append(steps, s.operation(op))
	}
	return m.porcupine(), steps, nil
}

func (s step) operation(op Op) porcupine.Operation {
	return porcupine.Operation{ClientId: op.Client, Input: s, Call: op.Call, Return: op.Return}
}

// isSeenBy tells whether another call looks while this one is under way.
func (o Op) isSeenBy(other Op) bool {
	return other.looks() && other.Call < o.Return && o.Call < other.Return
}

// settle finds out what became of puts of unknown outcome: one whose items were
// seen has happened before that. It corrects their Return, and returns which
// ones were not seen.
func settle(ops []Op) (unseen []bool) {
	first := make(map[string]int64) // when a value was seen first
	for _, op := range ops {
		if op.Kind == Put || op.Unknown {
			continue
		}
		for _, item := range op.Items {
			if at, seen := first[item.Value]; !seen || op.Return < at {
				first[item.Value] = op.Return
			}
		}
	}
	unseen = make([]bool, len(ops))
	for i := range ops {
		op := &ops[i]
		if op.Kind != Put || !op.Unknown {
			continue
		}
		op.Return = math.MaxInt64
		for _, item := range op.Items {
			if at, seen := first[item.Value]; seen {
				op.Return = min(op.Return, max(at, op.Call))
			}
		}
		unseen[i] = op.Return == math.MaxInt64
	}
	return unseen
}

// number gives each item that was put its index.
func (m *model) number(ops []Op, unseen []bool) error {
	taken := make(map[string]bool)
	for i, op := range ops {
		for place, item := range op.Items {
			switch {
			case op.Kind == Take && !op.Unknown:
				taken[item.Value] = true
			case op.Kind == Put && !unseen[i]:
				if _, twice := m.index[item.Value]; twice {
					return fmt.Errorf("linear: value %q was put twice: values must be unique", item.Value)
				}
				m.index[item.Value] = len(m.items)
				m.items = append(m.items, entry{item, op.Call, op.Return, place, false})
			}
		}
	}
	if len(m.items) > math.MaxUint16 {
		return fmt.Errorf("linear: %d items were put: at most %d are allowed", len(m.items), math.MaxUint16)
	}
	for i := range m.items {
		m.items[i].kept = !taken[m.items[i].Value]
	}
	return nil
}

func (m *model) anyKept() bool {
	return slices.ContainsFunc(m.items, func(e entry) bool { return e.kept })
}

func (m *model) step(op Op) step {
	s := step{Op: op}
	for _, item := range op.Items {
		i, ok := m.index[item.Value]
		if !ok || item.Priority != Untold && item.Priority != m.items[i].Priority {
			i = -1
		}
		s.indexes = append(s.indexes, i)
	}
	return s
}

// slack returns how many items of puts that nobody has seen may have been there
// at a time.
func slack(ops []Op, unseen []bool, at int64) (n int) {
	for i, op := range ops {
		if unseen[i] && op.Call < at {
			n += len(op.Items)
		}
	}
	return n
}

// porcupine returns the model as the checker wants it.
func (m *model) porcupine() porcupine.Model {
	nm := porcupine.NondeterministicModel{
		Init: func() []any { return []any{state{}} },
		Step: func(from, in, _ any) []any { return m.next(from.(state), in.(step)) },
		Hash: func(s any) uint64 { return maphash.Comparable(seed, s.(state)) },
		DescribeOperation: func(in, _ any) string {
			return in.(step).String()
		},
		DescribeState: func(s any) string { return m.describe(s.(state)) },
	}
	return nm.ToModel()
}

func (m *model) describe(s state) string {
	text := m.names(s.present)
	if s.going != "" {
		text += " going: " + m.names(s.going)
	}
	return text
}

func (m *model) names(all slots) string {
	var names []string
	for slot := range all.all() {
		names = append(names, m.items[slot.item].String())
	}
	return "[" + strings.Join(names, " ") + "]"
}

// next returns the states in which the queue may be after a call.
func (m *model) next(from state, s step) (to []any) {
	for _, st := range m.losses(from) {
		if after, ok := m.after(st, s); ok {
			to = append(to, after)
		}
	}
	return to
}

// losses returns from, and what takes of unknown outcome may have made of it.
func (m *model) losses(from state) []state {
	all := []state{from}
	add := func(s state) {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	for i := 0; i < len(all); i++ {
		for end, n := range all[i].lossy {
			if n == 0 {
				continue
			}
			for at := range all[i].present.len() {
				if !m.items[all[i].present.at(at).item].kept || !m.mayGo(all[i].present, at, queue.End(end)) {
					continue
				}
				less := m.choose(all[i], at, queue.End(end))
				less.lossy[end]--
				if !m.twoSteps {
					less.going = ""
				}
				add(less)
			}
		}
		for at := range all[i].going.len() { // what nobody is known to have taken, such takes have
			if m.items[all[i].going.at(at).item].kept {
				gone := all[i]
				gone.going = gone.going.without(at)
				add(gone)
			}
		}
	}
	return all
}

// after returns the state after a call, and whether the call may return what it
// did.
func (m *model) after(st state, s step) (state, bool) {
	switch {
	case s.Kind == Put:
		for _, i := range s.indexes {
			st.present = st.present.with(slot{i, i, i})
		}
		return st, true
	case s.Kind == Len:
		n := st.present.len() + st.going.len()
		return st, n <= s.Length && s.Length <= n+s.slack
	case s.Unknown:
		st.lossy[s.End] += uint16(s.N)
		return st, true
	case s.Kind == Take && len(s.Items) == 0:
		return st, st.present == ""
	case len(s.Items) == 0:
		return st, st.present == "" && st.going == ""
	case s.Kind == Peek:
		there := st.present
		for slot := range st.going.all() {
			there = there.with(slot)
		}
		at, found := there.find(s.indexes[0])
		return st, found && m.mayGo(there, at, s.End)
	default:
		return m.take(st, s)
	}
}

// take returns the state after items were taken one by one, at once.
func (m *model) take(st state, s step) (state, bool) {
	if len(s.indexes) > s.N {
		return st, false
	}
	for _, item := range s.indexes {
		if s.part != removes {
			at, there := st.present.find(item)
			if !there || !m.mayGo(st.present, at, s.End) {
				return st, false
			}
			st = m.choose(st, at, s.End)
		}
		if s.part != chooses {
			at, chosen := st.going.find(item)
			if !chosen {
				return st, false
			}
			st.going = st.going.without(at)
		}
	}
	return st, true
}

// mayGo tells whether no other item has to go before the one at a place.
func (m *model) mayGo(there slots, at int, end queue.End) bool {
	item := there.at(at)
	for other := range there.all() {
		if other != item && m.precedes(other, item, end) {
			return false
		}
	}
	return true
}

// precedes tells whether item a has to go before item b at an end.
func (m *model) precedes(a, b slot, end queue.End) bool {
	x, y := m.items[a.item].Priority, m.items[b.item].Priority
	switch {
	case x != y:
		return x < y == (end == queue.Min)
	case m.last(end):
		return m.before(b, a)
	default:
		return m.before(a, b)
	}
}

// last tells whether the last one of equals goes first at an end.
func (m *model) last(end queue.End) bool { return end == queue.Max && !m.fifoTies }

// before tells whether an item was put before another one.
func (m *model) before(a, b slot) bool {
	if x, y := m.items[a.item], m.items[b.item]; x.call == y.call {
		return x.place < y.place
	}
	return m.items[a.early].ret < m.items[b.late].call
}

// choose returns the state in which the item at a place is going, as the first at an end.
// That tells the order in which those of its priority that stay were
// put. It matters only where the last of equals is taken: if always the first is,
// nothing that came before it can come up again.
func (m *model) choose(st state, at int, end queue.End) state {
	chosen := st.present.at(at)
	st.present, st.going = st.present.without(at), st.going.with(chosen)
	if !m.lifo {
		return st
	}
	b := make([]byte, 0, len(st.present))
	for s := range st.present.all() {
		if m.items[s.item].Priority == m.items[chosen.item].Priority {
			s = m.learn(s, chosen, end)
		}
		b = s.append(b)
	}
	st.present = slots(b)
	return st
}

// learn returns what is known of an item after another one was preferred to it.
func (m *model) learn(s, gone slot, end queue.End) slot {
	switch last := m.last(end); {
	case last && m.items[gone.early].ret < m.items[s.early].ret:
		s.early = gone.early
	case !last && m.items[gone.late].call > m.items[s.late].call:
		s.late = gone.late
	}
	return s
}
