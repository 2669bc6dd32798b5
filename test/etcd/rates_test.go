package etcd_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	clientv3 "go.etcd.io/etcd/client/v3"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.uber.org/zap"
)

var (
	rates     = flag.Bool("rates", false, "measure rates, and hold them against the bars")
	rateItems = flag.Int("rates.items", 10_000, "how many items go through, and how deep the queues are")
)

// Clients of the runs.
const (
	producers = 16
	consumers = 16
)

// value is an item.
var value = string(make([]byte, 100))

// rate has so many clients call f until n calls are made, or the time is over, and
// returns the calls a second.
func rate(t *testing.T, clients, n int, limit time.Duration, f func(client, i int) error) float64 {
	t.Helper()
	var next, done atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for client := range clients {
		group.Go(func() {
			for time.Since(began) < limit {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := f(client, i); err != nil {
					t.Errorf("call %d: %v", i, err)
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// Batches must pay: the bars of what queues do on etcd.
func TestRates(t *testing.T) {
	if !*rates {
		t.Skip("measures for minutes, and wants the machine for itself: -rates runs it")
	}
	c := startCluster(t, clusterOptions{sync: true})
	n, long := *rateItems, 10*time.Minute
	client := c.client(t)
	puts := rate(t, producers, n, long, func(_, i int) error {
		_, err := client.Put(t.Context(), fmt.Sprintf("plain/%08d", i), value)
		return err
	})
	fill, drain := c.queueRates(t, n, long)
	push, pop := c.priorityRates(t, n, long)
	enqueue, dequeue := c.recipeQueueRates(t, n)
	recipePush, recipePop := c.recipePriorityRates(t, n)
	t.Logf("plain puts %.0f a second, with %d clients", puts, producers)
	for _, r := range []struct {
		name            string
		got, puts       float64
		barPuts         float64
		recipe, barThat float64
	}{
		{"enqueue", fill, puts, 3, enqueue, 5},
		{"dequeue", drain, puts, 3, dequeue, 100},
		{"push", push, puts, 3, recipePush, 5},
		{"pop", pop, puts, 3, recipePop, 100},
	} {
		t.Logf("%-8s %8.0f a second: %5.1f times the puts; %8.1f times the recipe's %.1f", r.name, r.got, r.got/r.puts, r.got/r.recipe, r.recipe)
		if r.got < r.barPuts*r.puts {
			t.Errorf("%s: %.0f a second are %.1f times the plain puts, and should be %.0f times", r.name, r.got, r.got/r.puts, r.barPuts)
		}
		if r.got < r.barThat*r.recipe {
			t.Errorf("%s: %.0f a second are %.1f times etcd's recipe, and should be %.0f times", r.name, r.got, r.got/r.recipe, r.barThat)
		}
	}
}

// client returns a client of etcd as its users have it.
func (c *cluster) client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.direct.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func (c *cluster) queueRates(t *testing.T, n int, long time.Duration) (fill, drain float64) {
	o := c.options()
	o.Endpoints = c.direct.Endpoints()
	db := open(t, o)
	var batches [3]atomic.Int64 // and their items, and attempts
	q, err := conq.OpenQueue(db, "rates", conq.String(), conq.Options{Observe: func(e conq.Event) {
		batches[0].Add(1)
		batches[1].Add(int64(e.Items))
		batches[2].Add(int64(e.Attempts))
	}})
	defer func() {
		t.Logf("%d transactions with %d items, %d attempts", batches[0].Load(), batches[1].Load(), batches[2].Load())
	}()
	if err != nil {
		t.Fatal(err)
	}
	deepen(t, n, func(values []string) error { return q.EnqueueAll(t.Context(), values) })
	fill = rate(t, producers, n, long, func(int, int) error { return q.Enqueue(t.Context(), value) })
	drain = rate(t, consumers, n, long, func(int, int) error { _, err := q.Dequeue(t.Context()); return err })
	return fill, drain
}

// deepen puts n items in.
func deepen(t *testing.T, n int, put func([]string) error) {
	t.Helper()
	const batch = 50
	for range n / batch {
		values := make([]string, batch)
		for i := range values {
			values[i] = value
		}
		if err := put(values); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *cluster) priorityRates(t *testing.T, n int, long time.Duration) (fill, drain float64) {
	o := c.options()
	o.Endpoints = c.direct.Endpoints()
	db := open(t, o)
	q, err := conq.OpenPriorityQueue(db, "rates", conq.String())
	if err != nil {
		t.Fatal(err)
	}
	const priorities = 10
	deepen(t, n, func(values []string) error {
		all := make([]conq.Prioritized[string], len(values))
		for i := range all {
			all[i] = conq.Prioritized[string]{Value: values[i], Priority: int64(i % priorities)}
		}
		return q.PushAll(t.Context(), all)
	})
	fill = rate(t, producers, n, long, func(_, i int) error { return q.Push(t.Context(), value, int64(i%priorities)) })
	drain = rate(t, consumers, n, long, func(int, int) error { _, err := q.PopMin(t.Context()); return err })
	return fill, drain
}

// recipeTime is how long etcd's recipes are watched.
const recipeTime = 10 * time.Second

func (c *cluster) recipeQueueRates(t *testing.T, n int) (fill, drain float64) {
	q := recipe.NewQueue(c.client(t), "recipe-queue")
	fill = rate(t, producers, n, time.Minute, func(int, int) error { return q.Enqueue(value) })
	drain = rate(t, consumers, n, recipeTime, func(int, int) error { _, err := q.Dequeue(); return err })
	return fill, drain
}

func (c *cluster) recipePriorityRates(t *testing.T, n int) (fill, drain float64) {
	client := c.client(t)
	q := recipe.NewPriorityQueue(client, "recipe-priority-queue")
	const priorities = 10
	rate(t, producers, n, time.Minute, func(_, i int) error { // what its pushes would leave
		_, err := client.Put(context.Background(), fmt.Sprintf("recipe-priority-queue/%05d/%016d", i%priorities, i/priorities), value)
		return err
	})
	fill = rate(t, producers, n, recipeTime, func(_, i int) error { return q.Enqueue(value, uint16(i%priorities)) })
	drain = rate(t, consumers, n, recipeTime, func(int, int) error { _, err := q.Dequeue(); return err })
	return fill, drain
}
