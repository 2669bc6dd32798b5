package etcd_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/work"
)

var rateRows = flag.String("rates.rows", "", "measure rows of jobs only that match this regular expression")

// jobsTime is how long the workers of a row work.
const jobsTime = 5 * time.Second

// Jobs done a second by several stores, each with a connection and a handle of its own, as processes have them, and items taken one by one
// at several depths.
func TestJobRates(t *testing.T) {
	if !*rates {
		t.Skip("measures for minutes, and wants the machine for itself: -rates runs it")
	}
	c := startCluster(t, clusterOptions{sync: true})
	only := regexp.MustCompile(*rateRows)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "\ta second\tattempts a reservation\tjobs in one\tattempts an ack\tjobs in one\t\n")
	for _, order := range []work.Order{work.NearlyStrict, work.Relaxed} {
		for _, r := range [][2]int{{1, 4}, {2, 4}, {4, 4}, {8, 4}, {1, 16}, {4, 16}, {1, 64}} {
			row := fmt.Sprintf("%v, %d processes of %d workers", []string{"nearly strict", "strict", "relaxed"}[order], r[0], r[1])
			if only.MatchString(row) {
				fmt.Fprint(w, row, "\t")
				c.jobsDone(t, r[0], r[1], order).write(w)
			}
		}
	}
	for _, depth := range []int{300, 20_000, 60_000, 200_000} {
		row := fmt.Sprintf("one taker, %d items deep", depth)
		if only.MatchString(row) {
			fmt.Fprintf(w, "%s\t%.0f\t\n", row, c.takenOneByOne(t, depth))
		}
	}
	w.Flush()
	t.Logf("on three members that sync\n%s", &b)
}

// jobCounts is what observers were told.
type jobCounts struct {
	mu    sync.Mutex
	verbs map[work.EventKind]*verbCounts
	done  atomic.Int64
	took  time.Duration
}

type verbCounts struct{ transactions, attempts, jobs int }

func (n *jobCounts) observe(e work.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	v := n.verbs[e.Kind]
	if v == nil {
		v = new(verbCounts)
		n.verbs[e.Kind] = v
	}
	v.transactions++
	v.attempts += e.Attempts
	v.jobs += e.Jobs
}

func (n *jobCounts) write(w *tabwriter.Writer) {
	fmt.Fprintf(w, "%.0f\t", float64(n.done.Load())/n.took.Seconds())
	for _, kind := range []work.EventKind{work.EventReserved, work.EventAcked} {
		v := n.verbs[kind]
		fmt.Fprintf(w, "%.2f\t%.1f\t", float64(v.attempts)/float64(v.transactions), float64(v.jobs)/float64(v.transactions))
	}
	fmt.Fprintln(w)
}

// jobsDone has workers of several stores reserve and acknowledge jobs.
func (c *cluster) jobsDone(t *testing.T, processes, workers int, order work.Order) *jobCounts {
	o := c.options()
	o.Endpoints, o.Compact = c.direct.Endpoints(), 1000
	counts := &jobCounts{verbs: make(map[work.EventKind]*verbCounts)}
	var queues []*work.Queue[string]
	for range processes {
		q, err := work.Open(t.Context(), open(t, o), "jobs", conq.String(), work.Options{Settings: &work.Settings{Order: order}, Observe: counts.observe})
		testkit.NoError(t, err)
		t.Cleanup(func() { testkit.Check(t, q.Close()) })
		queues = append(queues, q)
	}
	jobs := slices.Repeat([]work.New[string]{{Value: value}}, 20)
	rate(t, 8, 20_000, func(int) (int, error) {
		_, _, err := queues[0].PutAll(t.Context(), jobs)
		return len(jobs), err
	})
	ctx, cancel := context.WithTimeout(t.Context(), jobsTime)
	defer cancel()
	began := time.Now()
	var group sync.WaitGroup
	for _, q := range queues {
		for range workers {
			group.Go(func() { counts.work(ctx, t, q) })
		}
	}
	group.Wait()
	counts.took = time.Since(began)
	return counts
}

func (n *jobCounts) work(ctx context.Context, t *testing.T, q *work.Queue[string]) {
	for {
		leases, err := q.ReserveN(ctx, 1)
		for _, l := range leases {
			if err := l.Ack(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
			n.done.Add(1)
		}
		switch {
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, conq.ErrEmpty):
			return
		case err != nil:
			t.Error(err)
			return
		}
	}
}

// takenOneByOne is how many items a second one caller takes from a queue of some depth.
func (c *cluster) takenOneByOne(t *testing.T, depth int) float64 {
	o := c.options()
	o.Endpoints, o.Compact = c.direct.Endpoints(), 1000
	q := openQueue(t, open(t, o), "deep")
	values := slices.Repeat([]string{value}, 100)
	rate(t, 4, depth, func(int) (int, error) { return len(values), q.EnqueueAll(t.Context(), values) })
	taker := openQueue(t, open(t, o), "deep") // it has seen nothing of the queue
	return rateFor(t, 1, min(depth-50, 3000), jobsTime, func(int) (int, error) { _, err := taker.Dequeue(t.Context()); return 1, err })
}
