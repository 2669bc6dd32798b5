package faulty

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/conq-go/conq/kv"
)

// Cluster is a simulated cluster: the load on it, and how long it takes to answer. All stores
// whose Options name the same Cluster share it, as processes share a cluster. It is safe for
// concurrent use.
//
//   - A request (for the version, of a read, of a commit) takes as long as was measured on a real
//     cluster with as many clients as there are requests under way, up to a quarter more or less
//     by chance. A commit takes longer if it writes several keys.
//   - The cluster does so much a second and no more: a request first waits for those that came
//     before it. A commit is more work for each key that its transaction has read or written.
//   - The version is as of when it was asked for, and a commit is decided on when it is answered.
//     So transactions conflict if they overlap at all, as they do where a commit takes time from
//     when it is checked until it can be seen.
//   - A watch of a key that its transaction has not written reads it before the commit. It tells
//     of a change some time after the commit of that.
//   - After a conflict comes the pause of the client library, if it has one of its own.
//
// All of that is on the clock of package time: in a bubble of testing/synctest it takes no time,
// and what is measured there is the cluster's alone.
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

// figures are what was measured on a cluster. Times are in microseconds.
type figures struct {
	// latency is the median with 1, 16 and 64 clients. A request without any is not made.
	latency [3][3]float64
	// several is how much longer a commit of several keys takes, and each how much longer for each
	// key but the first, which is the client's own work.
	several, each float64
	// work is how long a request keeps the cluster from others, and perKey how much longer each
	// key of a commit but the first.
	work   [3]float64
	perKey float64
	// watch returns how long after the commit of a change watches tell of it, given a random
	// number from 0 to 1.
	watch func(random float64) float64
	// compares tells that a watch begins, after the commit, with a transaction that reads.
	compares bool
	// firstPause is the longest pause after the first conflict, and lastPause to what it doubles.
	// Without them, pauses are those of all engines.
	firstPause, lastPause time.Duration
}

// loads are the numbers of clients of the latencies.
var loads = [3]float64{1, 16, 64}

// foundationDB is one process of FoundationDB 7.3 and its clients on one machine, which did
// 12,000 small transactions a second.
var foundationDB = figures{
	latency: [3][3]float64{
		askVersion: {430, 830, 1700},
		askRead:    {330, 770, 1500},
		askCommit:  {1700, 2200, 3500},
	},
	several: 600,
	each:    10,
	work:    [3]float64{askVersion: 13, askRead: 20, askCommit: 50},
	perKey:  22, // as in FoundationDB's own benchmark: 46,000 keys a second by one core
	watch: func(random float64) float64 { // two humps
		if random *= 2; random < 1 {
			return 200 + 1500*random
		}
		return 10_000 + 1000*(random-1)
	},
	compares:   true,
	firstPause: 10 * time.Millisecond,
	lastPause:  100 * time.Millisecond,
}

// etcd is three members and their clients on one machine, logs synced, which did 4,800 puts a
// second. The version comes with the first read.
var etcd = figures{
	latency: [3][3]float64{
		askRead:   {300, 500, 1000},
		askCommit: {600, 800, 1500},
	},
	work:   [3]float64{askRead: 40, askCommit: 190},
	perKey: 14,
	watch:  func(random float64) float64 { return 300 + 700*random },
}

// FoundationDB returns the Options of stores that answer as late as those of FoundationDB, with
// one Cluster for all stores that get them. clients is how many use the cluster: half of them, at
// least, count as having a request under way, whatever they do.
func FoundationDB(clients int) Options {
	return newCluster(foundationDB, clients, 0)
}

// Etcd is FoundationDB for three members of etcd, with its limit of operations.
func Etcd(clients int) Options {
	const operations = 128
	return newCluster(etcd, clients, operations)
}

func newCluster(f figures, clients, operations int) Options {
	return Options{
		Cluster: &Cluster{figures: f, clients: clients, random: rand.New(rand.NewPCG(uint64(clients), 1))},
		Limits:  kv.Limits{Shared: true, UnknownCommits: true, Operations: operations},
	}
}

// ask makes a request for so many keys. It returns how long the answer takes, and what to call
// when it is there.
func (c *Cluster) ask(r request, keys int) (d time.Duration, answered func()) {
	f := &c.figures
	if f.latency[r][0] == 0 {
		return 0, func() {}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	now, median, more := time.Now(), c.median(r), float64(max(keys-1, 0))
	if c.free.Before(now) {
		c.free = now
	}
	c.free = c.free.Add(micros(f.work[r] + more*f.perKey))
	if more > 0 {
		median += f.several + more*f.each
	}
	return c.free.Sub(now) + micros(median*(0.75+c.random.Float64()/2)), c.answered
}

func (c *Cluster) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked--
}

// median is that of the latency under the load that there is. The lock is held.
func (c *Cluster) median(r request) float64 {
	at, load := c.figures.latency[r], max(float64(c.asked), float64(c.clients)/2)
	i := 0
	if load > loads[1] {
		i = 1
	}
	part := (min(load, loads[2]) - loads[i]) / (loads[i+1] - loads[i])
	return at[i] + max(part, 0)*(at[i+1]-at[i])
}

// news is how long after the commit of a change a watch tells of it.
func (c *Cluster) news() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return micros(c.figures.watch(c.random.Float64()))
}

// pause is how long to wait after so many conflicts.
func (c *Cluster) pause(conflicts int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	longest := min(c.figures.firstPause<<min(conflicts-1, 10), c.figures.lastPause)
	return time.Duration(c.random.Float64() * float64(longest))
}

func micros(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }
