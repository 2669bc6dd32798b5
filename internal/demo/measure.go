package demo

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/conq-go/conq/internal/audit"
)

// sample measures rates and reports progress until the function that it returns
// is called.
func (p *phase) sample() (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(sampling)
		defer tick.Stop()
		var at time.Duration
		var counts [2]int64
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				at, counts = p.measure(at, counts)
				p.config.Progress(p.progress(false))
			}
		}
	})
	return func() {
		p.worked = p.now()
		close(done)
		running.Wait()
		p.config.Progress(p.progress(true))
	}
}

// measure adds the rates since a moment and returns the present one.
func (p *phase) measure(since time.Duration, before [2]int64) (time.Duration, [2]int64) {
	now, counts := p.now(), [2]int64{p.put.Load(), p.took.Load()}
	for i, n := range counts {
		p.rates[i] = append(p.rates[i], float64(n-before[i])/(now-since).Seconds())
	}
	return now, counts
}

func (p *phase) progress(done bool) Progress {
	return Progress{Phase: p.name, Elapsed: p.now(), Put: int(p.put.Load()), Took: int(p.took.Load()), Done: done}
}

// result joins the records and has them checked.
func (p *phase) result() Phase {
	var all audit.History
	total := newLog()
	for _, l := range p.logs {
		all.Puts = append(all.Puts, l.history.Puts...)
		all.Takes = append(all.Takes, l.history.Takes...)
		all.Empties = append(all.Empties, l.history.Empties...)
		if l.puts != nil {
			total.puts.Merge(l.puts)
			total.take.Merge(l.take)
		}
	}
	put, take := p.queue.verbs()
	return Phase{
		Name:     p.name,
		Seconds:  p.worked.Seconds(),
		Put:      calls(put, total.puts, p.worked, p.rates[0]),
		Take:     calls(take, total.take, p.worked, p.rates[1]),
		Reopened: p.reopened,
		Empty:    len(all.Empties),
		Checks:   all.Check(),
	}
}

func calls(verb string, h *hdrhistogram.Histogram, took time.Duration, rates []float64) Calls {
	n := int(h.TotalCount())
	at := func(percentile float64) float64 {
		return time.Duration(h.ValueAtPercentile(percentile)).Seconds() * 1000
	}
	return Calls{
		Verb:      verb,
		Count:     n,
		PerSecond: float64(n) / took.Seconds(),
		Latency:   Latency{at(50), at(99), at(99.9), time.Duration(h.Max()).Seconds() * 1000},
		Rates:     append([]float64{}, rates...), // in JSON: none, not null
	}
}
