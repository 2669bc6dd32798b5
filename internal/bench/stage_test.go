package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
)

// priorities are those of the items, from 0 on.
const priorities = 1000

// stage is a store with a queue, and with a priority queue for each end that items
// are taken from.
type stage struct {
	b        *testing.B
	ctx      context.Context
	dir      string
	db       kv.DB
	queue    *conq.Queue[[]byte]
	min, max *conq.PriorityQueue[[]byte]
}

func newStage(b *testing.B) *stage {
	s := &stage{b: b, ctx: b.Context(), dir: b.TempDir()}
	s.open()
	return s
}

// remove gives the disk space back before the next stage needs it.
func (s *stage) remove() {
	check(s.b, s.db.Close())
	check(s.b, os.RemoveAll(s.dir))
}

// open opens the store, or closes it and opens it again.
func (s *stage) open() {
	before := time.Now()
	if s.db != nil {
		check(s.b, s.db.Close())
	}
	s.db = openDB(s.b, s.dir, depthDurability)
	var err error
	s.queue, err = conq.OpenQueue(s.db, "queue", conq.Bytes())
	check(s.b, err)
	s.min, err = conq.OpenPriorityQueue(s.db, "min", conq.Bytes())
	check(s.b, err)
	s.max, err = conq.OpenPriorityQueue(s.db, "max", conq.Bytes())
	check(s.b, err)
	s.b.Logf("store opened in %v", time.Since(before))
}

// fill adds so many items to each queue.
func (s *stage) fill(n int) {
	before := time.Now()
	fill(s.b, n, s.enqueue)
	fill(s.b, n, func(values [][]byte) error { return s.push(s.min, values) })
	fill(s.b, n, func(values [][]byte) error { return s.push(s.max, values) })
	s.b.Logf("%d items added to each of 3 queues in %v", n, time.Since(before))
}

// take removes so many items from each queue.
func (s *stage) take(n int) {
	before := time.Now()
	for left := n; left > 0; left -= batch {
		check(s.b, s.dequeue(min(left, batch)))
		check(s.b, s.popMin(min(left, batch)))
		check(s.b, s.popMax(min(left, batch)))
	}
	s.b.Logf("%d items removed from each of 3 queues in %v", n, time.Since(before))
}

// settle waits until compactions have come to rest: the files have not changed for
// a second. It gives up after a minute.
func (s *stage) settle() {
	began := time.Now()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	var before []string
	for same := 0; same < 10 && time.Since(began) < time.Minute; <-look.C {
		entries, err := os.ReadDir(s.dir)
		check(s.b, err)
		var now []string
		for _, e := range entries {
			now = append(now, e.Name())
		}
		if same++; !slices.Equal(now, before) {
			same = 0
		}
		before = now
	}
	s.b.Logf("compactions came to rest in %v", time.Since(began))
}

func (s *stage) enqueue(values [][]byte) error { return s.queue.EnqueueAll(s.ctx, values) }

// push gives the items ten random priorities.
func (s *stage) push(p *conq.PriorityQueue[[]byte], values [][]byte) error {
	var random [10]int64
	for i := range random {
		random[i] = rand.Int64N(priorities)
	}
	all := make([]conq.Prioritized[[]byte], len(values))
	for i, v := range values {
		all[i] = conq.Prioritized[[]byte]{Value: v, Priority: random[i%len(random)]}
	}
	return p.PushAll(s.ctx, all)
}

func (s *stage) dequeue(n int) error {
	got, err := s.queue.DequeueN(s.ctx, n)
	return exactly(n, len(got), err)
}

func (s *stage) popMin(n int) error {
	got, err := s.min.PopMinN(s.ctx, n)
	return exactly(n, len(got), err)
}

func (s *stage) popMax(n int) error {
	got, err := s.max.PopMaxN(s.ctx, n)
	return exactly(n, len(got), err)
}

func exactly(n, got int, err error) error {
	if err == nil && got != n {
		return fmt.Errorf("%d items taken, not %d", got, n)
	}
	return err
}

// steps are the operations. Those that take come first, as the first of all may
// have to find its way past what is dead.
func (s *stage) steps() []step {
	first := func(_ []byte, err error) error { return err }
	some := func(n int) [][]byte { return payloads[:n] }
	back := func(n int) error { return s.enqueue(some(n)) }
	backMin := func(n int) error { return s.push(s.min, some(n)) }
	backMax := func(n int) error { return s.push(s.max, some(n)) }
	keep := func(int) error { return nil }
	random := func() int64 { return rand.Int64N(priorities) }
	return []step{
		{"dequeue", func() error { return first(s.queue.Dequeue(s.ctx)) }, back},
		{"popmin", func() error { return first(s.min.PopMin(s.ctx)) }, backMin},
		{"popmax", func() error { return first(s.max.PopMax(s.ctx)) }, backMax},
		{"peek", func() error { return first(s.queue.Peek(s.ctx)) }, keep},
		{"peekmin", func() error { return first(s.min.PeekMin(s.ctx)) }, keep},
		{"peekmax", func() error { return first(s.max.PeekMax(s.ctx)) }, keep},
		{"enqueue", func() error { return s.queue.Enqueue(s.ctx, payloads[0]) }, s.dequeue},
		{"push", func() error { return s.min.Push(s.ctx, payloads[0], random()) }, s.popMin},
	}
}
