package queues

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/work"
)

var ctx = context.Background()

// heapOptions have an embedded store take little that does not come from what is put there: 1 MiB of blocks, and memtables of 1 MiB.
var heapOptions = embedded.Options{Cache: 1 << 20, MemTable: 1 << 20}

// Of the live heap docs/reference/limits.md promises, for a store with heapOptions: blocks and memtables 7 MiB, hot ranges 16 MiB, the
// backlog 6 MiB, buffers of the log 8 MiB; and besides what a test's program takes.
const (
	heapBound = (7 + 16 + 6 + 8 + 2) << 20
	heapTotal = heapBound * 3 / 2 // that is put
)

// What an embedded store holds in memory does not grow with what is put there, whatever the size of items, what is done with
// them, and when a commit is durable: measured by the live heap. When all was taken, and the store is closed, nothing is left.
func TestHeap(t *testing.T) {
	for _, durability := range []embedded.Durability{embedded.Always, embedded.Interval, embedded.Memory} {
		for _, size := range []int{100, 16 << 10, 17 << 10, 64 << 10, 1 << 20, 4 << 20} {
			for _, p := range heapPatterns {
				usual := size == 1<<20 && (durability == embedded.Memory || p.name == "queue") ||
					size == 17<<10 && durability == embedded.Memory && p.name != "jobs" && p.name != "turns"
				if !usual && !testkit.Thorough() {
					continue
				}
				t.Run(fmt.Sprintf("%v/%d/%s", durability, size, p.name), func(t *testing.T) {
					o := heapOptions
					o.Durability = durability
					heap(t, o, size, p.run)
				})
			}
		}
	}
}

func heap(t *testing.T, o embedded.Options, size int, run func(heapTest)) {
	before := liveHeap()
	db, err := embedded.Open(t.Context(), t.TempDir(), o)
	testkit.NoError(t, err)
	h := heapTest{t: t, ctx: context.Background(), db: db, size: size, n: min(heapTotal/size, 4000)}
	h.holds = func(what string) {
		t.Helper()
		if held := liveHeap() - before; held > heapBound {
			t.Errorf("after %s of %d x %d bytes the live heap has %.1f MiB more, want at most %d", what, h.n, size, float64(held)/(1<<20), heapBound>>20)
		} else {
			t.Logf("%s: %.1f MiB", what, float64(held)/(1<<20))
		}
	}
	run(h)
	testkit.NoError(t, db.Close())
	db, h.db = nil, nil
	held := liveHeap() - before
	for deadline := time.Now().Add(time.Minute); held > 2<<20 && time.Now().Before(deadline); held = liveHeap() - before {
		runtime.Gosched() // goroutines of the store are about to end
	}
	if held > 2<<20 {
		t.Errorf("a store that is closed leaves %.1f MiB", float64(held)/(1<<20))
	}
}

func liveHeap() int {
	var m runtime.MemStats
	for range 3 { // pools give back in the second
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

type heapTest struct {
	t     *testing.T
	ctx   context.Context
	db    kv.DB
	size  int
	n     int               // items
	holds func(what string) // checks the live heap
}

// item returns one of its own memory.
func (h heapTest) item() []byte { return bytes.Repeat([]byte("x"), h.size) }

// batch is how many items a call may have.
func (h heapTest) batch() int { return max(1, min(32, 8<<20/h.size)) }

func (h heapTest) queue() *conq.Queue[[]byte] {
	q, err := conq.OpenQueue(ctx, h.db, "q", conq.Bytes())
	testkit.NoError(h.t, err)
	return q
}

func (h heapTest) fill(q *conq.Queue[[]byte]) {
	for range h.n {
		testkit.NoError(h.t, q.Enqueue(h.ctx, h.item()))
	}
}

func (h heapTest) drain(q *conq.Queue[[]byte]) {
	for range h.n {
		_, err := q.Dequeue(h.ctx)
		testkit.NoError(h.t, err)
	}
}

var heapPatterns = []struct {
	name string
	run  func(heapTest)
}{
	{"queue", func(h heapTest) {
		q := h.queue()
		defer q.Close()
		h.fill(q)
		h.holds("puts")
		for range 10 {
			_, err := q.Peek(h.ctx)
			testkit.NoError(h.t, err)
		}
		for _, err := range q.All(h.ctx) {
			testkit.NoError(h.t, err)
		}
		_, _, err := q.Page(h.ctx, nil, 100)
		testkit.NoError(h.t, err)
		h.holds("reads")
		h.drain(q)
		h.holds("takes")
	}},
	{"batches", func(h heapTest) {
		q := h.queue()
		defer q.Close()
		for range h.n / h.batch() {
			items := make([][]byte, h.batch())
			for i := range items {
				items[i] = h.item()
			}
			testkit.NoError(h.t, q.EnqueueAll(h.ctx, items))
		}
		h.holds("batches")
		for taken := 0; taken < h.n/h.batch()*h.batch(); {
			items, err := q.DequeueN(h.ctx, h.batch())
			testkit.NoError(h.t, err)
			taken += len(items)
		}
		h.holds("takes of batches")
	}},
	{"turns", func(h heapTest) {
		q := h.queue()
		defer q.Close()
		for range h.n {
			testkit.NoError(h.t, q.Enqueue(h.ctx, h.item()))
			_, err := q.Dequeue(h.ctx)
			testkit.NoError(h.t, err)
		}
		h.holds("puts and takes by turns")
	}},
	{"hand-over", func(h heapTest) {
		q := h.queue()
		defer q.Close()
		got := make(chan error)
		go func() {
			for range h.n {
				_, err := q.DequeueWait(h.ctx)
				got <- err
			}
		}()
		for range h.n {
			testkit.NoError(h.t, q.Enqueue(h.ctx, h.item()))
			testkit.NoError(h.t, <-got)
		}
		h.holds("hand-overs")
	}},
	{"priorities", func(h heapTest) {
		p, err := conq.OpenPriorityQueue(ctx, h.db, "p", conq.Bytes())
		testkit.NoError(h.t, err)
		defer p.Close()
		for i := range h.n {
			testkit.NoError(h.t, p.Push(h.ctx, h.item(), int64(i*7919%h.n)))
		}
		h.holds("pushes of as many priorities")
		for range h.n / 2 {
			_, err := p.PopMin(h.ctx)
			testkit.NoError(h.t, err)
			_, err = p.PopMax(h.ctx)
			testkit.NoError(h.t, err)
		}
		h.holds("pops")
	}},
	{"jobs", func(h heapTest) {
		q, err := work.Open(ctx, h.db, "w", conq.Bytes())
		testkit.NoError(h.t, err)
		defer q.Close()
		for range h.n {
			_, err := q.Put(h.ctx, h.item())
			testkit.NoError(h.t, err)
		}
		h.holds("puts of jobs")
		for range h.n {
			leases, err := q.ReserveN(h.ctx, 1)
			testkit.NoError(h.t, err)
			testkit.NoError(h.t, leases[0].Ack(h.ctx))
		}
		h.holds("acks")
	}},
	{"beside a transaction", func(h heapTest) {
		q := h.queue()
		defer q.Close()
		testkit.NoError(h.t, q.Enqueue(h.ctx, h.item()))
		testkit.NoError(h.t, h.db.Transact(h.ctx, func(tx kv.Tx) error { // which the conflict index is kept for
			if _, err := tx.Snapshot().Get([]byte("k")); err != nil {
				return err
			}
			h.fill(q)
			h.holds("puts beside an open transaction")
			return nil
		}))
		h.drain(q)
		h.holds("takes")
	}},
}
