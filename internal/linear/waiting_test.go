package linear

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// patient is a Target of which Take mostly waits, for a while, at some ends.
type patient struct {
	Target
	ends []End
	wait func(ctx context.Context, end End, n int) ([]Item, error)
}

func (p patient) Take(ctx context.Context, end End, n int) ([]Item, error) {
	if !slices.Contains(p.ends, end) || rand.IntN(8) == 0 {
		return p.Target.Take(ctx, end, n)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for range rand.IntN(300) {
			runtime.Gosched()
		}
		cancel()
	}()
	return p.wait(ctx, end, n)
}

func patientQueue(q *conq.Queue[string]) Target {
	return patient{FIFO(q), []End{Low}, func(ctx context.Context, _ End, n int) (items []Item, err error) {
		values, err := q.DequeueWaitN(ctx, n)
		for _, v := range values {
			items = append(items, Item{v, Untold})
		}
		return items, err
	}}
}

func patientPriorityQueue(p *conq.PriorityQueue[string], ends []End) Target {
	return patient{Priority(p), ends, func(ctx context.Context, end End, n int) (items []Item, err error) {
		wait := p.PopMinWaitN
		if end == High {
			wait = p.PopMaxWaitN
		}
		values, err := wait(ctx, n)
		for _, v := range values {
			items = append(items, Item{v.Value, v.Priority})
		}
		return items, err
	}}
}

// local is a store that one process has for itself, and that counts what is set in it.
type local struct {
	kv.DB
	sets *atomic.Int64
}

func (l local) Signals() *kv.Signals { return kv.SignalsOf(l.DB) }

func (l local) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return l.DB.Transact(ctx, func(tx kv.Tx) error { return f(localTx{tx, l.sets}) })
}

type localTx struct {
	kv.Tx
	sets *atomic.Int64
}

func (tx localTx) Lazily() { kv.Lazily(tx.Tx) }

func (tx localTx) Set(key, value []byte) {
	tx.sets.Add(1)
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
	var sets, added atomic.Int64
	l := local{slow{faulty.New(db, seed, w.faults), w.slow}, &sets}
	o := conq.Options{Observe: func(e conq.Event) {
		if e.Kind == conq.Added {
			added.Add(int64(e.Items))
		}
	}}
	f := &fixture{T: t, calm: db, weather: w, seed: seed, judge: func(h ...History) { Check(t, h...) }}
	queue := func(name string, fifoTies bool, open func(kv.DB) (Target, error)) Queue {
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
		queue("a", false, func(db kv.DB) (Target, error) {
			q, err := conq.OpenQueue(db, "a", conq.String(), o)
			return patientQueue(q), err
		}))
	for _, p := range []struct {
		name     string
		fifoTies bool
		ends     []End
	}{{"b", false, []End{Low}}, {"c", false, []End{High}}, {"d", true, []End{High}}, {"e", false, []End{Low, High}}} {
		o.FIFOTies = p.fifoTies
		f.run(Workload{Seed: seed, Clients: clients, Calls: calls() / 2, Ends: 2, Puts: 25, Cancel: w.cancel},
			queue(p.name, p.fifoTies, func(db kv.DB) (Target, error) {
				q, err := conq.OpenPriorityQueue(db, p.name, conq.String(), o)
				return patientPriorityQueue(q, p.ends), err
			}))
	}
	t.Logf("%d items were added, and at most %d of them written", added.Load(), sets.Load())
	if handles == 1 && w.faults.Conflict == 0 && sets.Load() >= added.Load() {
		t.Error("nothing was handed over")
	}
	testkit.Check(t, l.Close())
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
}
