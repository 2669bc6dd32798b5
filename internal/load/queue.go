package load

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
)

// Names of the queues that are worked on.
const (
	fifoName     = "conq bench: queue"
	priorityName = "conq bench: priority queue"
	jobsName     = "conq bench: work queue"
)

// item is what goes through the queue.
type item = conq.Prioritized[[]byte]

// queue is a handle of the queue that is worked on.
type queue interface {
	Name() string
	Close() error
	Clear(context.Context) error
	Len(context.Context) (int, error)
	put(context.Context, []item) error
	// take takes an item, or fails with conq.ErrEmpty.
	take(context.Context) error
	takeWait(context.Context) error
	// verbs are the names of put and take.
	verbs() (put, take string)
}

func openQueue(db kv.DB, s *Settings, c *counter) (queue, error) {
	if s.Jobs {
		q, err := work.Open(context.Background(), db, jobsName, conq.Bytes(), work.Options{NoCombining: !s.Combining, Observe: c.observeJobs})
		return workQueue{q}, err
	}
	o := conq.Options{NoCombining: !s.Combining, Staging: stagings[s.Staging]}
	if s.Priorities > 0 {
		o.Observe = c.observe(priorityQueue{}.verbs())
		q, err := conq.OpenPriorityQueue(context.Background(), db, priorityName, conq.Bytes(), o)
		return priorityQueue{q}, err
	}
	o.Observe = c.observe(fifo{}.verbs())
	q, err := conq.OpenQueue(context.Background(), db, fifoName, conq.Bytes(), o)
	return fifo{q}, err
}

type fifo struct{ *conq.Queue[[]byte] }

func (fifo) verbs() (put, take string) { return "enqueue", "dequeue" }

func (q fifo) put(ctx context.Context, all []item) error {
	values := make([][]byte, len(all))
	for i, it := range all {
		values[i] = it.Value
	}
	return q.EnqueueAll(ctx, values)
}

func (q fifo) take(ctx context.Context) error {
	_, err := q.Dequeue(ctx)
	return err
}

func (q fifo) takeWait(ctx context.Context) error {
	_, err := q.DequeueWait(ctx)
	return err
}

type priorityQueue struct{ *conq.PriorityQueue[[]byte] }

func (priorityQueue) verbs() (put, take string) { return "push", "pop" }

func (q priorityQueue) put(ctx context.Context, all []item) error { return q.PushAll(ctx, all) }

func (q priorityQueue) take(ctx context.Context) error {
	_, err := q.PopMin(ctx)
	return err
}

func (q priorityQueue) takeWait(ctx context.Context) error {
	_, err := q.PopWait(ctx, conq.Min)
	return err
}

// workQueue is one whose jobs are acknowledged as soon as they are leased.
type workQueue struct{ *work.Queue[[]byte] }

func (q workQueue) verbs() (put, take string) { return "put", "reserve, ack" }

func (q workQueue) put(ctx context.Context, all []item) error {
	jobs := make([]work.New[[]byte], len(all))
	for i, it := range all {
		jobs[i] = work.New[[]byte]{Value: it.Value, Job: work.Job{Priority: it.Priority}}
	}
	_, _, err := q.PutAll(ctx, jobs)
	return err
}

func (q workQueue) take(ctx context.Context) error {
	lease, err := q.Reserve(ctx)
	if err != nil {
		return err
	}
	return lease.Ack(ctx)
}

func (q workQueue) takeWait(ctx context.Context) error {
	lease, err := q.ReserveWait(ctx)
	if err != nil {
		return err
	}
	return lease.Ack(ctx)
}

// newPayload returns random bytes, which do not compress.
func newPayload(s *Settings) []byte {
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], s.Seed)
	payload := make([]byte, s.Size)
	_, _ = rand.NewChaCha8(seed).Read(payload) // never fails
	return payload
}

// maker makes the items of one client, with random priorities. All share their
// value: queues copy it.
type maker struct {
	random     *rand.Rand
	payload    []byte
	priorities int
}

func (r *run) newMaker(client int) *maker {
	return &maker{rand.New(rand.NewPCG(r.config.Seed, uint64(client))), r.payload, max(1, r.config.Priorities)}
}

func (m *maker) items(n int) []item {
	all := make([]item, n)
	for i := range all {
		all[i] = item{Value: m.payload, Priority: int64(m.random.IntN(m.priorities))}
	}
	return all
}
