package cache

import (
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

var all = kv.Range{Begin: []byte("a"), End: []byte("z")}

// A commit can take items from the head of a short queue and add many, all of them in the cache.
func TestReplaced(t *testing.T) {
	s := newStore(Usual)
	taken := Usual.Gap
	s.set(nil, items("q", 0, 2*taken)...)
	s.read(all, false, 4*taken)
	s.commit(func(o *overlay.Overlay) {
		for i := range taken {
			o.Clear(item("q", i))
		}
		for _, key := range items("q", 2*taken, Usual.Pairs+2*taken) {
			o.Set(key, nil)
		}
	})
	missed := s.missed
	if got, want := keysOf(s.read(all, false, 1<<20)), s.keys(all); !slices.Equal(got, want) {
		t.Errorf("%d items are there, want %d", len(got), len(want))
	}
	if s.missed > missed {
		t.Error("not all were in the cache: the test tests too little")
	}
}

// The tails of many queues stay in the cache while they are filled, though what was there at first is
// all of them together, and they are larger than what is kept.
func TestTails(t *testing.T) {
	testkit.Long(t)
	limits := Usual
	limits.Bytes = 1 << 20
	s := newStore(limits)
	const queues = 100
	s.read(all, false, 1)
	s.missed = 0
	for i := range 20_000 {
		queue := fmt.Sprintf("q%02d", i%queues)
		r := kv.PrefixRange([]byte(queue))
		if last := s.last(r, r); (last == nil) != (i < queues) {
			t.Fatalf("item %d: the last before it is %q", i, last)
		}
		s.set(make([]byte, 100), item(queue, i))
		if s.bytes > limits.Bytes {
			t.Fatalf("%d bytes are in the cache", s.bytes)
		}
	}
	if s.missed > 0 {
		t.Errorf("%d of the last items were not in the cache", s.missed)
	}
}

// Short queues stay in the cache, each as a whole, once their heads were read, as long as there is room
// for all; and those which are not read any more make room for others.
func TestShortQueues(t *testing.T) {
	const queues, each = 400, 10
	limits := Usual
	limits.Bytes = 220 * (rangeSize + each*NewPair(item("q000", 0), make([]byte, 100)).size())
	s := newStore(limits)
	for i := range queues {
		s.set(make([]byte, 100), items(fmt.Sprintf("q%03d", i), 0, each)...)
	}
	s.forget()
	// read looks at the first of some queues and returns how many were not in the cache.
	read := func(from, to int) int {
		missed := s.missed
		for i := from; i < to; i++ {
			if found := s.read(kv.PrefixRange(fmt.Appendf(nil, "q%03d", i)), false, 1); len(found) != 1 {
				t.Fatalf("queue %d begins with %q", i, keysOf(found))
			}
		}
		if s.bytes > limits.Bytes {
			t.Errorf("%d bytes are in the cache", s.bytes)
		}
		return s.missed - missed
	}
	if missed := read(0, 215); missed != 215 {
		t.Errorf("%d queues were not there at first, want 215", missed)
	}
	for range 3 {
		if missed := read(0, 215); missed > 0 {
			t.Errorf("%d queues were not there any more, and there is room for all", missed)
		}
	}
	read(215, 400)
	read(215, 400)
	if missed := read(215, 400); missed > 0 {
		t.Errorf("%d queues were not there any more, and only others were not read", missed)
	}
	if missed := read(0, 215); missed < 150 { // 185 others are there
		t.Errorf("only %d queues were not there any more, and there was room for 220 of 400", missed)
	}
}

func priority(i int) kv.Range { return kv.PrefixRange(fmt.Appendf(nil, "p%d/", i)) }

// Items that come before all others, where some were taken, don't have a hot range cut, to be put
// together again when they are taken.
func TestNotCutForFirst(t *testing.T) {
	s := newStore(Usual)
	s.set(nil, items("p5", 0, 5000)...)
	for range 700 {
		s.pop(t, all, false)
	}
	whole := s.ranges.holding(all.Begin, false)
	if len(whole.pairs) <= Usual.Between {
		t.Fatalf("%d pairs are hot: the test tests nothing", len(whole.pairs))
	}
	for i := range 50 {
		p := 1 + i%3
		s.last(priority(p), all)
		s.set(nil, item(fmt.Sprint("p", p), 0))
		if got := s.pop(t, all, false); got.Key()[1] != byte('0'+p) {
			t.Fatalf("the first is %q, want of priority %d", got.Key(), p)
		}
		if s.ranges.holding(all.Begin, false) != whole {
			t.Fatalf("after %d items the range was cut", i+1)
		}
	}
}

// A hot range is not cut where a priority ends, if no pair lies behind that: it would be put together
// again as soon as the last item is taken, which pushes and pops by turns do.
func TestNotCutForLast(t *testing.T) {
	s := newStore(Usual)
	const n = 500
	s.set(nil, items("p5", 0, n)...)
	for range n / 4 {
		s.pop(t, all, true)
	}
	whole := s.ranges.holding(priority(5).End, true)
	if len(whole.pairs) <= Usual.Inner || string(whole.end) == string(priority(5).End) {
		t.Fatalf("%d pairs are hot up to %q: the test tests nothing", len(whole.pairs), whole.end)
	}
	for i := range 50 {
		if s.last(priority(5), all) == nil {
			t.Fatal("there is no last item")
		}
		s.set(nil, item("p5", n))
		s.pop(t, all, true)
		if s.ranges.holding(priority(5).End, true) != whole {
			t.Fatalf("after %d items the range was cut", i+1)
		}
	}
}

// To ask for the last keys of ranges that have none, or one, as a push among many priorities does,
// needs the store a few times only, whatever the order, and however many are asked for before any is
// set; this is still known once they are evicted; and an item comes to the middle of a short range.
func TestManyPriorities(t *testing.T) {
	testkit.Long(t)
	const n = 10_000
	ascending := func(i int) int { return i }
	mixed := func(i int) int { return i * 7919 % n }
	for _, order := range []struct {
		name   string
		next   func(i int) int
		atOnce int
	}{
		{"ascending", ascending, 1},
		{"descending", func(i int) int { return n - 1 - i }, 1},
		{"mixed", mixed, 1},
		{"ascending, all at once", ascending, n / 2},
		{"mixed, many at once", mixed, 2000},
	} {
		t.Run(order.name, func(t *testing.T) {
			limits := Usual
			limits.Bytes = 256 << 10
			s := newStore(limits)
			of := func(i int) kv.Range {
				return kv.Range{Begin: fmt.Appendf(nil, "p%08d\x00", i), End: fmt.Appendf(nil, "p%08d\xff", i)}
			}
			longest := 0
			push := func(some []int, turn int) (missed int) {
				var keys [][]byte
				for _, i := range some {
					if _, known := s.LastKey(of(i), s.version); !known {
						missed++
					}
					last := s.last(of(i), all)
					if want := fmt.Sprintf("p%08d\x00%d", i, turn-1); (string(last) != want) != (turn == 0) || (last == nil) != (turn == 0) {
						t.Fatalf("%d: the last key is %q", i, last)
					}
					keys = append(keys, fmt.Appendf(nil, "p%08d\x00%d", i, turn))
				}
				s.set(make([]byte, 100), keys...)
				if order.atOnce == 1 && order.name != "descending" && turn == 0 && some[0]%100 == 0 {
					s.ranges.Scan(func(h *hotRange) bool { longest = max(longest, len(h.pairs)); return true })
				}
				return missed
			}
			turn := func(which, turn, most int) {
				var numbers []int
				for i := range n / 2 {
					numbers = append(numbers, order.next(i)*2%n+which)
				}
				missed := 0
				for some := range slices.Chunk(numbers, order.atOnce) {
					missed += push(some, turn)
				}
				if missed > most || s.ranges.Len() > n/4 {
					t.Errorf("turn %d: %d of %d were not known, want %d at most; there are %d hot ranges", turn, missed, n/2, most, s.ranges.Len())
				}
			}
			turn(0, 0, 1)
			turn(0, 1, n/50)
			turn(0, 2, n/50)
			s.forget()
			turn(1, 0, n/2)
			turn(1, 1, n/50)
			if most := limits.Between + 2; longest > most {
				t.Errorf("a range had %d pairs, want %d at most", longest, most)
			}
		})
	}
}

// Of a queue that was empty when its last item was asked for, and of what is left where once there were
// many priorities, only the last key stays known.
func TestFewPriorities(t *testing.T) {
	s := newStore(Usual)
	of := func(i int) kv.Range { return kv.PrefixRange(fmt.Appendf(nil, "p%03d/", i)) }
	set := func(r, among kv.Range, from, to int) {
		s.last(r, among)
		s.set(nil, items(string(r.Begin), from, to)...)
	}
	clear := func(r kv.Range) { s.commit(func(o *overlay.Overlay) { o.ClearRange(r) }) }
	many := func(r kv.Range) (pairs int, many bool) {
		h := s.ranges.holding(r.End, true)
		return len(h.pairs), h.manyLast()
	}

	queue := kv.PrefixRange([]byte("b queue"))
	for range 20 {
		set(queue, queue, 0, 3)
		if n, so := many(queue); n != 3 || so {
			t.Fatalf("a queue of %d items has many last ones: %v", n, so)
		}
		clear(queue)
	}

	for i := range 200 {
		set(of(i), all, 0, 1)
		clear(of(i))
		set(of(i), all, 0, 1)
		if i > 8 {
			clear(of(i - 8))
		}
	}
	if n, so := many(of(199)); n > 10 || !so {
		t.Fatalf("%d items of as many priorities have many last ones: %v", n, so)
	}
	set(of(199), all, 1, 200)
	if n, so := many(of(199)); n < 50 || so {
		t.Errorf("%d items, mostly of one priority, have many last ones: %v", n, so)
	}
}

// When a part of the range of a last key is hot, what lies before that is known as it was, and what lies
// behind it is hot, too, for a reader at the last key's version or later.
func TestLastKeyYields(t *testing.T) {
	of := func(begin, end string) kv.Range { return kv.Range{Begin: []byte(begin), End: []byte(end)} }
	for _, reverse := range []bool{false, true} {
		c := New(Usual, NewGaps())
		c.lastKeys.add([]byte("a"), []byte("z"), true, 5)
		cur := NewCursor(of("f", "k"), reverse)
		c.Fill(cur, nil, cur.End, 3)
		for _, w := range []struct {
			r       kv.Range
			version uint64
			key     string
			known   bool
		}{
			{of("f", "k"), 5, "", true},
			{of("g", "z"), 5, "", true},
			{of("x", "y"), 5, "", true},
			{of("g", "z"), 4, "", false},
			{of("x", "y"), 4, "", false},
			{of("a", "f"), 5, "a", true},
			{of("b", "e"), 5, "", true},
			{of("a", "f"), 4, "", false},
		} {
			if key, known := c.LastKey(w.r, w.version); string(key) != w.key || known != w.known {
				t.Errorf("reverse: %v; the last key from %q to %q at version %d is %q, known: %v; want %q, %v",
					reverse, w.r.Begin, w.r.End, w.version, key, known, w.key, w.known)
			}
		}
		if h := c.ranges.holding([]byte("y"), false); h == nil || string(h.end) != "z" {
			t.Errorf("reverse: %v; what lies behind is not hot", reverse)
		}
	}
}
