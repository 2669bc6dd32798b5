package watch

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/version"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
)

// otherQueues is the label of queues that have none of their own.
const otherQueues = "(other)"

// Options are what metrics are about.
type Options struct {
	History *History // where depths are from

	// MaxQueues is how many queues have labels of their own.
	MaxQueues int

	// Store tells what it takes on disk if it has DiskBytes and Syncs, as the embedded one has.
	Store any
}

// Metrics counts what happens. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	queues   queueLabels

	items        *prometheus.CounterVec
	waited       prometheus.Histogram
	transactions *prometheus.CounterVec
	conflicts    *prometheus.CounterVec
	batch        *prometheus.HistogramVec
	requests     *prometheus.HistogramVec
	underWay     *prometheus.GaugeVec

	committed, repeated atomic.Int64 // transactions and conflicts, of all verbs
}

// NewMetrics returns metrics that are all 0.
func NewMetrics(o Options) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		queues:   queueLabels{max: o.MaxQueues, known: make(map[string]bool)},
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "conq_items_total", Help: "Items and jobs, by what has happened to them: added, taken, returned, reserved, acknowledged, failed, expired (the lease), and of these two retried or dead."},
			[]string{"queue", "event"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "conq_job_wait_seconds", Help: "How long a job was ready before it was reserved.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 12)}),
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "conq_transactions_total", Help: "Transactions that have committed, by what they did."}, []string{"verb"}),
		conflicts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "conq_conflicts_total", Help: "How often a transaction had to run again."}, []string{"verb"}),
		batch: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "conq_batch_calls", Help: "How many calls shared a transaction.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 11)}, []string{"verb"}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "conq_request_seconds", Help: "How long requests took, with the time that they waited for items.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10)}, []string{"protocol", "verb", "status"}),
		underWay: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "conq_requests", Help: "Requests under way, also those that wait for items."}, []string{"protocol"}),
	}
	m.registry.MustRegister(
		m.items, m.waited, m.transactions, m.conflicts, m.batch, m.requests,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&depths{history: o.History, queues: &m.queues},
		m.underWay, buildInfo(),
	)
	m.registry.MustRegister(storeMetrics(o.Store)...)
	return m
}

// buildInfo is a gauge that is 1, with the build in its labels.
func buildInfo() prometheus.Collector {
	b := version.Read()
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "conq_build_info", Help: "1, with the build of the server in the labels.",
		ConstLabels: prometheus.Labels{"version": b.Version, "revision": b.Revision, "goversion": b.Go}})
	g.Set(1)
	return g
}

// storeMetrics are what a store tells of itself.
func storeMetrics(store any) (all []prometheus.Collector) {
	if s, ok := store.(interface{ DiskBytes() int64 }); ok {
		all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "conq_store_bytes", Help: "What the store takes on disk."},
			func() float64 { return float64(s.DiskBytes()) }))
	}
	if s, ok := store.(interface{ Syncs() kv.Syncs }); ok {
		all = append(all, syncs{s.Syncs})
	}
	return all
}

// syncs collects how long the store has waited for its disk.
type syncs struct{ of func() kv.Syncs }

var syncSeconds = prometheus.NewDesc("conq_store_sync_seconds", "How long the store has waited for the disk.", nil, nil)

// Describe implements prometheus.Collector.
func (s syncs) Describe(to chan<- *prometheus.Desc) { to <- syncSeconds }

// Collect implements prometheus.Collector.
func (s syncs) Collect(to chan<- prometheus.Metric) {
	all := s.of()
	within := make(map[float64]uint64, len(all.Within))
	for bound, n := range all.Within {
		within[bound.Seconds()] = uint64(n)
	}
	to <- prometheus.MustNewConstHistogram(syncSeconds, uint64(all.Count), all.Took.Seconds(), within)
}

// Handler answers a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, EnableOpenMetrics: true})
}

// Begin notes that a request is under way, until end is called. Of verbs and statuses there must be few.
func (m *Metrics) Begin(protocol string) (end func(verb, status string) (took time.Duration)) {
	began, underWay := time.Now(), m.underWay.WithLabelValues(protocol)
	underWay.Inc()
	return func(verb, status string) time.Duration {
		underWay.Dec()
		took := time.Since(began)
		m.requests.WithLabelValues(protocol, verb, status).Observe(took.Seconds())
		return took
	}
}

// ObserveItems is the Observe of the handles of queues and priority queues.
func (m *Metrics) ObserveItems(e conq.Event) {
	switch e.Kind {
	case conq.Added:
		m.happened(e.Queue, "added", e.Items)
	case conq.Taken:
		m.happened(e.Queue, "taken", e.Items)
	case conq.Expired:
		m.happened(e.Queue, "returned", e.Items)
	}
	if e.Attempts > 0 {
		m.transaction(e.Kind.String(), e.Calls, e.Attempts)
	}
}

var jobEvents = map[work.EventKind]string{
	work.EventPut: "added", work.EventReserved: "reserved", work.EventAcked: "acknowledged", work.EventFailed: "failed", work.EventExpired: "expired",
}

// ObserveJobs is the Observe of the handles of work queues.
func (m *Metrics) ObserveJobs(e work.Event) {
	name, known := jobEvents[e.Kind]
	if known {
		m.happened(e.Queue, name, e.Jobs)
	} else {
		name = "changed"
	}
	switch e.Kind {
	case work.EventFailed, work.EventExpired:
		m.happened(e.Queue, "dead", e.Dead)
		m.happened(e.Queue, "retried", e.Jobs-e.Dead)
	case work.EventReserved:
		for _, j := range e.Each {
			m.waited.Observe(j.Waited.Seconds())
		}
	}
	if e.Attempts > 0 {
		m.transaction("jobs "+name, e.Calls, e.Attempts)
	}
}

func (m *Metrics) happened(queue, event string, n int) {
	m.items.WithLabelValues(m.queues.label(queue), event).Add(float64(n))
}

func (m *Metrics) transaction(verb string, calls, attempts int) {
	m.committed.Add(1)
	m.transactions.WithLabelValues(verb).Inc()
	m.batch.WithLabelValues(verb).Observe(float64(calls))
	if attempts > 1 {
		m.repeated.Add(int64(attempts - 1))
		m.conflicts.WithLabelValues(verb).Add(float64(attempts - 1))
	}
}

// Transactions returns how many have committed, and how often one of them had to run again.
func (m *Metrics) Transactions() (n, conflicts int64) { return m.committed.Load(), m.repeated.Load() }

// Listed frees the labels of queues that have been deleted, with what was counted of them: those that are missing in a catalogue, and in
// the one before. A queue that was made after a catalogue was read is in the next one.
func (m *Metrics) Listed(infos []conq.Info) {
	there := make(map[string]bool, len(infos))
	for _, i := range infos {
		there[i.Name] = true
	}
	m.queues.mu.Lock()
	defer m.queues.mu.Unlock()
	for name, missing := range m.queues.known {
		if m.queues.known[name] = !there[name]; missing && !there[name] {
			delete(m.queues.known, name)
			m.items.DeletePartialMatch(prometheus.Labels{"queue": name})
		}
	}
}

// queueLabels are the names that queues have as labels.
type queueLabels struct {
	max int

	mu    sync.RWMutex
	known map[string]bool // whether the catalogue lacked it
}

// label returns the label of a queue: its name, if there is room for it.
func (q *queueLabels) label(name string) string {
	q.mu.RLock()
	_, known := q.known[name]
	full := len(q.known) >= q.max
	q.mu.RUnlock()
	switch {
	case known:
		return name
	case full:
		return otherQueues
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.known[name]; known {
		return name
	}
	if len(q.known) >= q.max {
		return otherQueues
	}
	q.known[name] = false
	return name
}

// depths collects how queues look.
type depths struct {
	history *History
	queues  *queueLabels
}

var (
	queueCount  = prometheus.NewDesc("conq_queues", "Queues of the store.", nil, nil)
	queueItems  = prometheus.NewDesc("conq_queue_items", "Items, or jobs in a state.", []string{"queue", "kind", "state"}, nil)
	queueAge    = prometheus.NewDesc("conq_queue_oldest_age_seconds", "How long the oldest that could be taken is there, where that is known.", []string{"queue", "kind"}, nil)
	queuePaused = prometheus.NewDesc("conq_queue_paused", "Whether a work queue gives out nothing.", []string{"queue"}, nil)
	sampleAge   = prometheus.NewDesc("conq_sample_age_seconds", "How old the figures of queues are.", nil, nil)
)

// Describe implements prometheus.Collector.
func (d *depths) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{queueCount, queueItems, queueAge, queuePaused, sampleAge} {
		to <- desc
	}
}

// Collect implements prometheus.Collector. It reads nothing: figures are of the last snapshot.
func (d *depths) Collect(to chan<- prometheus.Metric) {
	s := d.history.Latest()
	if s.Time.IsZero() {
		return
	}
	now := time.Now()
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	gauge(queueCount, float64(len(s.Queues)))
	gauge(sampleAge, now.Sub(s.Time).Seconds())
	others := make(map[[2]string]float64) // by kind and state
	for _, q := range s.Queues {
		label := d.queues.label(q.Name)
		for _, state := range states(q) {
			if label == otherQueues {
				others[[2]string{string(q.Kind), state.name}] += float64(state.n)
				continue
			}
			gauge(queueItems, float64(state.n), label, string(q.Kind), state.name)
		}
		if label == otherQueues {
			continue
		}
		if !q.Oldest.IsZero() {
			gauge(queueAge, q.Age(now).Seconds(), label, string(q.Kind))
		}
		if q.Kind == conq.KindWorkQueue {
			gauge(queuePaused, truth(q.Paused), label)
		}
	}
	for of, n := range others {
		gauge(queueItems, n, otherQueues, of[0], of[1])
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

type stateCount struct {
	name string
	n    int64
}

func states(q *State) []stateCount {
	if q.Kind != conq.KindWorkQueue {
		return []stateCount{{work.Ready.String(), q.Depth}}
	}
	return []stateCount{
		{work.Ready.String(), q.Ready}, {work.Scheduled.String(), q.Scheduled}, {work.Leased.String(), q.Leased},
		{work.Blocked.String(), q.Blocked}, {work.Dead.String(), q.Dead}, {work.Done.String(), q.Done},
	}
}
