package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// phase is the work on one system in one phase.
type phase struct {
	name    string
	items   *items
	limit   int       // items that are put at most
	until   time.Time // or for so long
	present int       // items that are in the system when it begins

	system     system
	priorities int
	claimed    atomic.Int64 // numbers of items that producers took
	put        atomic.Int64 // items that are in
	takes      atomic.Int64 // items that consumers took, or are about to

	// coming has a token for each item that comes, if there are producers and
	// consumers: for one who waits in the system from when its put begins, for others
	// from when it is in. So no consumer waits for an item that never comes, and those
	// of a system that can't wait are told as early as could be.
	coming chan struct{}

	cpu func() time.Duration // processor time until now

	puts, gets [][]time.Duration // of each client
	taken      [][]header        // by each consumer, in its order
}

// result is what came out of a phase.
type result struct {
	Items   int     `json:"items"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"items_per_second"`
	Put     latency `json:"put"`
	Take    latency `json:"take"`
	CPU     float64 `json:"cpu_seconds"`
}

// run has the clients work until all that went in is out, or in a phase without
// consumers until enough is in.
func (p *phase) run(ctx context.Context, producers, consumers []client) (result, error) {
	p.puts, p.gets = make([][]time.Duration, len(producers)), make([][]time.Duration, len(consumers))
	p.taken = make([][]header, len(consumers))
	if len(producers) > 0 && len(consumers) > 0 {
		p.coming = make(chan struct{}, p.limit)
	}
	before, began := p.cpu(), time.Now()
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return p.produce(ctx, producers) })
	for i, c := range consumers {
		all.Go(ofItsOwn(ctx, func(ctx context.Context) error { return p.consume(ctx, c, i) }))
	}
	err := all.Wait()
	took, cpu := time.Since(began).Seconds(), p.cpu()-before
	if err != nil {
		return result{}, p.explain(err, len(consumers) > 0)
	}
	n := int(p.put.Load())
	if len(producers) == 0 {
		n = p.present
	}
	if len(consumers) > 0 {
		if err := errors.Join(p.items.complete(n), p.inOrder()); err != nil {
			return result{}, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return result{
		Items: n, Seconds: took, Rate: ratio(float64(n), took), Put: latencyOf(p.puts), Take: latencyOf(p.gets),
		CPU: cpu.Seconds(),
	}, nil
}

// ofItsOwn gives a client a context of its own, as callers mostly have: conq serves those of one
// context faster. A panic of the peer is an error.
func ofItsOwn(ctx context.Context, f func(context.Context) error) func() error {
	return func() error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return recovered(func() error { return f(ctx) })
	}
}

// explain says how far it got when the time was over.
func (p *phase) explain(err error, consumed bool) error {
	if errors.Is(err, context.DeadlineExceeded) && consumed {
		return fmt.Errorf("%s: %d of %d items had come out when the time was over: %w",
			p.name, p.items.taken.Load(), p.put.Load()+int64(p.present), err)
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// produce has all producers work, and tells the consumers when that was all.
func (p *phase) produce(ctx context.Context, producers []client) error {
	all, ctx := errgroup.WithContext(ctx)
	for i, c := range producers {
		all.Go(ofItsOwn(ctx, func(ctx context.Context) error { return p.fill(ctx, c, i) }))
	}
	err := all.Wait()
	if p.coming != nil && err == nil {
		close(p.coming)
	}
	return err
}

func (p *phase) fill(ctx context.Context, c client, producer int) error {
	value := make([]byte, p.items.payload)
	for call := time.Now(); call.Before(p.until) && ctx.Err() == nil; {
		number := int(p.claimed.Add(1) - 1)
		if number >= p.limit {
			return nil
		}
		h := header{number: number, producer: producer, priority: p.priorityOf(number)}
		p.items.write(value, h)
		if p.system.waits {
			p.comes()
		}
		if err := c.put(ctx, value, h.priority); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		if !p.system.waits {
			p.comes()
		}
		p.put.Add(1)
		now := time.Now()
		p.puts[producer] = append(p.puts[producer], now.Sub(call))
		call = now
	}
	return ctx.Err()
}

// comes tells the consumers of one more item.
func (p *phase) comes() {
	if p.coming != nil {
		p.coming <- struct{}{}
	}
}

// priorityOf spreads numbers over the priorities, evenly and out of order.
func (p *phase) priorityOf(number int) int {
	if !p.system.priority {
		return 0
	}
	return int(uint64(number) * 0x9E3779B97F4A7C15 >> 32 % uint64(p.priorities))
}

func (p *phase) consume(ctx context.Context, c client, consumer int) error {
	for {
		call := time.Now()
		if more, err := p.next(ctx); !more {
			return err
		}
		value, err := p.take(ctx, c)
		if err != nil {
			return fmt.Errorf("take: %w", err)
		}
		p.gets[consumer] = append(p.gets[consumer], time.Since(call))
		h, err := p.items.read(value)
		if err != nil {
			return err
		}
		p.taken[consumer] = append(p.taken[consumer], h)
	}
}

// inOrder returns an error unless each consumer has got items in the order that the system promises. It
// is for when the phase is over: to look at once takes a consumer of a priority queue as long as
// conq takes to pop, and one of a system without an order nothing.
func (p *phase) inOrder() error {
	for _, taken := range p.taken {
		order := newSequence(p.system.order, p.coming == nil)
		for _, h := range taken {
			if err := order.check(h); err != nil {
				return err
			}
		}
	}
	return nil
}

// next waits until there is an item to take, and returns false when there will be
// no more.
func (p *phase) next(ctx context.Context) (bool, error) {
	if p.coming == nil {
		return p.takes.Add(1) <= int64(p.present) && ctx.Err() == nil, ctx.Err()
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case _, more := <-p.coming:
		return more, nil
	}
}

// take takes an item. There is one, though a system may overlook it while others
// take theirs.
func (p *phase) take(ctx context.Context, c client) ([]byte, error) {
	for {
		value, err := c.take(ctx, p.coming != nil)
		if !errors.Is(err, errEmpty) {
			return value, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		runtime.Gosched()
	}
}
