package linear

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/conq-go/conq/queue"
)

// Workload says what clients do. It is the same for the same Seed; what comes of
// it depends on the scheduler.
type Workload struct {
	Seed    uint64
	Clients int // that work at the same time
	Calls   int // of each client

	// Ends is how many ends the queues have: 1 for FIFO queues, 2 for priority
	// queues.
	Ends int
	// Puts is how many of 100 calls put items. Default: 40.
	Puts int
	// Cancel is the probability that a call's context is cancelled while it runs,
	// or before.
	Cancel float64
}

// Queue is a queue under test.
type Queue struct {
	Name     string
	FIFOTies bool
	// Open returns the handle of a client. Clients may share one.
	Open func(client int) Target
	// Drain returns a handle to empty the queue with, when all clients are done. It
	// must work without injected faults.
	Drain func() Target
}

// Run lets the clients work on random queues, drains the queues, and returns what
// happened to each. The error is of a drain. failed are the errors of calls that
// have not happened, which may be right or not.
func Run(ctx context.Context, w Workload, queues ...Queue) (histories []History, failed []error, err error) {
	recorders := make([]*Recorder, len(queues))
	for i, q := range queues {
		recorders[i] = NewRecorder(q.Name, q.FIFOTies)
	}
	var group sync.WaitGroup
	for c := range w.Clients {
		handles := make([]Target, len(queues))
		for i, q := range queues {
			handles[i] = q.Open(c)
		}
		group.Go(func() { w.client(ctx, c, recorders, handles) })
	}
	group.Wait()
	for i, q := range queues {
		failed = append(failed, recorders[i].Failed()...)
		if err := w.drain(ctx, recorders[i], q.Drain()); err != nil {
			return nil, failed, err
		}
		histories = append(histories, recorders[i].History())
	}
	return histories, failed, nil
}

// client is the work of one client.
func (w Workload) client(ctx context.Context, id int, recorders []*Recorder, handles []Target) {
	p := w.plan(id)
	for range w.Calls {
		q := p.IntN(len(handles))
		ctx, cancel := context.WithCancel(ctx)
		if p.Float64() < w.Cancel {
			go cancel()
		}
		_, _ = recorders[q].Call(ctx, handles[q], p.next())
		cancel()
	}
}

// drain takes all that is left, as a client of its own.
func (w Workload) drain(ctx context.Context, r *Recorder, t Target) error {
	for {
		op, err := r.Call(ctx, t, Op{Client: w.Clients, Kind: Take, N: 1})
		if err != nil {
			return fmt.Errorf("linear: drain: %w", err)
		}
		if len(op.Items) == 0 {
			return nil
		}
	}
}

// plan draws the calls of one client.
type plan struct {
	*rand.Rand
	client, ends int
	puts         int // of 100 calls
	values       int // drawn so far
}

func (w Workload) plan(client int) *plan {
	return &plan{
		Rand: rand.New(rand.NewPCG(w.Seed, uint64(client))), client: client, ends: w.Ends, puts: cmp.Or(w.Puts, 40),
	}
}

// LongValue is what most values are longer than, some twice: in a store whose limit it is they lie over
// several keys.
const LongValue = 40

// next draws a call. A little more is taken than put, as an empty queue is where
// mistakes are made, and a short one is fast to check.
func (p *plan) next() Op {
	op := Op{Client: p.client, End: queue.End(p.IntN(p.ends))}
	switch n := p.IntN(100); {
	case n < p.puts:
		op.Kind = Put
		for range p.some() {
			op.Items = append(op.Items, p.item())
		}
	case n < 82:
		op.Kind, op.N = Take, p.some()
	case n < 91:
		op.Kind = Peek
	default:
		op.Kind = Len
	}
	return op
}

// some is 1, or seldom 2 or 3.
func (p *plan) some() int { return max(1, p.IntN(10)-6) }

func (p *plan) item() Item {
	p.values++
	padding := strings.Repeat(".", LongValue*(p.values%3))
	item := Item{Value: fmt.Sprintf("%c%d%s", 'a'+p.client, p.values, padding)}
	if p.ends == 2 {
		item.Priority = p.Int64N(3) - 1
	}
	return item
}
