package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/linear"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// handles is how many stores are opened at once, each with handles of its own, as
// processes have them.
const handles = 3

// modes are the ways to open handles.
var modes = []struct {
	name    string
	options conq.Options
}{
	{"automatic", conq.Options{}},
	{"staged", conq.Options{Staging: conq.StagingAlways}},
	{"not combined", conq.Options{NoCombining: true}},
	{"not combined, never staged", conq.Options{NoCombining: true, Staging: conq.StagingNever}},
}

// Queues on a healthy cluster are as one queue of one client at a time.
func TestQueuesAreLinearizable(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	for i, m := range modes {
		for ends := 1; ends <= 2; ends++ {
			t.Run(fmt.Sprintf("%s/%d ends", m.name, ends), func(t *testing.T) {
				o := c.options()
				var dbs []kv.DB
				for range handles {
					dbs = append(dbs, open(t, o))
				}
				linear.CheckOn(t, dbs, "q", linear.Workload{Seed: uint64(2*i + ends), Clients: 9, Calls: 60, Ends: ends, Cancel: 0.02}, m.options)
			})
		}
	}
}

func openQueue(t testing.TB, db kv.DB, name string, o ...conq.Options) *conq.Queue[string] {
	t.Helper()
	for {
		q, err := conq.OpenQueue(t.Context(), db, name, conq.String(), o...)
		if err == nil {
			return q
		}
		if !errors.Is(err, kv.ErrCommitUnknown) { // to open it twice does no harm
			t.Fatal(err)
		}
	}
}

// Who waits is woken by an enqueue through another store, long before it would
// look by itself, which it does each second.
func TestWaiting(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	o := c.options()
	here, there := openQueue(t, open(t, o), "q"), openQueue(t, open(t, o), "q")
	const rounds = 20
	var late int
	for i := range rounds {
		got := make(chan string)
		go func() {
			v, err := here.DequeueWait(t.Context())
			testkit.Check(t, err)
			got <- v
		}()
		wait(t.Context(), 150*time.Millisecond) // so that it mostly waits by then
		want := fmt.Sprint(i)
		began := time.Now()
		testkit.NoError(t, there.Enqueue(t.Context(), want))
		if v := <-got; v != want {
			t.Fatalf("who waited got %q, want %q", v, want)
		}
		if time.Since(began) > 500*time.Millisecond {
			late++
		}
	}
	if late > rounds/3 {
		t.Errorf("%d of %d waiters were woken later than after half a second", late, rounds)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errCause) })
	if _, err := here.DequeueWait(ctx); !errors.Is(err, errCause) {
		t.Errorf("who waits, and whose context ends, got %v, want the cause", err)
	}
}

// The largest payload, and that an item moves.
func TestQueueFeatures(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	db := open(t, c.options())
	from, to := openQueue(t, db, "from"), openQueue(t, db, "to", conq.Options{Staging: conq.StagingAlways})
	large := strings.Repeat("large ", db.Limits().Transaction/12) // the largest that is allowed
	testkit.NoError(t, from.Enqueue(t.Context(), large))
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		v, err := from.In(tx).Dequeue()
		if err != nil {
			return err
		}
		return to.In(tx).Enqueue(v)
	}))
	if v, err := to.Dequeue(t.Context()); err != nil || v != large {
		t.Errorf("an item of %d bytes came back with %d, %v", len(large), len(v), err)
	}
	if _, err := from.Dequeue(t.Context()); !errors.Is(err, conq.ErrEmpty) {
		t.Errorf("the queue that it was moved from returned %v, want ErrEmpty", err)
	}
	if err := from.Enqueue(t.Context(), large+strings.Repeat("x", 10)); !errors.Is(err, kv.ErrTooLarge) {
		t.Errorf("an item that is too large: error %v, want ErrTooLarge", err)
	}
}

// tally counts what was acknowledged, and what was delivered.
type tally struct {
	mu        sync.Mutex
	put, took map[string]int
}

func newTally() *tally { return &tally{put: make(map[string]int), took: make(map[string]int)} }

func (y *tally) count(of map[string]int, value string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	of[value]++
}

// judge finds what was lost, delivered twice, or never put in.
func (y *tally) judge(t testing.TB) {
	t.Helper()
	for value, n := range y.put {
		if n != 1 || y.took[value] != 1 {
			t.Errorf("item %q was put in %d times and taken out %d times", value, n, y.took[value])
		}
	}
	for value := range y.took {
		if y.put[value] == 0 {
			t.Errorf("item %q was taken out, and its enqueue has failed", value)
		}
	}
}
