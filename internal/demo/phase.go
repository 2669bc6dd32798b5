package demo

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/audit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"golang.org/x/sync/errgroup"
)

// phase is the work on a queue or a priority queue.
type phase struct {
	*clients
	kind       conq.Kind
	verbs      [2]string // the names of put and take
	priorities int64     // how many different ones are in use

	allPut atomic.Bool      // no producer is at work
	logs   []*audit.History // of all clients, once they have ended
	queue  itemQueue
}

func newFIFO(c Config) *phase {
	return &phase{clients: newClients(c, "queue"), kind: conq.KindQueue, verbs: [2]string{"enqueue", "dequeue"}, priorities: 1}
}

func newPriority(c Config) *phase {
	return &phase{clients: newClients(c, "priority queue"), kind: conq.KindPriorityQueue, verbs: [2]string{"push", "pop"}, priorities: 9}
}

func (p *phase) open(db kv.DB) error {
	ctx, name := context.Background(), prefix+p.name
	if p.kind == conq.KindQueue {
		q, err := conq.OpenQueue(ctx, db, name, conq.Bytes())
		p.queue = fifo{q}
		return err
	}
	q, err := conq.OpenPriorityQueue(ctx, db, name, conq.Bytes())
	p.queue = q
	return err
}

// itemQueue is a priority queue, or a queue as fifo has it.
type itemQueue interface {
	Name() string
	Len(context.Context) (int, error)
	Push(ctx context.Context, v []byte, priority int64) error
	PopN(ctx context.Context, from queue.End, n int) ([]conq.Prioritized[[]byte], error)
	Close() error
}

// fifo is a queue as a priority queue of one priority, which has one end.
type fifo struct{ *conq.Queue[[]byte] }

func (f fifo) Push(ctx context.Context, v []byte, _ int64) error { return f.Enqueue(ctx, v) }

func (f fifo) PopN(ctx context.Context, _ queue.End, n int) ([]conq.Prioritized[[]byte], error) {
	values, err := f.DequeueN(ctx, n)
	all := make([]conq.Prioritized[[]byte], len(values))
	for i, v := range values {
		all[i].Value = v
	}
	return all, err
}

// work lets producers and consumers at the queue.
func (p *phase) work(ctx context.Context, db kv.DB) (err error) {
	if err := p.open(db); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, p.queue.Close()) }()
	if err := p.run(ctx, p.queue, p.verbs[0], p.verbs[1], p.start); err != nil {
		return err
	}
	l, random := p.newLog(), p.random(p.config.Producers)
	return p.eachLeft(func(id uint64) error { return p.putOne(ctx, id, random, l) })
}

func (p *phase) start(ctx context.Context, all *errgroup.Group) {
	var producing atomic.Int64
	producing.Store(int64(p.config.Producers))
	for i := range p.config.Producers {
		l := p.newLog()
		all.Go(func() error {
			err := p.produce(ctx, i, l)
			if producing.Add(-1) == 0 {
				p.allPut.Store(true)
			}
			return err
		})
	}
	for i := range p.config.Consumers {
		l := p.newLog()
		all.Go(func() error { return p.consume(ctx, i, l) })
	}
}

func (p *phase) newLog() *audit.History {
	l := new(audit.History)
	p.logs = append(p.logs, l)
	return l
}

// random returns the source of one client's decisions.
func (p *phase) random(client int) *rand.Rand {
	return rand.New(rand.NewPCG(p.config.Seed, p.maker.salt+uint64(client)))
}

func (p *phase) produce(ctx context.Context, producer int, l *audit.History) error {
	random := p.random(producer)
	for n := 0; p.claim(); n++ {
		if err := p.putOne(ctx, p.id(producer, n), random, l); err != nil {
			return err
		}
	}
	return nil
}

func (p *phase) putOne(ctx context.Context, id uint64, random *rand.Rand, l *audit.History) error {
	payload, priority := p.maker.payload(id), random.Int64N(p.priorities)-p.priorities/2
	call := p.meter.Elapsed()
	if err := p.queue.Push(ctx, payload, priority); err != nil {
		return err
	}
	span := audit.Span{Call: call, Return: p.meter.Elapsed()}
	l.Puts = append(l.Puts, audit.Put{Span: span, ID: id, Priority: priority})
	p.meter.Put.Record(span.Return - span.Call)
	return nil
}

func (p *phase) consume(ctx context.Context, consumer int, l *audit.History) error {
	random := p.random(^consumer)
	for p.wanted() {
		allPut := p.allPut.Load()
		empty, err := p.takeOne(ctx, queue.End(random.IntN(2)), l)
		if err == nil && empty && !allPut {
			err = wait(ctx)
		}
		if err != nil || empty && allPut {
			return err
		}
	}
	return nil
}

func (p *phase) takeOne(ctx context.Context, from queue.End, l *audit.History) (empty bool, err error) {
	if p.priorities == 1 {
		from = queue.Min
	}
	call := p.meter.Elapsed()
	items, err := p.queue.PopN(ctx, from, 1)
	span := audit.Span{Call: call, Return: p.meter.Elapsed()}
	switch {
	case errors.Is(err, conq.ErrEmpty):
		l.Empties = append(l.Empties, span)
		return true, nil
	case err != nil:
		return false, err
	}
	p.record(items[0].Value, span, from, l)
	p.meter.Take.Record(span.Return - span.Call)
	return false, nil
}

func (p *phase) record(payload []byte, span audit.Span, from queue.End, l *audit.History) {
	id, ok := p.maker.recognise(payload)
	l.Takes = append(l.Takes, audit.Take{Span: span, ID: id, Unknown: !ok, From: from})
}

// some is how many items are taken at once from the reopened store, at most.
const some = 1000

// drain takes all items out of the reopened store. As nobody else is at work, the
// takes happen in the order of the items, one after another.
func (p *phase) drain(ctx context.Context, db kv.DB) (err error) {
	if err := p.open(db); err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, p.queue.Close()) }()
	l := p.newLog()
	for last := p.meter.Elapsed(); ; {
		items, err := p.queue.PopN(ctx, queue.Min, some)
		if errors.Is(err, conq.ErrEmpty) {
			break
		}
		if err != nil {
			return err
		}
		for _, it := range items {
			last = max(last+1, p.meter.Elapsed())
			p.record(it.Value, audit.Span{Call: last, Return: last}, queue.Min, l)
		}
	}
	p.reopened = len(l.Takes)
	return nil
}

// result joins the records and has them checked.
func (p *phase) result() Phase {
	var all audit.History
	for _, l := range p.logs {
		all.Puts = append(all.Puts, l.Puts...)
		all.Takes = append(all.Takes, l.Takes...)
		all.Empties = append(all.Empties, l.Empties...)
	}
	result := p.clients.result()
	result.Empty, result.Checks = len(all.Empties), all.Check()
	return result
}
