package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
)

// Two servers of one store, of which each request of a client goes to one at random, are killed, and so are members of the
// cluster: nothing that was acknowledged is lost, nothing is there twice, and each job is done.
func TestServersThroughKills(t *testing.T) {
	c := startCluster(t, clusterOptions{})
	o := c.options()
	o.Timeout = 5 * time.Second
	db := open(t, o)
	binary, addresses := buildConq(t), freeAddresses(t, 2)
	stop := killed(t, len(addresses), func(i int) *exec.Cmd {
		return exec.Command(binary, "serve", "--store", storeURL(o), "--listen", addresses[i])
	})
	remote, err := client.Dial(t.Context(), "http://"+strings.Join(addresses, ","), client.Options{Patience: patience})
	testkit.NoError(t, err)
	defer remote.Close()
	x := newChaos(c)
	kept, flow, jobs := newTally(), newTally(), newTally()
	var producing, consuming sync.WaitGroup
	working, end := context.WithCancel(t.Context())
	defer end()
	producing.Go(func() { x.run(t, *kills) })
	addThrough(t, x, &producing, remote, kept, flow, jobs)
	takeThrough(t, working, &consuming, remote, flow, jobs)
	producing.Wait()
	q, err := work.Open(t.Context(), db, "jobs", conq.String(), work.Options{})
	testkit.NoError(t, err)
	defer q.Close()
	awaitEmpty(t, q)
	end()
	consuming.Wait()
	n := stop()

	countLeft(t, db, "kept", kept)
	kept.judge(t)
	countLeft(t, db, "flow", flow)
	if lost := flow.lost(t); lost > n+*kills+takers {
		t.Errorf("%d items are lost, with %d kills of servers", lost, n)
	}
	for value := range jobs.put {
		if jobs.took[value] == 0 {
			t.Errorf("job %q was never done", value)
		}
	}
	report, err := conq.Check(t.Context(), db, conq.CheckOptions{Found: func(f conq.Finding) { t.Error(f.Text) }})
	testkit.NoError(t, err)
	testkit.Equal(t, "sound", report.Sound(), true)
	t.Logf("%d and %d items, %d jobs; %d kills of servers, %v", len(kept.put), len(flow.put), len(jobs.put), n, x.counts)
}

const takers = 2

// addThrough adds to three queues until the cluster is disturbed no more.
func addThrough(t *testing.T, x *chaos, group *sync.WaitGroup, c *client.Client, kept, flow, jobs *tally) {
	k, err := client.OpenQueue(t.Context(), c, "kept", conq.String())
	testkit.NoError(t, err)
	f, err := client.OpenQueue(t.Context(), c, "flow", conq.String())
	testkit.NoError(t, err)
	w, err := client.OpenWork(t.Context(), c, "jobs", conq.String())
	testkit.NoError(t, err)
	for of, add := range map[*tally]func(string) error{
		kept: func(v string) error { return k.Enqueue(t.Context(), v) },
		flow: func(v string) error { return f.Enqueue(t.Context(), v) },
		jobs: func(v string) error {
			_, err := w.Put(t.Context(), v, work.Job{MaxAttempts: -1})
			return err
		},
	} {
		for p := range 2 {
			group.Go(func() {
				for n := 0; !x.done.Load() && !t.Failed(); n++ {
					value := fmt.Sprint(p, ".", n)
					if err := add(value); err != nil {
						t.Errorf("it can't be added: %v", err)
						return
					}
					of.count(of.put, value)
					wait(t.Context(), 10*time.Millisecond)
				}
			})
		}
	}
}

// takeThrough takes from queues until ctx ends.
func takeThrough(t *testing.T, ctx context.Context, group *sync.WaitGroup, c *client.Client, flow, jobs *tally) {
	f, err := client.OpenQueue(t.Context(), c, "flow", conq.String())
	testkit.NoError(t, err)
	w, err := client.OpenWork(t.Context(), c, "jobs", conq.String(), client.WorkOptions{Lease: 3 * time.Second})
	testkit.NoError(t, err)
	for range takers {
		group.Go(func() {
			for ctx.Err() == nil {
				v, err := f.DequeueWait(ctx)
				if err == nil {
					flow.count(flow.took, v)
				} else if ctx.Err() == nil {
					t.Errorf("DequeueWait: %v", err)
				}
			}
		})
	}
	group.Go(func() {
		testkit.Check(t, work.Run(ctx, w, func(_ context.Context, l *work.Lease[string]) error {
			jobs.count(jobs.took, l.Value)
			return nil
		}, work.RunOptions{Workers: 4, OnError: func(work.ID, error) {}}))
	})
}

// countLeft counts what is left in a queue as taken.
func countLeft(t *testing.T, db kv.DB, name string, of *tally) {
	q := openQueue(t, db, name)
	for {
		all, err := q.DequeueN(t.Context(), 100)
		for _, v := range all {
			of.count(of.took, v)
		}
		if errors.Is(err, conq.ErrEmpty) {
			return
		}
		testkit.NoError(t, err)
	}
}

// lost returns how many were put in and not taken out. None is twice, or from nowhere.
func (y *tally) lost(t *testing.T) (n int) {
	for value, times := range y.took {
		if times != 1 || y.put[value] != 1 {
			t.Errorf("item %q was put in %d times and taken out %d times", value, y.put[value], times)
		}
	}
	for value := range y.put {
		if y.took[value] == 0 {
			n++
		}
	}
	return n
}
