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

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/conq-go/conq/internal/audit"
	"github.com/conq-go/conq/kv"
	"golang.org/x/sync/errgroup"
)

// phase is the work on one queue.
type phase struct {
	config Config
	name   string
	open   func(kv.DB) (queue, error)
	maker  maker
	began  time.Time
	target int64 // items that go through while both sides work

	// Shared by the clients.
	claimed   atomic.Int64 // items that a producer has begun or will begin
	put, took atomic.Int64
	expired   atomic.Bool // the time is over
	allPut    atomic.Bool // no producer is at work

	worked   time.Duration
	rates    [2][]float64
	logs     []*log // of all clients, once they have ended
	reopened int
	queue    queue
}

// log is the record of one client.
type log struct {
	history    audit.History
	puts, take *hdrhistogram.Histogram // durations in nanoseconds
}

func newLog() *log {
	const longest = int64(time.Hour)
	return &log{puts: hdrhistogram.New(1000, longest, 3), take: hdrhistogram.New(1000, longest, 3)}
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

func (p *phase) now() time.Duration { return time.Since(p.began) }

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
	p.queue, p.began = q, time.Now()
	if p.config.Duration > 0 {
		defer time.AfterFunc(p.config.Duration, func() { p.expired.Store(true) }).Stop()
	}
	stop := p.sample()
	err = p.clients(ctx)
	stop()
	if err != nil {
		return err
	}
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

func (p *phase) newLog() *log {
	l := newLog()
	p.logs = append(p.logs, l)
	return l
}

// random returns the source of one client's decisions.
func (p *phase) random(client int) *rand.Rand {
	return rand.New(rand.NewPCG(p.config.Seed, p.maker.salt+uint64(client)))
}

func (p *phase) produce(ctx context.Context, producer int, l *log) error {
	random := p.random(producer)
	for n := uint64(0); !p.expired.Load() && p.claimed.Add(1) <= p.target; n++ {
		if err := p.putOne(ctx, uint64(producer)<<40|n, random, l); err != nil {
			return err
		}
	}
	return nil
}

func (p *phase) putOne(ctx context.Context, id uint64, random *rand.Rand, l *log) error {
	priority := random.Int64N(p.queue.priorities()) - p.queue.priorities()/2
	payload := p.maker.payload(id)
	call := p.now()
	if err := p.queue.put(ctx, payload, priority); err != nil {
		return err
	}
	span := audit.Span{Call: call, Return: p.now()}
	l.history.Puts = append(l.history.Puts, audit.Put{Span: span, ID: id, Priority: priority})
	p.put.Add(1)
	return l.puts.RecordValue(int64(span.Return - span.Call))
}

// pause is how long a consumer waits when it has found nothing.
const pause = 500 * time.Microsecond

func (p *phase) consume(ctx context.Context, consumer int, l *log) error {
	random := p.random(^consumer)
	for !p.expired.Load() && p.took.Load() < p.target {
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

func (p *phase) takeOne(ctx context.Context, from audit.End, l *log) (empty bool, err error) {
	if p.queue.priorities() == 1 {
		from = audit.Front
	}
	call := p.now()
	payload, err := p.queue.take(ctx, from)
	span := audit.Span{Call: call, Return: p.now()}
	if isEmpty(err) {
		l.history.Empties = append(l.history.Empties, span)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	p.record(payload, span, from, l)
	p.took.Add(1)
	return false, l.take.RecordValue(int64(span.Return - span.Call))
}

func (p *phase) record(payload []byte, span audit.Span, from audit.End, l *log) {
	id, ok := p.maker.recognise(payload)
	l.history.Takes = append(l.history.Takes, audit.Take{Span: span, ID: id, Unknown: !ok, From: from})
}

// leave puts some items in that nobody takes before the store is reopened.
func (p *phase) leave(ctx context.Context) error {
	n := leave
	if p.config.Items > 0 {
		n = min(n, p.config.Items)
	}
	l, random := newLog(), p.random(p.config.Producers)
	for i := range n {
		if err := p.putOne(ctx, uint64(p.config.Producers)<<40|uint64(i), random, l); err != nil {
			return err
		}
	}
	p.logs = append(p.logs, &log{history: l.history}) // one client alone: not what latency is about
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
	l := &log{}
	last := p.now()
	for {
		payloads, err := q.takeSome(ctx)
		if isEmpty(err) {
			break
		}
		if err != nil {
			return err
		}
		for _, payload := range payloads {
			last = max(last+1, p.now())
			p.record(payload, audit.Span{Call: last, Return: last}, audit.Front, l)
		}
	}
	p.reopened = len(l.history.Takes)
	p.logs = append(p.logs, l)
	return nil
}
