package demo

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/load"
	"golang.org/x/sync/errgroup"
)

// clients are those that work on a queue of any kind.
type clients struct {
	config Config
	name   string // of the phase, and of the queue behind prefix
	maker  maker
	target int64 // items that go through while both sides work

	// Shared by the clients.
	meter   *load.Meter
	claimed atomic.Int64 // items that a producer has begun or will begin
	expired atomic.Bool  // the time is over

	put, take load.Calls // while both sides worked
	reopened  int        // items that were taken after the store was reopened
}

// prefix begins the names of the queues that are worked on.
const prefix = "conq demo: "

func newClients(c Config, name string) *clients {
	salt := fnv.New64a()
	salt.Write([]byte(name)) // so that an item of another queue is not recognised here
	w := &clients{config: c, name: name, target: math.MaxInt64, maker: maker{c.Size, c.Seed, salt.Sum64()}}
	if c.Items > 0 {
		w.target = int64(max(0, c.Items-leave))
	}
	return w
}

func (w *clients) title() string { return w.name }

// run lets the clients that start starts at a queue, which has to be empty. put and take are the names of what they do.
func (w *clients) run(ctx context.Context, q interface {
	Name() string
	Len(context.Context) (int, error)
}, put, take string, start func(context.Context, *errgroup.Group)) error {
	if n, err := q.Len(ctx); err != nil || n > 0 {
		return cmp.Or(err, fmt.Errorf("there are already items in %q: purge it, or use another store", q.Name()))
	}
	w.meter = load.NewMeter(w.name, w.config.Progress)
	if w.config.Duration > 0 {
		defer time.AfterFunc(w.config.Duration, func() { w.expired.Store(true) }).Stop()
	}
	stop := w.meter.Run()
	all, ctx := errgroup.WithContext(ctx)
	start(ctx, all)
	err := all.Wait()
	stop()
	w.meter.Done()
	w.put, w.take = w.meter.Calls(put, take) // and not of what one client alone does from here on
	return err
}

// claim tells whether a producer is to put one more item in.
func (w *clients) claim() bool { return !w.expired.Load() && w.claimed.Add(1) <= w.target }

// wanted tells whether consumers are to take more.
func (w *clients) wanted() bool { return !w.expired.Load() && int64(w.meter.Take.Count()) < w.target }

// id is that of a producer's item. Behind the producers is the one of what is left in.
func (w *clients) id(producer, n int) uint64 { return uint64(producer)<<40 | uint64(n) }

// eachLeft calls put with the ids of items that nobody takes before the store is reopened.
func (w *clients) eachLeft(put func(id uint64) error) error {
	for i := range min(leave, cmp.Or(w.config.Items, leave)) {
		if err := put(w.id(w.config.Producers, i)); err != nil {
			return err
		}
	}
	return nil
}

// pause is how long a client waits that has found nothing to do.
const pause = 500 * time.Microsecond

func wait(ctx context.Context) error {
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// result is what was measured.
func (w *clients) result() Phase {
	return Phase{Name: w.name, Seconds: w.meter.Took().Seconds(), Put: w.put, Take: w.take, Reopened: w.reopened}
}
