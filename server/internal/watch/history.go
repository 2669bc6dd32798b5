// Package watch is how a server is seen from outside: what its queues have looked like, metrics for Prometheus, and a log of
// requests.
//
// A [Sampler] reads the store once a second, for all who look, and a [History] keeps depths, rates and latencies in memory, for
// charts on a server that has no other place for them. Each queue has rings of three resolutions: 1 s for
// 10 minutes, 10 s for 3 hours, 2 minutes for 2 days. A value takes 2 bytes, and 120 of a field that were all 0
// none: up to 6 kB a field, at most 100 kB a queue. Of more than [MaxQueues] queues those that come last have no history.
//
// [Metrics] are on a registry of their own. A label can have any name of a queue, so only so many queues have
// their own: those that were seen first, until they are deleted. All others are one, (other), so that 100,000 queues cost no more than a
// thousand, and no scrape grows without bound.
package watch

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq"
)

// MaxQueues is of how many queues there is a history.
const MaxQueues = 4096

// maxHeld is of how many jobs of a queue it is known at once since when they are held.
const maxHeld = 10_000

// Counts is how a queue looks at one moment.
type Counts struct {
	Depth                                         int64 // items, or jobs that are not dead or done
	Ready, Scheduled, Leased, Blocked, Dead, Done int64 // of a work queue
	Paused                                        bool
	Oldest                                        time.Time // since when the oldest is there that could be taken; zero if it is not known
	AtLeast                                       bool      // it may have been there before Oldest
	Estimated                                     bool      // Depth was counted a while ago, and what has happened since was added
}

// State is a queue now. It is not changed any more.
type State struct {
	Name string
	Kind conq.Kind
	Counts
	In, Out, Failed float64   // a second, over the last ten
	Spark           []float64 // Depth over the last ten minutes, oldest first
	Err             error     // why it could not be read
}

// Age returns how old the oldest is, or 0.
func (s *State) Age(now time.Time) time.Duration {
	if s.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(s.Oldest))
}

// Snapshot is all queues at one moment, by name. It is not changed any more.
type Snapshot struct {
	Time   time.Time     // of Queues
	Took   time.Duration // to read the store
	Queues []*State
	Store  Store
	Err    error // why the store could not be read; then Queues are those of before
	next   chan struct{}
}

// Queue returns a queue, or nil.
func (s *Snapshot) Queue(name string) *State {
	i, found := slices.BinarySearchFunc(s.Queues, name, func(q *State, name string) int { return cmp.Compare(q.Name, name) })
	if !found {
		return nil
	}
	return s.Queues[i]
}

// Next is closed when there is a later snapshot.
func (s *Snapshot) Next() <-chan struct{} { return s.next }

// History is what queues have looked like. It is safe for concurrent use.
type History struct {
	latest atomic.Pointer[Snapshot]
	wanted chan struct{}

	mu     sync.RWMutex
	queues map[string]*Queue
	begun  map[string]bool // queues that had no history, and were asked for
}

// NewHistory returns an empty history.
func NewHistory() *History {
	h := &History{queues: make(map[string]*Queue), begun: make(map[string]bool), wanted: make(chan struct{}, 1)}
	h.latest.Store(&Snapshot{next: make(chan struct{})})
	return h
}

// Latest returns the last snapshot. The first one is empty, and has no time.
func (h *History) Latest() *Snapshot { return h.latest.Load() }

// Refresh has the sampler read the store now rather than in its time, as something has been done that somebody waits to see.
func (h *History) Refresh() {
	select {
	case h.wanted <- struct{}{}:
	default: // it is going to
	}
}

func (h *History) publish(s *Snapshot) {
	s.next = make(chan struct{})
	close(h.latest.Swap(s).next)
}

// Queue returns the history of a queue, which begins if there is none. If there are too many it is one that nobody sees.
func (h *History) Queue(name string) *Queue { return h.queue(name, true) }

// queue is Queue, for the sampler without news.
func (h *History) queue(name string, news bool) *Queue {
	h.mu.RLock()
	q := h.queues[name]
	h.mu.RUnlock()
	if q != nil {
		return q
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if q = h.queues[name]; q != nil {
		return q
	}
	q = newQueue()
	if len(h.queues) < MaxQueues {
		h.queues[name] = q
	}
	if news && len(h.begun) < MaxQueues {
		h.begun[name] = true
	}
	return q
}

// find returns the history of a queue, or nil.
func (h *History) find(name string) *Queue {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.queues[name]
}

// forget ends the history of a queue.
func (h *History) forget(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.queues, name)
}

// names returns the names of queues that have a history.
func (h *History) names() []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Collect(maps.Keys(h.queues))
}

func (h *History) size() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.queues)
}

// news returns queues that had no history, and were asked for since the last call: mostly, something has happened to them.
func (h *History) news() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.begun) == 0 {
		return nil // others still add to it
	}
	all := h.begun
	h.begun = make(map[string]bool)
	return all
}

// Queue is the history of one queue, and what has happened to it since it was last recorded.
type Queue struct {
	in, out, failed atomic.Int64 // since the history began
	touched         atomic.Bool  // something has happened since the last look
	quiet           atomic.Bool  // nothing was there at the last look, and nothing had happened

	mu         sync.Mutex
	rings      [spans]ring
	wait, work latency
	held       map[int64]time.Time // since when a job is held, by its id
	marks      []mark              // of the looks of the last ten seconds, and the one before these
	spark      []float64
	sparkSlot  int64
}

func newQueue() *Queue {
	q := &Queue{wait: latency{first: WaitP50}, work: latency{first: WorkP50}}
	for s := range spans {
		q.rings[s].span = s
	}
	return q
}

// Added notes that n items or jobs were added.
func (q *Queue) Added(n int) { q.in.Add(int64(n)) }

// Taken notes that n items were taken.
func (q *Queue) Taken(n int) { q.out.Add(int64(n)) }

// Reserved notes that a job is held now, and how long it was ready.
func (q *Queue) Reserved(id int64, now time.Time, waited time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wait.add(waited)
	if q.held == nil || len(q.held) >= maxHeld { // workers that die never end theirs
		q.held = make(map[int64]time.Time)
	}
	q.held[id] = now
}

// Ended notes that an attempt of a job is over, and whether it has failed.
func (q *Queue) Ended(id int64, now time.Time, failed bool) {
	if failed {
		q.failed.Add(1)
	} else {
		q.out.Add(1)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if since, ok := q.held[id]; ok {
		delete(q.held, id)
		q.work.add(now.Sub(since))
	}
}

// Held returns since when a job is held that was reserved by this process.
func (q *Queue) Held(id int64) (since time.Time, known bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	since, known = q.held[id]
	return since, known
}

// record adds how the queue looks now. passed is when the last pass was over, or zero.
func (q *Queue) record(now, passed time.Time, state *State) {
	c := &state.Counts
	quiet := q.quiet.Load()
	q.mu.Lock()
	defer q.mu.Unlock()
	values := [fields]float64{
		Depth: float64(c.Depth), Ready: float64(c.Ready), Scheduled: float64(c.Scheduled), Leased: float64(c.Leased),
		Blocked: float64(c.Blocked), Dead: float64(c.Dead),
	}
	last, n := mark{at: now.Add(-period)}, len(q.marks)
	if n > 0 {
		last = q.marks[n-1]
	}
	if quiet && last.at.Before(passed) {
		last.at = passed // by then nothing had happened
	}
	if now.Before(last.at) {
		last.at = now // the clock was set back
	}
	if n == 0 || !last.at.Equal(q.marks[n-1].at) {
		q.marks = []mark{last}
	}
	totals := [3]int64{q.in.Load(), q.out.Load(), q.failed.Load()}
	q.marks = append(q.marks, mark{now, totals})
	for now.Sub(q.marks[1].at) >= rateOver {
		q.marks = q.marks[1:]
	}
	for i, total := range totals {
		values[In+Field(i)] = float64(total - last.totals[i])
	}
	if !c.Oldest.IsZero() {
		values[Age] = max(0, now.Sub(c.Oldest).Seconds())
	}
	for i := range q.rings {
		r := &q.rings[i]
		if r.last != 0 && r.slot(now) > r.last { // the step is over, and so are its durations
			q.wait.set(r)
			q.work.set(r)
		}
		r.advance(now, !quiet)
		r.record(&values, now.Sub(last.at))
	}
	state.In, state.Out, state.Failed, state.Spark = q.rate(0), q.rate(1), q.rate(2), q.sparkline()
}

// rateOver is what rates are the mean of.
const rateOver = 10 * time.Second

// mark is how many were added, taken and failed by a time.
type mark struct {
	at     time.Time
	totals [3]int64
}

// rate is how many there were a second, of the last ten, or since the last look if that is longer.
func (q *Queue) rate(of int) float64 {
	first, last := q.marks[0], q.marks[len(q.marks)-1]
	return float64(last.totals[of]-first.totals[of]) / max(rateOver, last.at.Sub(first.at)).Seconds()
}

// sparkPoints and sparkStep are of ten minutes.
const (
	sparkPoints = 40
	sparkStep   = 15
)

// sparkline returns the highest Depth of each 15 seconds. It is the same slice until there is a new point.
func (q *Queue) sparkline() []float64 {
	r := &q.rings[Minutes]
	slot := r.last / sparkStep
	if slot == q.sparkSlot {
		return q.spark
	}
	q.sparkSlot = slot
	q.spark = make([]float64, 0, sparkPoints)
	for at := q.sparkSlot - sparkPoints; at < q.sparkSlot; at++ {
		highest := 0.0
		for i := range int64(sparkStep) {
			if slot := at*sparkStep + i; slot >= r.from() {
				highest = max(highest, r.get(Depth, slot))
			}
		}
		q.spark = append(q.spark, highest)
	}
	return q.spark
}

// Series is values of a queue at times with the same step; NaN is where there is none.
type Series struct {
	Start  time.Time
	Step   time.Duration
	Values [][]float64 // of each field that was asked for
}

// Series returns some fields of a span.
func (q *Queue) Series(s Span, of ...Field) Series {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := &q.rings[s]
	series := Series{Step: s.Step(), Start: time.Unix(0, r.from()*int64(s.Step()))}
	for _, f := range of {
		series.Values = append(series.Values, r.values(f))
	}
	return series
}

// Last returns one value of each field, of the last second that is over.
func (q *Queue) Last(of ...Field) Series {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := &q.rings[Minutes]
	slot := max(r.from(), r.last-1)
	series := Series{Step: Minutes.Step(), Start: time.Unix(0, slot*int64(Minutes.Step()))}
	for _, f := range of {
		series.Values = append(series.Values, []float64{r.get(f, slot)})
	}
	return series
}
