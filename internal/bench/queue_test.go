package bench

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
)

const (
	queueName   = "queue"
	payloadSize = 128
	batch       = 10_000 // items in a transaction that fills a queue
)

// payloads are random, so that they do not compress, and differ over more items
// than lie in one block.
var payloads = func() (all [1024][]byte) {
	source := rand.NewChaCha8([32]byte{1})
	for i := range all {
		all[i] = make([]byte, payloadSize)
		source.Read(all[i])
	}
	return all
}()

func payload(i int64) []byte { return payloads[uint64(i)%uint64(len(payloads))] }

// queue is conq's, measured through its handle.
type queue struct {
	ctx   context.Context
	db    *counting
	queue *conq.Queue[[]byte]
	added atomic.Int64
}

// counting counts how often transactions run.
type counting struct {
	kv.DB
	attempts, calls atomic.Int64
}

func (c *counting) Transact(ctx context.Context, f func(kv.Tx) error) error {
	c.calls.Add(1)
	return c.DB.Transact(ctx, func(tx kv.Tx) error {
		c.attempts.Add(1)
		return f(tx)
	})
}

func openDB(b testing.TB, dir string, d embedded.Durability) *embedded.DB {
	db, err := embedded.Open(dir, embedded.Options{Durability: d})
	check(b, err)
	return db
}

func openQueue(b testing.TB, dir string, d embedded.Durability) *queue {
	db := &counting{DB: openDB(b, dir, d)}
	q, err := conq.OpenQueue(db, queueName, conq.Bytes())
	check(b, err)
	db.attempts.Store(0)
	db.calls.Store(0)
	return &queue{ctx: b.Context(), db: db, queue: q}
}

func (q *queue) enqueue() error { return q.queue.Enqueue(q.ctx, payload(q.added.Add(1))) }

func (q *queue) dequeue() error {
	_, err := q.queue.Dequeue(q.ctx)
	return err
}

func (q *queue) counts() (calls, attempts int64) { return q.db.calls.Load(), q.db.attempts.Load() }
func (q *queue) close() error                    { return q.db.Close() }

// inTx is a queue each of whose calls is a transaction of the caller's.
type inTx struct{ *queue }

func (q inTx) enqueue() error {
	return q.db.Transact(q.ctx, func(tx kv.Tx) error { return q.queue.queue.In(tx).Enqueue(payload(q.added.Add(1))) })
}

func (q inTx) dequeue() error {
	return q.db.Transact(q.ctx, func(tx kv.Tx) error {
		_, err := q.queue.queue.In(tx).Dequeue()
		return err
	})
}

// newStore makes a store with so many items in the queue.
func newStore(b testing.TB, items int) (dir string) {
	dir = b.TempDir()
	q := openQueue(b, dir, embedded.Memory)
	fill(b, items, func(values [][]byte) error { return q.queue.EnqueueAll(q.ctx, values) })
	check(b, q.close())
	return dir
}

// fill adds items in batches.
func fill(b testing.TB, items int, add func([][]byte) error) {
	values := make([][]byte, 0, batch)
	for i := range items {
		values = append(values, payload(int64(i)))
		if len(values) == batch || i == items-1 {
			check(b, add(values))
			values = values[:0]
		}
	}
}
