package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Meter measures one phase of work. It is safe for concurrent use while it runs.
type Meter struct {
	Put, Take *Timings

	phase   string
	tell    func(Progress)
	began   time.Time
	took    time.Duration // once the phase is over
	samples series
}

// Progress is how things are.
type Progress struct {
	Phase     string
	Elapsed   time.Duration // of the phase
	Put, Took int           // items, in the phase
	Done      bool          // this is the last of the phase
}

// Calls are the calls of one kind that moved an item.
type Calls struct {
	Verb      string    `json:"verb"`
	Count     int       `json:"count"`
	PerSecond float64   `json:"per_second"`
	Latency   Latency   `json:"latency_ms"`
	Rates     []float64 `json:"rates"` // items a second, over time
}

// Latency is how long calls took, in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99.9"`
	Max  float64 `json:"max"`
}

// NewMeter returns a Meter whose phase begins now. tell is told now and then how things are.
func NewMeter(phase string, tell func(Progress)) *Meter {
	return &Meter{Put: newTimings(), Take: newTimings(), phase: phase, tell: tell, began: time.Now()}
}

// Elapsed returns how long ago the phase began.
func (m *Meter) Elapsed() time.Duration { return time.Since(m.began) }

// Took returns how long the phase took, once it is over.
func (m *Meter) Took() time.Duration { return m.took }

// sampling is how often rates are measured and somebody is told.
const sampling = 100 * time.Millisecond

// Run measures rates until the function that it returns is called, which ends the phase.
func (m *Meter) Run() (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(sampling)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				p := m.progress()
				m.samples.add(sample{p.Elapsed, p.Put, p.Took})
				m.tell(p)
			}
		}
	})
	return func() {
		m.took = m.Elapsed()
		close(done)
		running.Wait()
	}
}

func (m *Meter) progress() Progress {
	return Progress{Phase: m.phase, Elapsed: m.Elapsed(), Put: m.Put.Count(), Took: m.Take.Count()}
}

// Done tells that the phase is over.
func (m *Meter) Done() {
	p := m.progress()
	p.Elapsed, p.Done = m.took, true
	m.tell(p)
}

// Calls returns what was measured. put and take are the names of the calls.
func (m *Meter) Calls(put, take string) (puts, takes Calls) {
	in, out := m.samples.rates()
	return m.Put.calls(put, m.took, in), m.Take.calls(take, m.took, out)
}

// Timings are how long the calls of all clients took.
type Timings struct {
	mu sync.Mutex
	h  *hdrhistogram.Histogram // nanoseconds
}

// Durations are kept from the shortest to the longest with three digits; what is
// beyond counts as these.
const (
	shortest = time.Microsecond
	longest  = time.Hour
)

func newTimings() *Timings {
	return &Timings{h: hdrhistogram.New(int64(shortest), int64(longest), 3)}
}

// Record counts a call.
func (t *Timings) Record(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_ = t.h.RecordValue(int64(min(max(d, shortest), longest))) // fails only beyond these
}

// Count returns how many calls there were.
func (t *Timings) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.h.TotalCount())
}

func (t *Timings) calls(verb string, took time.Duration, rates []float64) Calls {
	n := t.Count()
	c := Calls{Verb: verb, Count: n, PerSecond: Ratio(float64(n), took.Seconds()), Rates: []float64{}} // in JSON: none, not null
	if n > 0 {
		at := func(percentile float64) float64 { return millis(t.h.ValueAtPercentile(percentile)) }
		c.Latency = Latency{at(50), at(99), at(99.9), millis(t.h.Max())}
		c.Rates = rates
	}
	return c
}

func millis(nanoseconds int64) float64 { return time.Duration(nanoseconds).Seconds() * 1000 }

// Ratio is a / b, or 0 if b is.
func Ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
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
	put, took int
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
	put, take = []float64{}, []float64{}
	last := sample{}
	for _, x := range s.samples {
		seconds := (x.at - last.at).Seconds()
		put = append(put, Ratio(float64(x.put-last.put), seconds))
		take = append(take, Ratio(float64(x.took-last.took), seconds))
		last = x
	}
	return put, take
}
