package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
)

// stage is a store with a queue, and with a priority queue for each end that items
// are taken from.
type stage struct {
	dir        string
	db         kv.DB
	queue      *conq.Queue[[]byte]
	min, max   *conq.PriorityQueue[[]byte]
	priorities int
	noise      []byte
}

func openStage(dir string, d embedded.Durability, priorities int) (*stage, error) {
	db, err := embedded.Open(context.Background(), dir, embedded.Options{Durability: d})
	if err != nil {
		return nil, err
	}
	s := &stage{dir: dir, db: db, priorities: priorities, noise: newNoise(128)}
	if s.queue, err = conq.OpenQueue(context.Background(), db, "queue", conq.Bytes()); err == nil {
		s.min, err = conq.OpenPriorityQueue(context.Background(), db, "min", conq.Bytes())
	}
	if err == nil {
		s.max, err = conq.OpenPriorityQueue(context.Background(), db, "max", conq.Bytes())
	}
	if err != nil {
		_ = db.Close() // the first error says more
	}
	return s, err
}

// value returns 128 random bytes.
func (s *stage) value() []byte {
	at := rand.IntN(noiseSize)
	return s.noise[at : at+128]
}

func (s *stage) values(n int) [][]byte {
	all := make([][]byte, n)
	for i := range all {
		all[i] = s.value()
	}
	return all
}

func (s *stage) prioritized(n int) []conq.Prioritized[[]byte] {
	all := make([]conq.Prioritized[[]byte], n)
	for i := range all {
		all[i] = conq.Prioritized[[]byte]{Value: s.value(), Priority: s.random()}
	}
	return all
}

func (s *stage) random() int64 { return rand.Int64N(int64(s.priorities)) }

func (s *stage) enqueue(ctx context.Context, n int) error {
	return s.queue.EnqueueAll(ctx, s.values(n))
}

func (s *stage) pushMin(ctx context.Context, n int) error {
	return s.min.PushAll(ctx, s.prioritized(n))
}

func (s *stage) pushMax(ctx context.Context, n int) error {
	return s.max.PushAll(ctx, s.prioritized(n))
}

func (s *stage) dequeue(ctx context.Context, n int) error {
	all, err := s.queue.DequeueN(ctx, n)
	return exactly(n, len(all), err)
}

func (s *stage) popMin(ctx context.Context, n int) error {
	all, err := s.min.PopN(ctx, conq.Min, n)
	return exactly(n, len(all), err)
}

func (s *stage) popMax(ctx context.Context, n int) error {
	all, err := s.max.PopN(ctx, conq.Max, n)
	return exactly(n, len(all), err)
}

func exactly(n, got int, err error) error {
	if err == nil && got != n {
		return fmt.Errorf("%d items were taken, not %d", got, n)
	}
	return err
}

const bulk = 5000 // items in a transaction that fills or empties

// inBulk calls each of the functions until n items have gone through it.
func inBulk(ctx context.Context, n int, all ...func(context.Context, int) error) error {
	for _, f := range all {
		for left := n; left > 0; left -= bulk {
			if err := f(ctx, min(left, bulk)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stage) fill(ctx context.Context, n int) error {
	return inBulk(ctx, n, s.enqueue, s.pushMin, s.pushMax)
}

func (s *stage) takeOut(ctx context.Context, n int) error {
	return inBulk(ctx, n, s.dequeue, s.popMin, s.popMax)
}

// settle waits until the files of a store have not changed for a second, or a
// minute has passed.
func settle(ctx context.Context, dir string) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	var before []string
	for same, looks := 0, 0; same < 10 && looks < 600; looks++ {
		now, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			return err
		}
		if same++; !slices.Equal(now, before) {
			same = 0
		}
		before = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
	return nil
}

// verb is an operation, and what undoes so many of it.
type verb struct {
	name string
	op   func(context.Context) error
	undo func(context.Context, int) error
}

// verbs are the operations on one stage.
func (s *stage) verbs() []verb {
	first := func(_ []byte, err error) error { return err }
	none := func(context.Context, int) error { return nil }
	return []verb{
		{"dequeue", func(ctx context.Context) error { return first(s.queue.Dequeue(ctx)) }, s.enqueue},
		{"pop min", func(ctx context.Context) error { return first(s.min.PopMin(ctx)) }, s.pushMin},
		{"pop max", func(ctx context.Context) error { return first(s.max.PopMax(ctx)) }, s.pushMax},
		{"peek", func(ctx context.Context) error { return first(s.queue.Peek(ctx)) }, none},
		{"peek min", func(ctx context.Context) error { return first(s.min.Peek(ctx, conq.Min)) }, none},
		{"peek max", func(ctx context.Context) error { return first(s.max.Peek(ctx, conq.Max)) }, none},
		{"enqueue", func(ctx context.Context) error { return s.queue.Enqueue(ctx, s.value()) }, s.dequeue},
		{"push", func(ctx context.Context) error { return s.min.Push(ctx, s.value(), s.random()) }, s.popMin},
	}
}

// newStage opens a stage in a directory of its own.
func newStage(l *limits, name string, priorities int) (*stage, error) {
	dir := filepath.Join(l.temp, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	return openStage(dir, l.of, priorities)
}
