package embedded

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// TestNearReplaced checks that a transaction can take items from the head of a short
// queue and add many, all of them near.
func TestNearReplaced(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	put := func(tx kv.Tx, from, to int) {
		for i := from; i < to; i++ {
			tx.Set(fmt.Appendf(nil, "q%08d", i), nil)
		}
	}
	taken, all := usualSizes.dead, usualSizes.pairs
	mustTransact(t, db, func(tx kv.Tx) { put(tx, 0, 2*taken) })
	contents(t, db) // so they are near
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range taken {
			tx.Clear(fmt.Appendf(nil, "q%08d", i))
		}
		put(tx, 2*taken, all+2*taken)
	})
	for _, what := range []string{"near", "near no more"} {
		if n, want := len(contents(t, db)), all+taken; n != want {
			t.Errorf("%s: %d items are there, want %d", what, n, want)
		}
		db.near = newNear()
	}
}

// TestNearTails checks that the tails of many queues stay near while they are filled, though
// what was near at first is all of them together, and they are larger than what is kept.
func TestNearTails(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	db.near.most.bytes = 1 << 20
	const queues = 100
	tail := func(i int) kv.Range {
		return kv.Range{Begin: fmt.Appendf(nil, "%02d/", i%queues), End: fmt.Appendf(nil, "%02d0", i%queues)}
	}
	contents(t, db)
	missed := 0
	for i := range 20_000 {
		mustTransact(t, db, func(tx kv.Tx) {
			kv.Lazily(tx)
			if _, known := db.near.last(tail(i), db.version); !known {
				missed++
			}
			if last, err := kv.LastKey(tx.Snapshot(), tail(i), tail(i)); (last == nil) != (i < queues) || err != nil {
				t.Fatalf("item %d: the last before it is %q, %v", i, last, err)
			}
			tx.Set(fmt.Appendf(nil, "%02d/%08d", i%queues, i), make([]byte, 100))
		})
	}
	if missed > 0 || db.near.size > db.near.most.bytes {
		t.Errorf("%d of the last items were not near, and %d bytes are", missed, db.near.size)
	}
}

// TestNearShort checks that short queues stay near, each as a whole, once their heads were read, as
// long as there is room for all; and that those which are not read any more make room for others.
func TestNearShort(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	db.ahead = nil
	const queues, items = 400, 10
	queue := func(i int) kv.Range { return kv.PrefixRange(fmt.Appendf(nil, "%04d/", i)) }
	for i := range queues {
		mustTransact(t, db, func(tx kv.Tx) {
			for j := range items {
				tx.Set(fmt.Appendf(nil, "%04d/%08d", i, j), make([]byte, 100))
			}
		})
	}
	each := stretchSize + items*newPair([]byte("0000/00000000"), make([]byte, 100)).size()
	db.near = newNear()
	db.near.most.bytes = 220 * each
	// read looks at the first of some queues and returns of how many it was not near.
	read := func(from, to int) (missed int) {
		for i := from; i < to; i++ {
			mustTransact(t, db, func(tx kv.Tx) {
				if db.near.holding(queue(i).Begin, false) == nil {
					missed++
				}
				if pair, ok, err := first(tx.Snapshot(), queue(i), false); !ok || err != nil || len(pair.Value) != 100 {
					t.Fatalf("queue %d begins with %q, %v", i, pair.Key, err)
				}
			})
		}
		if n := db.near; n.size > n.most.bytes {
			t.Errorf("%d bytes are near", n.size)
		}
		return missed
	}
	if missed := read(0, 215); missed != 215 {
		t.Errorf("%d queues were not near at first, want 215", missed)
	}
	for range 3 {
		if missed := read(0, 215); missed > 0 {
			t.Errorf("%d queues were not near any more, and there is room for all", missed)
		}
	}
	read(215, 400)
	read(215, 400)
	if missed := read(215, 400); missed > 0 {
		t.Errorf("%d queues were not near any more, and only others were not read", missed)
	}
	if missed := read(0, 215); missed < 150 { // 185 others are near
		t.Errorf("only %d queues were not near any more, and there was room for 220 of 400", missed)
	}
}

// TestNearDrained checks that items which come before all others, where some were taken, don't
// have what is near cut, to be put together again when they are taken.
func TestNearDrained(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	db.ahead = nil // nothing is fetched that is not asked for
	all := kv.PrefixRange([]byte("p"))
	of := func(priority int) kv.Range {
		return kv.Range{Begin: fmt.Appendf(nil, "p%d", priority), End: fmt.Appendf(nil, "p%d", priority+1)}
	}
	push := func(priority, n int) {
		mustTransact(t, db, func(tx kv.Tx) {
			kv.Lazily(tx)
			if _, err := kv.LastKey(tx.Snapshot(), of(priority), all); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				tx.Set(fmt.Appendf(nil, "p%d/%08d", priority, i), nil)
			}
		})
	}
	pop := func(want int) {
		mustTransact(t, db, func(tx kv.Tx) {
			kv.Lazily(tx)
			pair, ok, err := first(tx, all, false)
			if !ok || err != nil || pair.Key[1] != byte('0'+want) {
				t.Fatalf("the first is %q, want of priority %d; %v", pair.Key, want, err)
			}
			tx.Clear(pair.Key)
		})
	}
	push(5, 5000)
	db.near = newNear()
	for range 700 {
		pop(5)
	}
	whole := db.near.holding(all.Begin, false)
	if len(whole.pairs) <= db.near.most.between {
		t.Fatalf("%d pairs are near: the test tests nothing", len(whole.pairs))
	}
	for i := range 50 {
		push(1+i%3, 1)
		pop(1 + i%3)
		if db.near.holding(all.Begin, false) != whole {
			t.Fatalf("after %d items what is near was cut", i+1)
		}
	}
}

// TestNearAgain checks that the tail of a queue which is filled is near again soon, after all
// of it was forgotten but its last key, and one that is written to once only is not.
func TestNearAgain(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	const queues = 20
	of := func(queue int) kv.Range {
		return kv.Range{Begin: fmt.Appendf(nil, "%02d/", queue), End: fmt.Appendf(nil, "%02d0", queue)}
	}
	enqueue := func(queue, item int) {
		mustTransact(t, db, func(tx kv.Tx) {
			kv.Lazily(tx)
			want := fmt.Sprintf("%02d/%08d", queue, item-1)
			if last, err := kv.LastKey(tx.Snapshot(), of(queue), of(queue)); item > 0 && string(last) != want || err != nil {
				t.Fatalf("the last item is %q, want %q; %v", last, want, err)
			}
			tx.Set(fmt.Appendf(nil, "%02d/%08d", queue, item), make([]byte, 100))
		})
	}
	for queue := range queues {
		enqueue(queue, 0)
		enqueue(queue, 1)
	}
	db.near = newNear()
	for queue := range queues {
		db.near.lastKeys.add(fmt.Appendf(nil, "%02d/%08d", queue, 1), of(queue).End, true, db.version)
	}
	isNear := func(queue int) bool { return db.near.holding(of(queue).End, true) != nil }
	for queue := range queues {
		enqueue(queue, 2)
		if isNear(queue) {
			t.Errorf("queue %d is near", queue)
		}
	}
	last := queues - 1
	for item := range 10 {
		before := db.version
		enqueue(last, 3+item)
		s := db.near.holding(of(last).End, true)
		if s == nil {
			t.Fatalf("after %d items one after the other, the queue is not near", 2+item)
		}
		if _, known := db.near.last(of(last), before); known || !s.tail {
			t.Errorf("item %d: who began before it is told of it: %v; a tail: %v", item, known, s.tail)
		}
	}
	all := contents(t, db)
	db.near = newNear()
	if got, want := fmt.Sprint(all), fmt.Sprint(contents(t, db)); got != want || len(all) != 3*queues+10 {
		t.Errorf("near are %s; there are %s", got, want)
	}
}

// TestDistinct checks that who asks for the last keys of ranges that have none, or one, as a
// push among many priorities does, needs Pebble a few times only, whatever the order, and
// however many are asked for before any is set; that
// this is still known once it is not near any more; and that an item comes to the middle of
// a short stretch.
func TestDistinct(t *testing.T) {
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
			db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
			db.near.most.bytes = 256 << 10
			all := kv.PrefixRange([]byte("p"))
			of := func(i int) kv.Range {
				return kv.Range{Begin: fmt.Appendf(nil, "p%08d\x00", i), End: fmt.Appendf(nil, "p%08d\xff", i)}
			}
			missed, longest := 0, 0
			push := func(some []int, turn int) {
				mustTransact(t, db, func(tx kv.Tx) {
					kv.Lazily(tx)
					for _, i := range some {
						if _, known := db.near.last(of(i), db.version); !known {
							missed++
						}
						last, err := kv.LastKey(tx.Snapshot(), of(i), all)
						if want := fmt.Sprintf("p%08d\x00%d", i, turn-1); (string(last) != want) != (turn == 0) || (last == nil) != (turn == 0) || err != nil {
							t.Fatalf("%d: the last key is %q, %v", i, last, err)
						}
					}
					for _, i := range some {
						tx.Set(fmt.Appendf(nil, "p%08d\x00%d", i, turn), make([]byte, 100))
					}
				})
				db.near.stretches.Ascend(&stretch{}, func(s *stretch) bool {
					if len(some) == 1 {
						longest = max(longest, len(s.pairs))
					}
					return turn == 0 && some[0]%100 == 0
				})
			}
			turn := func(which, turn, most int) {
				missed = 0
				var all []int
				for i := range n / 2 {
					all = append(all, order.next(i)*2%n+which)
				}
				for some := range slices.Chunk(all, order.atOnce) {
					push(some, turn)
				}
				if missed > most || db.near.stretches.Len() > n/4 {
					t.Errorf("turn %d: %d of %d were not known, want %d at most; %d stretches are near", turn, missed, n/2, most, db.near.stretches.Len())
				}
			}
			turn(0, 0, 1)
			turn(0, 1, n/50)
			turn(0, 2, n/50)
			db.near = newNear()
			db.near.most.bytes = 256 << 10
			turn(1, 0, n/2)
			turn(1, 1, n/50)
			if most := db.near.most.between + 2; longest > most && order.name != "descending" {
				t.Errorf("a stretch had %d pairs, want %d at most", longest, most)
			}
		})
	}
}

// TestNotDistinct checks what is forgotten but for its last key: a queue that was empty when its
// last was asked for, and what is left where once there were many priorities.
func TestNotDistinct(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	all := kv.PrefixRange([]byte("p"))
	of := func(i int) kv.Range { return kv.PrefixRange(fmt.Appendf(nil, "p%03d", i)) }
	set := func(span, among kv.Range, from, to int) {
		mustTransact(t, db, func(tx kv.Tx) {
			kv.Lazily(tx)
			if _, err := kv.LastKey(tx.Snapshot(), span, among); err != nil {
				t.Fatal(err)
			}
			for item := from; item < to; item++ {
				tx.Set(fmt.Appendf(nil, "%s/%03d", span.Begin, item), nil)
			}
		})
	}
	distinct := func(span kv.Range) (pairs int, distinct bool) {
		s := db.near.holding(span.End, true)
		return len(s.pairs), s.distinct()
	}

	queue := kv.PrefixRange([]byte("a queue"))
	for range 20 {
		set(queue, queue, 0, 3)
		if n, so := distinct(queue); n != 3 || so {
			t.Fatalf("a queue of %d items has many last ones: %v", n, so)
		}
		mustTransact(t, db, func(tx kv.Tx) { tx.ClearRange(queue) })
	}

	for i := range 200 {
		set(of(i), all, 0, 1)
		mustTransact(t, db, func(tx kv.Tx) { tx.ClearRange(of(i)) })
		set(of(i), all, 0, 1)
		if i > 8 {
			mustTransact(t, db, func(tx kv.Tx) { tx.ClearRange(of(i - 8)) })
		}
	}
	if n, so := distinct(of(199)); n > 10 || !so {
		t.Fatalf("%d items of as many priorities have many last ones: %v", n, so)
	}
	set(of(199), all, 1, 200)
	if n, so := distinct(of(199)); n < 50 || so {
		t.Errorf("%d items, mostly of one priority, have many last ones: %v", n, so)
	}
}

// TestNearYields checks what becomes of a tail when a part of it is near: what lies before that is
// known as it was, and what lies behind it is near, too, for who begins at the tail's version or later.
func TestNearYields(t *testing.T) {
	of := func(begin, end string) kv.Range { return kv.Range{Begin: []byte(begin), End: []byte(end)} }
	for _, reverse := range []bool{false, true} {
		n := newNear()
		n.lastKeys.add([]byte("a"), []byte("z"), true, 5)
		r := reading{pos: []byte("f"), end: []byte("k"), reverse: reverse}
		if reverse {
			r.pos, r.end = r.end, r.pos
		}
		n.learn(r, nil, r.end, 3)
		for _, c := range []struct {
			span    kv.Range
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
			if key, known := n.last(c.span, c.version); string(key) != c.key || known != c.known {
				t.Errorf("reverse: %v; the last key from %q to %q at version %d is %q, known: %v; want %q, %v",
					reverse, c.span.Begin, c.span.End, c.version, key, known, c.key, c.known)
			}
		}
		if s := n.holding([]byte("y"), false); s == nil || string(s.end) != "z" {
			t.Errorf("reverse: %v; what lies behind is not near", reverse)
		}
	}
}

// checkNear checks that stretches are disjoint, in order, not empty, of the right
// size, and hold what is alive.
func (m *deadModel) checkNear(rt *rapid.T) {
	n, all := m.db.near, 0
	var end []byte
	n.stretches.Ascend(&stretch{}, func(s *stretch) bool {
		if bytes.Compare(s.begin, s.end) >= 0 || bytes.Compare(s.begin, end) < 0 || s.gone || n.at(s.begin) != s || n.ending(s.end) != s {
			rt.Fatalf("stretch %q to %q comes after one that ends at %q; gone: %v", s.begin, s.end, end, s.gone)
		}
		end = s.end
		size := stretchSize
		read := readResult{span: kv.Range{Begin: s.begin, End: s.end}}
		for _, p := range s.pairs {
			size += p.size()
			value := string(p.value)
			if p.large() {
				value = m.now[string(p.key())]
			}
			if p.large() != (len(value) > n.most.value) {
				rt.Fatalf("%q has %d bytes; large: %v", p.key(), len(value), p.large())
			}
			read.got = append(read.got, string(p.key())+"="+value)
		}
		if err := read.compare(rt, m.now); err != nil || size != s.size || len(s.pairs) > n.most.pairs {
			rt.Fatalf("stretch %q to %q says that it has %d bytes, and has %d, and %d pairs", s.begin, s.end, s.size, size, len(s.pairs))
		}
		all += size
		return true
	})
	if begins, ends, want := len(n.begins), len(n.ends), n.stretches.Len(); begins != want || ends != want {
		rt.Fatalf("%d stretches are found by their begins and %d by their ends; there are %d", begins, ends, want)
	}
	if others := n.stretches.Len(); all != n.size || all > n.most.bytes && others > 1 {
		rt.Fatalf("%d stretches have %d bytes, not %d; %d are allowed", others, all, n.size, n.most.bytes)
	}
}
