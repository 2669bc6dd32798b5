package etcd_test

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"
	"go.uber.org/zap"
)

var (
	rates       = flag.Bool("rates", false, "measure rates, and hold them against the bars")
	rateCompact = flag.Int("rates.compact", 0, "Options.Compact of the stores")
	rateItems   = flag.Int("rates.items", 10_000, "how many items go through, and how deep the queues are")
)

// Clients of the runs.
const (
	producers = 16
	consumers = 16
)

// value is an item.
var value = string(make([]byte, 100))

// Batches must pay: the bars of what queues do on etcd.
//
// A producer or consumer that moves one item a call has one in flight: so many of
// them move at most so many items in the time of a commit, however they share it,
// and the recipe's enqueue is a plain put. So the bars are for calls with several.
func TestRates(t *testing.T) {
	if !*rates {
		t.Skip("measures for minutes, and wants the machine for itself: -rates runs it")
	}
	c := startCluster(t, clusterOptions{sync: true})
	n := *rateItems
	client := c.client(t)
	plain := func() float64 {
		return rate(t, producers, n, func(i int) (int, error) {
			_, err := client.Put(t.Context(), fmt.Sprintf("plain/%08d", i), value)
			return 1, err
		})
	}
	puts := plain()
	queue := c.queueRates(t, n)
	queueAgain := c.priorityRates(t, n)
	puts = (puts + plain()) / 2 // before and after: the machine may have had other things to do
	recipes := [...][2]float64{c.recipeQueueRates(t, n), c.recipePriorityRates(t, n)}
	t.Logf("plain puts %.0f a second, with %d clients", puts, producers)
	for i, r := range []struct {
		name             string
		single, batch    float64
		barPuts, barThat float64
	}{
		{"enqueue", queue.put, queue.putAll, 3, 5},
		{"dequeue", queue.take, queue.takeN, 3, 100},
		{"push", queueAgain.put, queueAgain.putAll, 3, 5},
		{"pop", queueAgain.take, queueAgain.takeN, 3, 100},
	} {
		recipe := recipes[i/2][i%2]
		t.Logf("%-8s one a call: %8.0f a second, %5.1f times the puts, %8.1f times the recipe's %.1f",
			r.name, r.single, r.single/puts, r.single/recipe, recipe)
		t.Logf("%-8s %d a call: %8.0f a second, %5.1f times the puts, %8.1f times the recipe's",
			r.name, batch, r.batch, r.batch/puts, r.batch/recipe)
		if r.batch < r.barPuts*puts {
			t.Errorf("%s, %d a call: %.0f a second are %.1f times the plain puts, and should be %.0f times", r.name, batch, r.batch, r.batch/puts, r.barPuts)
		}
		if r.batch < r.barThat*recipe {
			t.Errorf("%s, %d a call: %.0f a second are %.1f times etcd's recipe, and should be %.0f times", r.name, batch, r.batch, r.batch/recipe, r.barThat)
		}
	}
}

// batch is how many items a call with several has.
const batch = 20

// rate has so many clients call f until n items are through, and returns the items
// a second. f returns how many it has moved.
func rate(t *testing.T, clients, n int, f func(i int) (int, error)) float64 {
	t.Helper()
	return rateFor(t, clients, n, 10*time.Minute, f)
}

// rateFor is rate until the time is over.
func rateFor(t *testing.T, clients, n int, limit time.Duration, f func(i int) (int, error)) float64 {
	t.Helper()
	var next, done atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range clients {
		group.Go(func() {
			for time.Since(began) < limit && done.Load() < int64(n) {
				moved, err := f(int(next.Add(1)) - 1)
				if err != nil {
					t.Errorf("after %d items: %v", done.Load(), err)
					return
				}
				done.Add(int64(moved))
			}
		})
	}
	group.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}

// client returns a client of etcd as its users have it.
func (c *cluster) client(t testing.TB) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: c.direct.Endpoints(), Logger: zap.NewNop()})
	testkit.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

// queueRate is what goes through a queue that is n items deep, or deeper.
type queueRate struct{ put, take, putAll, takeN float64 }

// store opens one for itself, without proxies.
func (c *cluster) store(t testing.TB) *etcd.DB {
	o := c.options()
	o.Endpoints = c.direct.Endpoints()
	o.Compact = *rateCompact
	return open(t, o)
}

func (c *cluster) queueRates(t *testing.T, n int) (r queueRate) {
	q := openQueue(t, c.store(t), "rates")
	values := slices.Repeat([]string{value}, batch)
	put := func(int) (int, error) { return 1, q.Enqueue(t.Context(), value) }
	putAll := func(int) (int, error) { return batch, q.EnqueueAll(t.Context(), values) }
	rate(t, 1, n, putAll)
	r.put = rate(t, producers, n, put)
	r.take = rate(t, consumers, n, func(int) (int, error) { _, err := q.Dequeue(t.Context()); return 1, err })
	r.putAll = rate(t, producers, n, putAll)
	r.takeN = rate(t, consumers, n, func(int) (int, error) {
		got, err := q.DequeueN(t.Context(), batch)
		return len(got), err
	})
	return r
}

// priorities is how many the items of a priority queue have.
const priorities = 10

func (c *cluster) priorityRates(t *testing.T, n int) (r queueRate) {
	q, err := conq.OpenPriorityQueue(t.Context(), c.store(t), "rates", conq.String())
	testkit.NoError(t, err)
	values := make([]conq.Prioritized[string], batch)
	for i := range values {
		values[i] = conq.Prioritized[string]{Value: value, Priority: int64(i % priorities)}
	}
	putAll := func(int) (int, error) { return batch, q.PushAll(t.Context(), values) }
	rate(t, 1, n, putAll)
	r.put = rate(t, producers, n, func(i int) (int, error) { return 1, q.Push(t.Context(), value, int64(i%priorities)) })
	r.take = rate(t, consumers, n, func(int) (int, error) { _, err := q.PopMin(t.Context()); return 1, err })
	r.putAll = rate(t, producers, n, putAll)
	r.takeN = rate(t, consumers, n, func(int) (int, error) {
		got, err := q.PopN(t.Context(), conq.Min, batch)
		return len(got), err
	})
	return r
}

// recipeTime is how long etcd's recipes are watched.
const recipeTime = 10 * time.Second

func (c *cluster) recipeQueueRates(t *testing.T, n int) (r [2]float64) {
	q := recipe.NewQueue(c.client(t), "recipe-queue")
	enqueue := func(int) (int, error) { return 1, q.Enqueue(value) }
	rate(t, producers, n, enqueue)
	r[0] = rateFor(t, producers, n, recipeTime, enqueue)
	r[1] = rateFor(t, consumers, n, recipeTime, func(int) (int, error) { _, err := q.Dequeue(); return 1, err })
	return r
}

func (c *cluster) recipePriorityRates(t *testing.T, n int) (r [2]float64) {
	client := c.client(t)
	q := recipe.NewPriorityQueue(client, "recipe-priority-queue")
	rate(t, producers, n, func(i int) (int, error) { // what its pushes would leave
		_, err := client.Put(t.Context(), fmt.Sprintf("recipe-priority-queue/%05d/%016d", i%priorities, i/priorities), value)
		return 1, err
	})
	r[0] = rateFor(t, producers, n, recipeTime, func(i int) (int, error) { return 1, q.Enqueue(value, uint16(i%priorities)) })
	r[1] = rateFor(t, consumers, n, recipeTime, func(int) (int, error) { _, err := q.Dequeue(); return 1, err })
	return r
}
