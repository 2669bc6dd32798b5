package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// timings are how long the calls of all clients took.
type timings struct {
	mu *sync.Mutex
	h  *hdrhistogram.Histogram // nanoseconds
}

// Durations are kept from the shortest to the longest with three digits; what is
// beyond counts as these.
const (
	shortest = time.Microsecond
	longest  = time.Hour
)

func newTimings() timings {
	return timings{new(sync.Mutex), hdrhistogram.New(int64(shortest), int64(longest), 3)}
}

func (t timings) record(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.h.RecordValue(int64(min(max(d, shortest), longest))) // fails only beyond these
}

func (t timings) count() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.h.TotalCount()
}

// series is how many items have gone through over time. However long it takes,
// there are at most maxSamples: when there are, every other one is left out, and
// half as many are taken from then on. The zero value is ready for use.
type series struct {
	samples []sample
	every   int // one of so many is kept; 0 stands for 1
	n       int
}

// sample is the numbers of items that have gone in and out at a moment.
type sample struct {
	at        time.Duration
	put, took int64
}

const maxSamples = 240

func (s *series) add(x sample) {
	s.every = max(s.every, 1)
	if s.n++; s.n%s.every != 0 {
		return
	}
	if s.samples = append(s.samples, x); len(s.samples) < maxSamples {
		return
	}
	for i := range maxSamples / 2 {
		s.samples[i] = s.samples[2*i+1]
	}
	s.samples = s.samples[:maxSamples/2]
	s.every *= 2
}

// rates returns items a second between the samples: in, and out.
func (s *series) rates() (put, take []float64) {
	put, take = []float64{}, []float64{} // in JSON: none, not null
	last := sample{}
	for _, x := range s.samples {
		seconds := (x.at - last.at).Seconds()
		put = append(put, ratio(float64(x.put-last.put), seconds))
		take = append(take, ratio(float64(x.took-last.took), seconds))
		last = x
	}
	return put, take
}

// ratio is a / b, or 0 if b is.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Report is what came out.
type Report struct {
	Settings
	// Interrupted tells that the context ended before all phases did.
	Interrupted bool     `json:"interrupted"`
	Phases      []Result `json:"phases"`
}

// Result is what came out of one phase.
type Result struct {
	Name    Phase   `json:"name"`
	Seconds float64 `json:"seconds"`
	Put     Calls   `json:"put"`
	Take    Calls   `json:"take"`
	// Transactions are all attempts, those included that met a conflict.
	Transactions int `json:"transactions"`
	Conflicts    int `json:"conflicts"`
	// The same for each item that went in or out.
	TransactionsPerItem float64 `json:"transactions_per_item"`
	ConflictsPerItem    float64 `json:"conflicts_per_item"`
	Staging             Staged  `json:"staging"`
}

// Calls are the calls of one kind that moved an item.
type Calls struct {
	Verb      string    `json:"verb"`
	Count     int       `json:"count"`
	PerSecond float64   `json:"per_second"`
	Latency   Latency   `json:"latency_ms"`
	Batch     float64   `json:"batch"` // items a transaction that moved any
	Rates     []float64 `json:"rates"` // items a second, over time
}

// Latency is how long calls took, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

// Staged is what was done by staged requests.
type Staged struct {
	Requests    int     `json:"requests"`
	Fulfilments int     `json:"fulfilments"` // transactions that served requests
	Served      float64 `json:"served"`      // requests in each of them
	Expired     int     `json:"expired"`     // results that nobody collected in time
}

// result puts together what the phase has measured.
func (w *work) result() Result {
	put, take := w.run.handles[0].verbs()
	in, out := w.samples.rates()
	s := w.spent
	r := Result{
		Name: w.phase, Seconds: w.took.Seconds(),
		Put: w.put.calls(put, w.took, s.added, in), Take: w.take.calls(take, w.took, s.taken, out),
		Transactions: int(s.transactions), Conflicts: int(s.conflicts),
		Staging: Staged{
			Requests: int(s.requested[0]), Fulfilments: int(s.fulfilled[0]),
			Served: average(s.fulfilled), Expired: int(s.expired[1]),
		},
	}
	moved := float64(r.Put.Count + r.Take.Count)
	r.TransactionsPerItem = ratio(float64(r.Transactions), moved)
	r.ConflictsPerItem = ratio(float64(r.Conflicts), moved)
	return r
}

func average(t [2]int64) float64 { return ratio(float64(t[1]), float64(t[0])) }

func (t timings) calls(verb string, took time.Duration, batches [2]int64, rates []float64) Calls {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := func(percentile float64) float64 { return millis(t.h.ValueAtPercentile(percentile)) }
	n := int(t.h.TotalCount())
	c := Calls{Verb: verb, Count: n, PerSecond: ratio(float64(n), took.Seconds()), Batch: average(batches), Rates: rates}
	if n > 0 {
		c.Latency = Latency{at(50), at(99), at(99.9), millis(t.h.Max())}
	} else {
		c.Rates = []float64{} // of nothing
	}
	return c
}

func millis(nanoseconds int64) float64 { return time.Duration(nanoseconds).Seconds() * 1000 }
