package load

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq"
	"golang.org/x/sync/errgroup"
)

// errOver ends the calls that wait when the time of a phase is over.
var errOver = errors.New("load: the phase is over")

// work is one phase.
type work struct {
	run       *run
	phase     Phase
	began     time.Time
	before    counts
	puts      atomic.Int64 // calls that have begun
	takes     atomic.Int64
	expired   atomic.Bool // the time is over
	put, take timings
	samples   series

	took  time.Duration // once the phase is over
	spent counts
}

func newWork(r *run, p Phase) *work {
	return &work{run: r, phase: p, put: newTimings(), take: newTimings(), before: r.counts(), began: time.Now()}
}

// work lets the clients of the phase at the queue.
func (w *work) work(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	waiting, over := context.WithCancelCause(ctx)
	defer over(nil)
	if d := w.run.config.Duration; d > 0 {
		defer time.AfterFunc(d, func() {
			w.expired.Store(true)
			over(errOver)
		}).Stop()
	}
	stop := w.sample()
	defer stop()
	if w.phase != Drain {
		for i := range w.run.config.Producers {
			all.Go(func() error { return w.produce(ctx, i) })
		}
	}
	if w.phase != Fill {
		for i := range w.run.config.Consumers {
			all.Go(func() error { return w.consume(ctx, waiting, i) })
		}
	}
	return all.Wait()
}

// handle returns the one that a client uses.
func (w *work) handle(client int) queue { return w.run.handles[client%len(w.run.handles)] }

// claim tells whether one more call is to be made.
func (w *work) claim(calls *atomic.Int64) bool {
	n := w.run.config.Items
	return !w.expired.Load() && (n == 0 || calls.Add(1) <= int64(n))
}

func (w *work) produce(ctx context.Context, client int) error {
	q, m := w.handle(client), w.run.newMaker(client+1)
	for w.claim(&w.puts) {
		call := time.Now()
		if err := q.put(ctx, m.item()); err != nil {
			return err
		}
		w.put.record(time.Since(call))
	}
	return nil
}

// consume takes items: while there are any, or where there are producers too,
// waiting for them.
func (w *work) consume(ctx, waiting context.Context, client int) error {
	take := w.handle(client).take
	if w.phase == Transfer {
		take, ctx = w.handle(client).takeWait, waiting
	}
	for w.claim(&w.takes) {
		call := time.Now()
		err := take(ctx)
		switch {
		case errors.Is(err, conq.ErrEmpty), errors.Is(err, errOver):
			return nil
		case err != nil:
			return err
		}
		w.take.record(time.Since(call))
	}
	return nil
}

// sampling is how often rates are measured and Progress is called.
const sampling = 100 * time.Millisecond

// sample does that until the function that it returns is called, which ends the
// phase.
func (w *work) sample() (stop func()) {
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
				p := w.progress()
				w.samples.add(sample{p.Elapsed, int64(p.Put), int64(p.Took)})
				w.run.config.Progress(p)
			}
		}
	})
	return func() {
		w.took, w.spent = time.Since(w.began), w.run.counts().since(w.before)
		close(done)
		running.Wait()
	}
}

func (w *work) progress() Progress {
	return Progress{
		Phase: string(w.phase), Elapsed: time.Since(w.began),
		Put: int(w.put.count()), Took: int(w.take.count()),
	}
}

// done tells that the phase is over.
func (w *work) done() {
	p := w.progress()
	p.Elapsed, p.Done = w.took, true
	w.run.config.Progress(p)
}
