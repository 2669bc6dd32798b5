package etcd_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/linear"
	"github.com/conq-go/conq/kv"
)

var (
	kills    = flag.Int("kills", 15, "how often members are stopped or paused, and connections cut, in each test of that")
	killSeed = flag.Uint64("kills.seed", 1, "decides when and whom")
)

// chaos disturbs a cluster, which keeps a majority of members that work.
type chaos struct {
	c      *cluster
	random *rand.Rand
	done   atomic.Bool
	counts map[string]int
}

func newChaos(c *cluster) *chaos {
	return &chaos{c: c, random: rand.New(rand.NewPCG(*killSeed, 1)), counts: make(map[string]int)}
}

// disturbances are what may happen, each for a while.
var disturbances = []struct {
	name string
	do   func(t testing.TB, x *chaos, d time.Duration)
}{
	{"leader killed", func(t testing.TB, x *chaos, d time.Duration) { x.kill(t, x.c.leader(t), d) }},
	{"member killed", func(t testing.TB, x *chaos, d time.Duration) { x.kill(t, x.random.IntN(3), d) }},
	{"leader paused", func(t testing.TB, x *chaos, d time.Duration) { x.pause(t, x.c.leader(t), d) }},
	{"member paused", func(t testing.TB, x *chaos, d time.Duration) { x.pause(t, x.random.IntN(3), d) }},
	{"member behind a black hole", func(t testing.TB, x *chaos, d time.Duration) {
		p := x.c.proxies[x.random.IntN(3)]
		p.swallow(true)
		wait(t.Context(), d)
		p.swallow(false)
	}},
	{"leader behind a black hole", func(t testing.TB, x *chaos, d time.Duration) {
		p := x.c.proxies[x.c.leader(t)]
		p.swallow(true)
		wait(t.Context(), d)
		p.swallow(false)
	}},
	{"connections cut", func(t testing.TB, x *chaos, d time.Duration) {
		for range 5 {
			for _, p := range x.c.proxies {
				p.cut()
			}
			wait(t.Context(), d/20)
		}
	}},
}

func (x *chaos) kill(t testing.TB, i int, d time.Duration) {
	x.c.members[i].kill()
	wait(t.Context(), d)
	x.c.members[i].start(t)
	x.c.leader(t)
}

func (x *chaos) pause(t testing.TB, i int, d time.Duration) {
	x.c.members[i].pause(t)
	wait(t.Context(), d)
	x.c.members[i].resume(t)
	x.c.leader(t)
}

// run disturbs the cluster n times.
func (x *chaos) run(t testing.TB, n int) {
	defer x.done.Store(true)
	for range n {
		if t.Context().Err() != nil {
			return
		}
		d := disturbances[x.random.IntN(len(disturbances))]
		d.do(t, x, time.Duration(x.random.IntN(1500))*time.Millisecond)
		x.counts[d.name]++
		wait(t.Context(), time.Duration(x.random.IntN(500))*time.Millisecond)
	}
}

// disturb starts chaos on a new cluster, and opens stores of it.
func disturb(t *testing.T) (x *chaos, dbs []kv.DB) {
	c := startCluster(t, clusterOptions{})
	o := c.options()
	o.Timeout = 2 * time.Second
	for range handles {
		dbs = append(dbs, open(t, o))
	}
	x = newChaos(c)
	var group sync.WaitGroup
	group.Go(func() { x.run(t, *kills) })
	t.Cleanup(func() {
		group.Wait()
		t.Logf("%d disturbances: %v", *kills, x.counts)
	})
	return x, dbs
}

// While members are stopped and paused, and connections cut, queues are as one
// queue of one client at a time.
func TestLinearizableThroughKills(t *testing.T) {
	x, dbs := disturb(t)
	rounds := 0
	for ; !x.done.Load() && !t.Failed(); rounds++ {
		m := modes[rounds%len(modes)]
		w := linear.Workload{Seed: *killSeed<<16 | uint64(rounds), Clients: 6, Calls: 40, Ends: 1 + rounds/len(modes)%2}
		linear.CheckOn(t, dbs, fmt.Sprint("q", rounds), w, m.options)
	}
	t.Logf("%d histories", rounds)
}

// Nothing that was acknowledged is lost, and nothing is delivered twice, while
// producers and consumers work at full speed.
func TestExactlyOnceThroughKills(t *testing.T) {
	x, dbs := disturb(t)
	counts := newTally()
	var producing, consuming sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i, db := range dbs {
		q := openQueue(t, db, "q", conq.Options{NoCombining: i == 0})
		for p := range 3 {
			producing.Go(func() {
				for n := 0; !x.done.Load() && !t.Failed(); n++ {
					for counts.ahead() > maxAhead && !t.Failed() {
						wait(ctx, 10*time.Millisecond)
					}
					value := fmt.Sprintf("%d.%d.%d", i, p, n)
					if err := q.Enqueue(ctx, value); err != nil {
						t.Errorf("Enqueue: %v", err)
						return
					}
					counts.count(counts.put, value)
				}
			})
			consuming.Go(func() {
				for ctx.Err() == nil {
					v, err := q.DequeueWait(ctx)
					if err == nil {
						counts.count(counts.took, v)
					} else if ctx.Err() == nil {
						t.Errorf("DequeueWait: %v", err)
						return
					}
				}
			})
		}
	}
	producing.Wait()
	left := openQueue(t, dbs[0], "q")
	for !t.Failed() { // all that is left is taken by those who wait
		if n, err := left.Len(t.Context()); err == nil && n == 0 && counts.ahead() <= 0 {
			break
		}
		wait(t.Context(), 50*time.Millisecond)
	}
	stop()
	consuming.Wait()
	counts.judge(t)
	t.Logf("%d items went through", len(counts.took))
}

// maxAhead is how far producers may be ahead of consumers.
const maxAhead = 300

// ahead returns how much more was put in than was delivered.
func (y *tally) ahead() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.put) - len(y.took)
}
