package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
)

const (
	openBar      = 2
	operationBar = 1.3
	sample       = 1000 // queues that operations are measured on, and operations
)

// manyQueues compares a store of many queues with a store of one.
func manyQueues(ctx context.Context, l *limits, progress io.Writer) ([]finding, error) {
	one, many := filepath.Join(l.temp, "one"), filepath.Join(l.temp, "many")
	for dir, n := range map[string]int{one: 1, many: l.items} {
		began := time.Now()
		if err := makeQueues(ctx, dir, n); err != nil {
			return nil, err
		}
		fmt.Fprintf(progress, "%d queues made in %v\n", n, time.Since(began).Round(time.Millisecond))
	}
	var opened [2][]time.Duration
	for range l.rounds {
		for i, dir := range []string{one, many} {
			began := time.Now()
			db, err := embedded.Open(ctx, dir, embedded.Options{Durability: l.of})
			if err != nil {
				return nil, err
			}
			_, err = conq.OpenQueue(ctx, db, queueName(0), conq.Bytes())
			opened[i] = append(opened[i], time.Since(began))
			if err := errors.Join(err, db.Close()); err != nil {
				return nil, err
			}
		}
	}
	found := []finding{against(
		fmt.Sprintf("open a store of %d queues, and one of them", l.items), "ns",
		float64(middle(opened[0])), float64(middle(opened[1]))).atMost(openBar)}
	more, err := operations(ctx, l, one, many)
	return append(found, more...), err
}

func queueName(i int) string { return fmt.Sprintf("queue %d", i) }

// makeQueues makes a store with so many queues of 10 items.
func makeQueues(ctx context.Context, dir string, n int) (err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	db, err := embedded.Open(ctx, dir, embedded.Options{Durability: embedded.Memory})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	s := &stage{noise: newNoise(128)}
	for i := range n {
		q, err := conq.OpenQueue(ctx, db, queueName(i), conq.Bytes())
		if err == nil {
			err = q.EnqueueAll(ctx, s.values(few))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// operations compares operations on the one queue with those on one of the many, with those on
// any of a sample of them, which have to fetch from memory what the others find in the
// processor's cache, and with the first ones on each of all, which have to read tables. As
// these push everything else out of caches they are measured by themselves.
func operations(ctx context.Context, l *limits, one, many string) (found []finding, err error) {
	const alone, oneOf, anyOf, firstOn = 0, 1, 2, 3
	var all [4][]verb
	n := l.items
	for i, store := range []struct {
		dir    string
		queues [][]int
	}{{one, [][]int{{0}}}, {many, [][]int{{0}, rand.Perm(n)[:min(n, sample)], rand.Perm(n)}}} {
		db, err := embedded.Open(ctx, store.dir, embedded.Options{Durability: l.of})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		for j, queues := range store.queues {
			if all[i+j], err = verbsOfAny(db, queues); err != nil {
				return nil, err
			}
		}
	}
	for i, v := range all[alone] {
		medians, err := rounds(ctx, sample, v, all[oneOf][i], all[anyOf][i])
		if err != nil {
			return nil, err
		}
		for j, which := range []string{fmt.Sprintf("one of %d queues", n), fmt.Sprintf("any of %d of them", min(n, sample))} {
			found = append(found, against(v.name+", on "+which, "ns", medians[0], medians[1+j]).atMost(operationBar))
		}
	}
	unused := n / len(all[firstOn]) / inARound // of which each verb has its part
	for i, v := range all[alone] {
		medians, err := roundsUpTo(ctx, sample, max(1, unused), v, all[firstOn][i])
		if err != nil {
			return nil, err
		}
		what := fmt.Sprintf("%s, the first on each of %d queues", v.name, n)
		found = append(found, against(what, "ns", medians[0], medians[1]))
	}
	return found, nil
}

// verbsOfAny are operations each of which is on the next of these queues. What undoes
// them goes over the same queues.
func verbsOfAny(db kv.DB, queues []int) ([]verb, error) {
	var handles []*conq.Queue[[]byte]
	for _, i := range queues {
		q, err := conq.OpenQueue(context.Background(), db, queueName(i), conq.Bytes())
		if err != nil {
			return nil, err
		}
		handles = append(handles, q)
	}
	s := &stage{noise: newNoise(128)}
	done, undone := 0, 0
	next := func(counter *int) *conq.Queue[[]byte] {
		*counter++
		return handles[*counter%len(handles)]
	}
	undo := func(f func(context.Context, *conq.Queue[[]byte]) error) func(context.Context, int) error {
		return func(ctx context.Context, n int) error {
			for range n {
				if err := f(ctx, next(&undone)); err != nil {
					return err
				}
			}
			return nil
		}
	}
	enqueue := func(ctx context.Context, q *conq.Queue[[]byte]) error { return q.Enqueue(ctx, s.value()) }
	dequeue := func(ctx context.Context, q *conq.Queue[[]byte]) error {
		_, err := q.Dequeue(ctx)
		return err
	}
	peek := func(ctx context.Context, q *conq.Queue[[]byte]) error {
		_, err := q.Peek(ctx)
		return err
	}
	nothing := func(context.Context, *conq.Queue[[]byte]) error { return nil }
	make := func(name string, op, back func(context.Context, *conq.Queue[[]byte]) error) verb {
		return verb{name, func(ctx context.Context) error { return op(ctx, next(&done)) }, undo(back)}
	}
	return []verb{make("dequeue", dequeue, enqueue), make("enqueue", enqueue, dequeue), make("peek", peek, nothing)}, nil
}
