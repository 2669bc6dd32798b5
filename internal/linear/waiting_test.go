package linear

import (
	"bytes"
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/queue"
)

// patient is a Target of which Take mostly waits, for a while, at some ends. Some wait until nobody else gets
// anything done, so that items are handed over however busy the machine is.
type patient struct {
	Target
	in   local
	ends []queue.End
	wait func(ctx context.Context, end queue.End, n int) ([]Item, error)
}

func (p patient) Take(ctx context.Context, end queue.End, n int) ([]Item, error) {
	if !slices.Contains(p.ends, end) || rand.IntN(8) == 0 {
		return p.Target.Take(ctx, end, n)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case p.in.seats <- struct{}{}:
		defer func() { <-p.in.seats }()
		go func() {
			for seen := int64(-1); seen != p.in.calls.Load() && ctx.Err() == nil; {
				seen = p.in.calls.Load()
				<-time.After(10 * time.Millisecond)
			}
			cancel()
		}()
	default:
		go func() {
			for range rand.IntN(300) {
				runtime.Gosched()
			}
			cancel()
		}()
	}
	return p.wait(ctx, end, n)
}

func patientQueue(in local, q *conq.Queue[string]) Target {
	return patient{FIFO(q), in, []queue.End{queue.Min}, func(ctx context.Context, _ queue.End, n int) (items []Item, err error) {
		values, err := q.DequeueWaitN(ctx, n)
		for _, v := range values {
			items = append(items, Item{v, Untold})
		}
		return items, err
	}}
}

func patientPriorityQueue(in local, p *conq.PriorityQueue[string], ends []queue.End) Target {
	return patient{Priority(p), in, ends, func(ctx context.Context, end queue.End, n int) (items []Item, err error) {
		values, err := p.PopWaitN(ctx, end, n)
		for _, v := range values {
			items = append(items, Item{v.Value, v.Priority})
		}
		return items, err
	}}
}

// local is a store that one process has for itself, and that counts the items written into it.
type local struct {
	kv.DB
	written, calls *atomic.Int64
	seats          chan struct{} // of those who wait for long: fewer than there are clients, as some must add items
}

func (l local) Signals() *kvext.Signals { return kvext.SignalsOf(l.DB) }

func (l local) Transact(ctx context.Context, f func(kv.Tx) error) error {
	defer l.calls.Add(1)
	var written int64 // by the attempt that commits
	err := l.DB.Transact(ctx, func(tx kv.Tx) error {
		written = 0
		return f(localTx{tx, &written})
	})
	if err == nil {
		l.written.Add(written)
	}
	return err
}

type localTx struct {
	kv.Tx
	written *int64
}

func (tx localTx) Lazily() { kv.Lazily(tx.Tx) }

func (tx localTx) Set(key, value []byte) {
	if !bytes.HasPrefix(key, layout.System()) { // of which the catalogue is
		*tx.written++
	}
	tx.Tx.Set(key, value)
}

// The queues behave as one when those who take wait, and items are handed to them, whether all
// share a handle or not.
func TestWaiting(t *testing.T) {
	for _, e := range engines {
		for _, w := range weathers[:3] { // others make commits unknown, or end contexts
			for handles := 1; handles <= 2; handles++ {
				name := e.name + "/" + w.name + map[int]string{1: "", 2: "/two handles"}[handles]
				t.Run(name, func(t *testing.T) {
					for round := range *rounds {
						waiting(t, e.open(t), w, handles, *firstSeed+uint64(round))
					}
				})
			}
		}
	}
}

func waiting(t *testing.T, db kv.DB, w weather, handles int, seed uint64) {
	var written, called, added atomic.Int64
	l := local{slow{faulty.New(db, seed, w.faults), w.slow}, &written, &called, make(chan struct{}, clients/3)}
	o := conq.Options{Observe: func(e conq.Event) {
		if e.Kind == conq.Added {
			added.Add(int64(e.Items))
		}
	}}
	f := &fixture{T: t, calm: db, weather: w, seed: seed, judge: func(h ...History) { Check(t, h...) }}
	fresh := func(name string, fifoTies bool, open func(kv.DB) (Target, error)) Queue {
		targets := make([]Target, handles)
		for i := range targets {
			targets[i] = f.open(l, open)
		}
		return Queue{
			Name: name, FIFOTies: fifoTies,
			Open:  func(client int) Target { return targets[client%handles] },
			Drain: func() Target { return targets[0].(patient).Target },
		}
	}
	f.run(Workload{Seed: seed, Clients: clients, Calls: calls(), Ends: 1, Puts: 25, Cancel: w.cancel},
		fresh("a", false, func(db kv.DB) (Target, error) {
			q, err := conq.OpenQueue(t.Context(), db, "a", conq.String(), o)
			return patientQueue(l, q), err
		}))
	for _, p := range []struct {
		name     string
		fifoTies bool
		ends     []queue.End
	}{{"b", false, []queue.End{queue.Min}}, {"c", false, []queue.End{queue.Max}}, {"d", true, []queue.End{queue.Max}}, {"e", false, []queue.End{queue.Min, queue.Max}}} {
		o.FIFOTies = p.fifoTies
		f.run(Workload{Seed: seed, Clients: clients, Calls: calls() / 2, Ends: 2, Puts: 25, Cancel: w.cancel},
			fresh(p.name, p.fifoTies, func(db kv.DB) (Target, error) {
				q, err := conq.OpenPriorityQueue(t.Context(), db, p.name, conq.String(), o)
				return patientPriorityQueue(l, q, p.ends), err
			}))
	}
	t.Logf("%d items were added, and %d of them written", added.Load(), written.Load())
	if handles == 1 && w.faults.Conflict == 0 && written.Load() >= added.Load() {
		t.Error("nothing was handed over")
	}
	testkit.Check(t, l.Close())
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
}
