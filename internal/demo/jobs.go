package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/audit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
	"golang.org/x/sync/errgroup"
)

// jobsPhase is the work on a work queue. Its jobs are done by processes, some of which are killed with a job in hand.
type jobsPhase struct {
	*clients
	taken atomic.Int64 // leases that workers got

	mu     sync.Mutex
	killed int
	seen   jobsHistory
}

// jobsHistory is what clients saw of a work queue.
type jobsHistory struct {
	puts     map[work.ID]uint64 // the number of each job's payload
	holds    map[work.ID][]hold
	acks     map[work.ID]int
	invented []string
	counts   []string // that were wrong
}

// hold is a lease: from when it was there, which is after it has begun, to when it is over.
type hold struct{ from, until time.Time }

const (
	jobLease   = 500 * time.Millisecond
	workers    = 8    // processes at most
	backlog    = 1000 // jobs after which producers wait
	firstKill  = 5    // the job with which the first worker is killed
	killEvery  = 100  // jobs
	mostKilled = 25
)

func newJobsPhase(c Config) *jobsPhase {
	p := &jobsPhase{clients: newClients(c, "work queue")}
	p.seen = jobsHistory{puts: make(map[work.ID]uint64), holds: make(map[work.ID][]hold), acks: make(map[work.ID]int)}
	return p
}

func (p *jobsPhase) open(db kv.DB) (*work.Queue[[]byte], error) {
	return work.Open(context.Background(), db, prefix+p.name, conq.Bytes(), work.Options{Settings: &work.Settings{Lease: jobLease, MaxAttempts: -1}})
}

// work lets producers and worker processes at the queue.
func (p *jobsPhase) work(ctx context.Context, db kv.DB) (err error) {
	q, err := p.open(db)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, q.Close()) }()
	err = p.run(ctx, q, "put", "do", func(ctx context.Context, all *errgroup.Group) {
		for i := range p.config.Producers {
			all.Go(func() error { return p.produce(ctx, q, i) })
		}
		for i := range min(p.config.Consumers, workers) {
			all.Go(func() error { return p.consume(ctx, q, i) })
		}
	})
	if err == nil {
		err = p.eachLeft(func(id uint64) error { return p.putOne(ctx, q, id) })
	}
	return cmp.Or(err, p.checkCounts(ctx, q))
}

func (p *jobsPhase) produce(ctx context.Context, q *work.Queue[[]byte], producer int) error {
	for n := 0; !p.expired.Load(); n++ {
		for p.meter.Put.Count()-p.meter.Take.Count() > backlog && !p.expired.Load() {
			if err := wait(ctx); err != nil {
				return err
			}
		}
		if !p.claim() {
			return nil
		}
		call := p.meter.Elapsed()
		if err := p.putOne(ctx, q, p.id(producer, n)); err != nil {
			return err
		}
		p.meter.Put.Record(p.meter.Elapsed() - call)
	}
	return nil
}

func (p *jobsPhase) putOne(ctx context.Context, q *work.Queue[[]byte], number uint64) error {
	id, err := q.Put(ctx, p.maker.payload(number))
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen.puts[id] = number
	}
	return err
}

// consume has a process do jobs, and another one when that was killed.
func (p *jobsPhase) consume(ctx context.Context, q *work.Queue[[]byte], worker int) (err error) {
	w, err := startWorker(p.config.Worker())
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, w.end(ctx)) }()
	random := rand.New(rand.NewPCG(p.config.Seed, uint64(worker)))
	for p.wanted() {
		lease, err := q.Reserve(ctx)
		if errors.Is(err, conq.ErrEmpty) {
			if err := wait(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		call := p.meter.Elapsed()
		p.hold(lease)
		if n := p.taken.Add(1); n%killEvery == firstKill && n/killEvery < mostKilled {
			if w, err = p.kill(w, lease, random); err != nil {
				return err
			}
			continue
		}
		if err := w.do(ctx, lease.Value); err != nil {
			return err
		}
		done, err := p.ack(ctx, lease)
		if err != nil {
			return err
		}
		if done {
			p.meter.Take.Record(p.meter.Elapsed() - call)
		}
	}
	return nil
}

// kill kills a worker that has a job: before it begins, or while it does it. Nobody tells the store.
func (p *jobsPhase) kill(w *worker, l *work.Lease[[]byte], random *rand.Rand) (*worker, error) {
	if random.IntN(2) == 0 {
		if err := w.send(l.Value); err != nil {
			return w, err
		}
	}
	if err := w.kill(); err != nil {
		return w, err
	}
	p.mu.Lock()
	p.killed++
	p.mu.Unlock()
	return startWorker(p.config.Worker())
}

// hold notes a lease.
func (p *jobsPhase) hold(l *work.Lease[[]byte]) {
	from := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.holds[l.ID] = append(p.seen.holds[l.ID], hold{from, l.Deadline()})
	if number, ok := p.maker.recognise(l.Value); !ok {
		p.seen.invented = append(p.seen.invented, fmt.Sprintf("job %d", l.ID))
	} else if put, known := p.seen.puts[l.ID]; known && put != number {
		p.seen.invented = append(p.seen.invented, fmt.Sprintf("job %d with the payload of another", l.ID))
	}
}

// ack acknowledges a job. It is not done if its lease ran out, as may happen on a machine that is very busy.
func (p *jobsPhase) ack(ctx context.Context, l *work.Lease[[]byte]) (done bool, err error) {
	err = l.Ack(ctx)
	if errors.Is(err, work.ErrLeaseLost) {
		return false, nil
	}
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen.acks[l.ID]++
	}
	return err == nil, err
}

// checkCounts compares how many jobs the queue says that it has with what clients saw.
func (p *jobsPhase) checkCounts(ctx context.Context, q *work.Queue[[]byte]) error {
	n, err := q.Len(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if want := len(p.seen.puts) - len(p.seen.acks); err == nil && n != want {
		p.seen.counts = append(p.seen.counts, fmt.Sprintf("%d jobs are counted, and there are %d", n, want))
	}
	return err
}

// drain does what is left, once the leases of those who were killed are over.
func (p *jobsPhase) drain(ctx context.Context, db kv.DB) (err error) {
	q, err := p.open(db)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, q.Close()) }()
	if err := p.checkCounts(ctx, q); err != nil {
		return err
	}
	for {
		n, err := q.Len(ctx)
		if err != nil || n == 0 {
			return err
		}
		leases, err := q.ReserveWaitN(ctx, some)
		if err != nil {
			return err
		}
		var all errgroup.Group
		var acked atomic.Int64
		all.SetLimit(16 * workers)
		for _, l := range leases {
			p.hold(l)
			all.Go(func() error {
				done, err := p.ack(ctx, l)
				if done {
					acked.Add(1)
				}
				return err
			})
		}
		if err := all.Wait(); err != nil {
			return err
		}
		p.reopened += int(acked.Load())
	}
}

func (p *jobsPhase) result() Phase {
	result := p.clients.result()
	result.Killed, result.Checks = p.killed, p.seen.check()
	return result
}

// check returns what a correct work queue could not have done.
func (h *jobsHistory) check() []audit.Finding {
	lost, twice := audit.Finding{Check: "nothing lost"}, audit.Finding{Check: "nothing acknowledged twice"}
	holders, invented := audit.Finding{Check: "one holder at a time"}, audit.Finding{Check: "nothing invented"}
	counts := audit.Finding{Check: "counts right"}
	for _, id := range slices.Sorted(maps.Keys(h.puts)) {
		if h.acks[id] == 0 {
			lost.Add("job %d", id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(h.holds)) {
		if h.acks[id] > 1 {
			twice.Add("job %d, %d times", id, h.acks[id])
		}
		if _, put := h.puts[id]; !put {
			invented.Add("job %d", id)
		}
		holds := slices.SortedFunc(slices.Values(h.holds[id]), func(a, b hold) int { return a.until.Compare(b.until) })
		for i := range max(0, len(holds)-1) {
			if holds[i+1].from.Before(holds[i].until) {
				holders.Add("job %d, leased until %v and again from %v", id, holds[i].until, holds[i+1].from)
			}
		}
	}
	for _, text := range h.invented {
		invented.Add("%s", text)
	}
	for _, text := range h.counts {
		counts.Add("%s", text)
	}
	return []audit.Finding{lost, twice, invented, holders, counts}
}
