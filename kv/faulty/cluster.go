package faulty

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/conq-go/conq/kv"
)

// Cluster is the load on a simulated cluster, and how it answers under it. All stores whose
// Options name the same Cluster share it, as processes share a cluster. It is safe for
// concurrent use.
//
// Each request (for the version, of a read, of a commit) takes as long as was measured on a
// real cluster with as many clients as there are requests under way, somewhat more or less by
// chance, and waits before that for its turn: the cluster does so much a second and no more. The
// rest is as with the three latencies of [Options]. Beside them:
//
//   - A watch of a key that its transaction has not written reads it before the commit. It tells
//     of a change some time after the commit of that.
//   - Where the client library has pauses of its own after conflicts, they are taken.
//
// It takes all times from the clock of package time: in a bubble of testing/synctest they pass
// at once, and what is measured there is the cluster's alone.
type Cluster struct {
	figures figures
	clients int

	mu     sync.Mutex
	random *rand.Rand
	asked  int       // requests under way
	free   time.Time // when the cluster is done with all requests so far
}

// request is what a cluster is asked for.
type request int

const (
	askVersion request = iota
	askRead
	askCommit
)

// figures are what was measured on a cluster.
type figures struct {
	// latency is the median in microseconds with 1, 16 and 64 clients.
	latency [3][3]float64
	// work is what a request keeps the cluster from doing others, in microseconds.
	work [3]float64
	// compares tells that a watch begins, after the commit, with a transaction that reads.
	compares bool
	// watch returns how long after the commit of a change its watches tell, given a random
	// number from 0 to 1, in microseconds.
	watch func(random float64) float64
	// firstPause and lastPause are the longest pause after the first conflict, and to what it
	// doubles. Without them, pauses are those of all engines.
	firstPause, lastPause time.Duration
}

// loads are the numbers of clients of the latencies.
var loads = [3]float64{1, 16, 64}

// foundationDB is one process of FoundationDB 7.3, which did 12,000 small transactions a second.
var foundationDB = figures{
	latency: [3][3]float64{
		askVersion: {430, 830, 1700},
		askRead:    {330, 770, 1500},
		askCommit:  {1700, 2200, 3500},
	},
	work:     [3]float64{askVersion: 13, askRead: 20, askCommit: 50},
	compares: true,
	watch: func(random float64) float64 { // two humps
		if random *= 2; random < 1 {
			return 200 + 1500*random
		}
		return 10_000 + 1000*(random-1)
	},
	firstPause: 10 * time.Millisecond,
	lastPause:  100 * time.Millisecond,
}

// etcd is three members on one machine that sync their logs, which did 4,800 puts a second of 16
// clients. The version comes with the first read.
var etcd = figures{
	latency: [3][3]float64{
		askRead:   {400, 1300, 4000},
		askCommit: {1000, 3300, 10_000},
	},
	work:  [3]float64{askRead: 60, askCommit: 150},
	watch: func(random float64) float64 { return 300 + 700*random },
}

// FoundationDB returns the Options of stores that answer as those of FoundationDB do, with all
// that they have in common. The latencies are never below those with so many clients, and rise
// with the load of the stores themselves: 1 leaves them to that.
func FoundationDB(clients int) Options {
	return newCluster(foundationDB, clients, 0)
}

// Etcd is FoundationDB for three members of etcd.
func Etcd(clients int) Options {
	const operations = 5000
	return newCluster(etcd, clients, operations)
}

func newCluster(f figures, clients, operations int) Options {
	return Options{
		Cluster: &Cluster{figures: f, clients: clients, random: rand.New(rand.NewPCG(uint64(clients), 1))},
		Limits:  kv.Limits{Shared: true, UnknownCommits: true, Operations: operations},
	}
}

// ask makes a request of the cluster. It returns when the answer is there, which answered has to be
// told.
func (c *Cluster) ask(r request) (d time.Duration, answered func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	now := time.Now()
	if c.free.Before(now) {
		c.free = now
	}
	c.free = c.free.Add(micros(c.figures.work[r]))
	spread := 0.75 + c.random.Float64()/2
	return c.free.Sub(now) + micros(spread*c.median(r)), c.answered
}

func (c *Cluster) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked--
}

// median is that of the latency under the load that there is. The lock is held.
func (c *Cluster) median(r request) float64 {
	at, load := c.figures.latency[r], max(float64(c.asked), float64(c.clients))
	i := 0
	if load > loads[1] {
		i = 1
	}
	part := (min(load, loads[2]) - loads[i]) / (loads[i+1] - loads[i])
	return at[i] + max(part, 0)*(at[i+1]-at[i])
}

// news is how long after the store below has decided on a change a watch tells of it.
func (c *Cluster) news() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return micros(c.median(askCommit)/2 + c.figures.watch(c.random.Float64()))
}

// pause is how long to wait after so many conflicts.
func (c *Cluster) pause(conflicts int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest := min(c.figures.firstPause<<min(conflicts-1, 10), c.figures.lastPause)
	return time.Duration(c.random.Float64() * float64(longest))
}

func micros(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }
