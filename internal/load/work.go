package load

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq"
	"golang.org/x/sync/errgroup"
)

// errOver ends the calls that wait when the time of a phase is over.
var errOver = errors.New("load: the phase is over")

// phaseWork is the work of one phase.
type phaseWork struct {
	run     *run
	phase   Phase
	meter   *Meter
	puts    atomic.Int64 // calls that have begun
	takes   atomic.Int64
	expired atomic.Bool // the time is over
	spent   counts      // once the phase is over
}

func newWork(r *run, p Phase) *phaseWork {
	return &phaseWork{run: r, phase: p, meter: NewMeter(p, r.config.Progress)}
}

// work lets the clients of the phase at the queue.
func (w *phaseWork) work(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	waiting, over := context.WithCancelCause(ctx)
	defer over(nil)
	if d := w.run.config.Duration; d > 0 {
		defer time.AfterFunc(d, func() {
			w.expired.Store(true)
			over(errOver)
		}).Stop()
	}
	w.run.counter.reset()
	stop := w.meter.Run()
	defer func() {
		stop()
		w.spent = w.run.counter.reset()
	}()
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
func (w *phaseWork) handle(client int) queue { return w.run.handles[client%len(w.run.handles)] }

// claim tells whether one more call is to be made.
func (w *phaseWork) claim(calls *atomic.Int64) bool {
	n := w.run.config.Items
	return !w.expired.Load() && (n == 0 || calls.Add(1) <= int64(n))
}

func (w *phaseWork) produce(ctx context.Context, client int) error {
	q, m := w.handle(client), w.run.newMaker(client+1)
	for w.claim(&w.puts) {
		call := time.Now()
		if err := q.put(ctx, m.items(1)); err != nil {
			return err
		}
		w.meter.Put.Record(time.Since(call))
	}
	return nil
}

// consume takes items: while there are any, or where there are producers too,
// waiting for them.
func (w *phaseWork) consume(ctx, waiting context.Context, client int) error {
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
		w.meter.Take.Record(time.Since(call))
	}
	return nil
}
