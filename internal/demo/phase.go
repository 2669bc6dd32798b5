package demo

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/audit"
	"github.com/conq-go/conq/internal/measure"
	"github.com/conq-go/conq/kv"
	"golang.org/x/sync/errgroup"
)

// phase is the work on one queue.
type phase struct {
	config Config
	name   string
	open   func(kv.DB) (queue, error)
	maker  maker
	target int64 // items that go through while both sides work

	// Shared by the clients.
	meter   *measure.Meter
	claimed atomic.Int64 // items that a producer has begun or will begin
	expired atomic.Bool  // the time is over
	allPut  atomic.Bool  // no producer is at work

	put, take measure.Calls    // while both sides worked
	logs      []*audit.History // of all clients, once they have ended
	reopened  int
	queue     queue
}

func newPhase(c Config, name string, open func(kv.DB) (queue, error)) *phase {
	salt := fnv.New64a()
	salt.Write([]byte(name)) // so that an item of the other queue is not recognised here
	p := &phase{config: c, name: name, open: open, target: math.MaxInt64}
	p.maker = maker{c.Size, c.Seed, salt.Sum64()}
	if c.Items > 0 {
		p.target = int64(max(0, c.Items-leave))
	}
	return p
}

func (p *phase) title() string { return p.name }

// work lets producers and consumers at the queue.
func (p *phase) work(ctx context.Context, db kv.DB) (err error) {
	q, err := p.open(db)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, q.Close()) }()
	if n, err := q.Len(ctx); err != nil || n > 0 {
		return cmp.Or(err, fmt.Errorf("there are already items in %q: purge it, or use another store", q.Name()))
	}
	p.queue, p.meter = q, measure.New(p.name, p.config.Progress)
	if p.config.Duration > 0 {
		defer time.AfterFunc(p.config.Duration, func() { p.expired.Store(true) }).Stop()
	}
	stop := p.meter.Run()
	err = p.clients(ctx)
	stop()
	p.meter.Done()
	if err != nil {
		return err
	}
	p.put, p.take = p.meter.Calls(q.verbs()) // and not of what one client alone does from here on
	return p.leave(ctx)
}

func (p *phase) clients(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
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
	return all.Wait()
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
	for n := uint64(0); !p.expired.Load() && p.claimed.Add(1) <= p.target; n++ {
		if err := p.putOne(ctx, uint64(producer)<<40|n, random, l); err != nil {
			return err
		}
	}
	return nil
}

func (p *phase) putOne(ctx context.Context, id uint64, random *rand.Rand, l *audit.History) error {
	priority := random.Int64N(p.queue.priorities()) - p.queue.priorities()/2
	payload := p.maker.payload(id)
	call := p.meter.Elapsed()
	if err := p.queue.put(ctx, payload, priority); err != nil {
		return err
	}
	span := audit.Span{Call: call, Return: p.meter.Elapsed()}
	l.Puts = append(l.Puts, audit.Put{Span: span, ID: id, Priority: priority})
	p.meter.Put.Record(span.Return - span.Call)
	return nil
}

// pause is how long a consumer waits when it has found nothing.
const pause = 500 * time.Microsecond

func (p *phase) consume(ctx context.Context, consumer int, l *audit.History) error {
	random := p.random(^consumer)
	for !p.expired.Load() && int64(p.meter.Take.Count()) < p.target {
		allPut := p.allPut.Load()
		empty, err := p.takeOne(ctx, audit.End(random.IntN(2)), l)
		if err != nil {
			return err
		}
		if !empty {
			continue
		}
		if allPut {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (p *phase) takeOne(ctx context.Context, from audit.End, l *audit.History) (empty bool, err error) {
	if p.queue.priorities() == 1 {
		from = audit.Front
	}
	call := p.meter.Elapsed()
	payload, err := p.queue.take(ctx, from)
	span := audit.Span{Call: call, Return: p.meter.Elapsed()}
	if isEmpty(err) {
		l.Empties = append(l.Empties, span)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	p.record(payload, span, from, l)
	p.meter.Take.Record(span.Return - span.Call)
	return false, nil
}

func (p *phase) record(payload []byte, span audit.Span, from audit.End, l *audit.History) {
	id, ok := p.maker.recognise(payload)
	l.Takes = append(l.Takes, audit.Take{Span: span, ID: id, Unknown: !ok, From: from})
}

// leave puts some items in that nobody takes before the store is reopened.
func (p *phase) leave(ctx context.Context) error {
	n := leave
	if p.config.Items > 0 {
		n = min(n, p.config.Items)
	}
	l, random := p.newLog(), p.random(p.config.Producers)
	for i := range n {
		if err := p.putOne(ctx, uint64(p.config.Producers)<<40|uint64(i), random, l); err != nil {
			return err
		}
	}
	return nil
}

// drain takes all items out of the reopened store. As nobody else is at work, the
// takes happen in the order of the items, one after another.
func (p *phase) drain(ctx context.Context, db kv.DB) (err error) {
	q, err := p.open(db)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, q.Close()) }()
	l := p.newLog()
	last := p.meter.Elapsed()
	for {
		payloads, err := q.takeSome(ctx)
		if isEmpty(err) {
			break
		}
		if err != nil {
			return err
		}
		for _, payload := range payloads {
			last = max(last+1, p.meter.Elapsed())
			p.record(payload, audit.Span{Call: last, Return: last}, audit.Front, l)
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
	return Phase{
		Name: p.name, Seconds: p.meter.Took().Seconds(), Put: p.put, Take: p.take,
		Reopened: p.reopened, Empty: len(all.Empties), Checks: all.Check(),
	}
}
