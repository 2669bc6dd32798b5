package foundationdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/linear"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/kvtest"
)

// world opens stores for tests.
type world struct {
	// store returns a new, empty store as a function that opens it for another
	// process. It is closed, and removed, at the end of the test.
	store func(t *testing.T) (process func() *DB)
	// advance moves the cluster's clock. Nil if it can't be moved.
	advance func(time.Duration)
	// unknown makes some commits have unknown outcomes, where that can be had.
	unknown func(*testing.T)
	// patience is how long one case of the contract may take. Default: kvtest's.
	patience time.Duration
}

// patience is how long something that has to happen may take.
const patience = 2 * time.Minute

// testQueues are the tests of queues. In cluster_test.go they run on a real
// cluster, here on one in memory.
func testQueues(t *testing.T, w world) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, world)
	}{
		{"linearizable", testLinearizable},
		{"waiting", testWaiting},
		{"large payloads", testLargePayloads},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, w) })
	}
}

// inMemory is a world of clusters in memory.
func inMemory() world {
	var mu sync.Mutex
	var all []*fake
	return world{
		store: func(t *testing.T) func() *DB {
			f := newFake()
			mu.Lock()
			all = append(all, f)
			mu.Unlock()
			return func() *DB { return opened(t, newDB(f, Options{Prefix: []byte("p/")})) }
		},
		advance: func(d time.Duration) {
			for _, f := range all {
				f.advance(d)
			}
		},
		unknown: func(*testing.T) {
			for _, f := range all {
				f.mu.Lock()
				random := rand.New(rand.NewPCG(1, 2))
				f.inject = func(op string) int {
					if op == "commit" && random.IntN(20) == 0 {
						return codeCommitUnknown
					}
					return 0
				}
				f.late = func() bool { return random.IntN(2) == 0 }
				f.mu.Unlock()
			}
		},
	}
}

func opened(t *testing.T, db *DB) *DB {
	t.Cleanup(func() {
		testkit.Check(t, db.Close())
	})
	return db
}

func TestQueues(t *testing.T) { testQueues(t, inMemory()) }

// The engine keeps the contract on a cluster that does as FoundationDB documents.
func TestConformance(t *testing.T) { testContract(t, inMemory()) }

func testContract(t *testing.T, w world) {
	again := map[kv.DB]func() *DB{}
	open := func(process func() *DB) kv.DB {
		db := process()
		again[db] = process
		return db
	}
	kvtest.Run(t, kvtest.Engine{
		Open:    func(t *testing.T) kv.DB { return open(w.store(t)) },
		Reopen:  func(_ *testing.T, db kv.DB) kv.DB { return open(again[db]) },
		Advance: w.advance, Patience: w.patience,
	})
}

// known repeats what can be repeated until its outcome is known.
func known[T any](t *testing.T, f func() (T, error)) T {
	t.Helper()
	for {
		v, err := f()
		if !errors.Is(err, kv.ErrCommitUnknown) {
			testkit.NoError(t, err)
			return v
		}
	}
}

func openQueue(t *testing.T, db kv.DB, o conq.Options) *conq.Queue[string] {
	t.Helper()
	return known(t, func() (*conq.Queue[string], error) { return conq.OpenQueue(t.Context(), db, "q", conq.String(), o) })
}

// Queues behave as one queue used by one client at a time, whatever becomes of commits.
func testLinearizable(t *testing.T, w world) {
	for name, c := range map[string]struct {
		options conq.Options
		cancel  float64
	}{
		"automatic":                  {conq.Options{}, 0},
		"staged":                     {conq.Options{Staging: conq.StagingAlways}, 0},
		"staged, not combined":       {conq.Options{Staging: conq.StagingAlways, NoCombining: true}, 0},
		"never staged":               {conq.Options{Staging: conq.StagingNever}, 0.05},
		"never staged, not combined": {conq.Options{Staging: conq.StagingNever, NoCombining: true}, 0.05},
	} {
		t.Run(name, func(t *testing.T) {
			const processes, clients, calls = 4, 8, 40
			process := w.store(t)
			if w.unknown != nil {
				w.unknown(t)
			}
			var dbs []kv.DB
			for i := range processes {
				faults := faulty.New(process(), uint64(i), faulty.Options{Conflict: 0.05, Dropped: 0.05, Applied: 0.05, Late: 0.05})
				dbs = append(dbs, faults)
				t.Cleanup(func() { testkit.Check(t, faults.Close()) })
			}
			for ends := 1; ends <= 2; ends++ {
				workload := linear.Workload{Seed: uint64(ends), Clients: clients, Calls: calls, Ends: ends, Cancel: c.cancel}
				for _, err := range linear.CheckOn(t, dbs, fmt.Sprint("q", ends), workload, c.options) {
					if !errors.Is(err, context.Canceled) && !errors.Is(err, kv.ErrTooOld) {
						t.Errorf("failed call: %v", err)
					}
				}
			}
		})
	}
}

// A consumer that waits in one process is woken by a producer in another.
func testWaiting(t *testing.T, w world) {
	const consumers, items = 5, 40
	process := w.store(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	producer := openQueue(t, process(), conq.Options{})
	got := make(chan string, items)
	var group sync.WaitGroup
	for range consumers {
		q := openQueue(t, process(), conq.Options{})
		group.Go(func() {
			for {
				value, err := q.DequeueWait(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if value == "end" {
					return
				}
				got <- value
			}
		})
	}
	for i := range items { // one by one, so that consumers wait each time
		value := fmt.Sprint(i)
		testkit.NoError(t, producer.Enqueue(ctx, value))
		select {
		case v := <-got:
			if v != value {
				t.Errorf("got %s, want %s", v, value)
			}
		case <-ctx.Done():
			t.Fatalf("item %d woke nobody", i)
		}
	}
	for range consumers {
		testkit.NoError(t, producer.Enqueue(ctx, "end"))
	}
	group.Wait()
}

// Payloads over the limit of a value come out as they went in.
func testLargePayloads(t *testing.T, w world) {
	db := w.store(t)()
	q := openQueue(t, db, conq.Options{})
	for _, size := range []int{0, 99_999, 100_000, 100_001, 1_000_000, db.Limits().Transaction / 2} {
		value := strings.Repeat("0123456789", size/10+1)[:size]
		testkit.NoError(t, q.Enqueue(t.Context(), value))
		got, err := q.Dequeue(t.Context())
		testkit.NoError(t, err)
		if i := cmp.Compare(got, value); i != 0 {
			t.Errorf("a payload of %d bytes came out with %d", size, len(got))
		}
	}
}
