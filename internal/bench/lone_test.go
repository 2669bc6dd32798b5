package bench

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
)

// loneStores are the stores on which a lone caller is measured.
var loneStores = []struct {
	name string
	open func(testing.TB) kv.DB
}{
	{"memory", func(testing.TB) kv.DB { return memory.New(memory.Options{}) }},
	{"embedded, memory", func(b testing.TB) kv.DB { return openDB(b, b.TempDir(), embedded.Memory) }},
	{"embedded, always", func(b testing.TB) kv.DB { return openDB(b, b.TempDir(), embedded.Always) }},
	{"cluster", func(testing.TB) kv.DB {
		return faulty.New(memory.New(memory.Options{}), 1, faulty.Options{
			Latency: 2 * time.Millisecond, CommitLatency: 3 * time.Millisecond,
			Limits: kv.Limits{Shared: true, UnknownCommits: true},
		})
	}},
}

// lone is what a lone caller does, with a handle or without.
type lone struct {
	name             string
	enqueue, dequeue func() error
	times            [2][]time.Duration // of enqueue, and of dequeue
}

// bare is the recipe in a transaction, and nothing else.
func bare(ctx context.Context, db kv.DB) *lone {
	q := recipe.NewQueue(subspace.Named("bare"), nil)
	return &lone{
		name:    "bare",
		enqueue: func() error { return db.Transact(ctx, func(tx kv.Tx) error { return q.Enqueue(tx, payload(1)) }) },
		dequeue: func() error {
			return db.Transact(ctx, func(tx kv.Tx) error {
				_, _, err := q.Dequeue(tx)
				return err
			})
		},
	}
}

// handle is a handle with all that it has, combining and staging.
func handle(b *testing.B, db kv.DB) *lone {
	q, err := conq.OpenQueue(db, "handle", conq.Bytes())
	check(b, err)
	return &lone{
		name:    "handle",
		enqueue: func() error { return q.Enqueue(b.Context(), payload(1)) },
		dequeue: func() error {
			_, err := q.Dequeue(b.Context())
			return err
		},
	}
}

// BenchmarkLone measures a caller who has a queue of 1,000 items for itself, with a
// handle and with the bare recipe: by turns on one store, so that both have the same
// luck. An operation is an enqueue and a dequeue by each. The metrics are medians, and
// what the handle takes as a multiple of what the recipe does.
//
//	go test -run '^$' -bench Lone ./internal/bench
func BenchmarkLone(b *testing.B) {
	for _, store := range loneStores {
		b.Run("store="+store.name, func(b *testing.B) {
			db := store.open(b)
			defer func() { check(b, db.Close()) }()
			both := []*lone{bare(b.Context(), db), handle(b, db)}
			const depth = 1000
			for _, l := range both {
				n := depth
				if store.name == "cluster" {
					n = depth / 20 // at 5 ms each
				}
				for range n {
					check(b, l.enqueue())
				}
			}
			for turn := 0; b.Loop(); turn++ {
				for i := range both {
					both[(i+turn)%2].measure(b)
				}
			}
			for i, op := range []string{"enqueue", "dequeue"} {
				plain, ours := median(both[0].times[i]), median(both[1].times[i])
				b.ReportMetric(float64(plain), "ns/bare-"+op)
				b.ReportMetric(float64(ours), "ns/handle-"+op)
				b.ReportMetric(float64(ours)/float64(plain), "x/"+op)
			}
		})
	}
}

func (l *lone) measure(b *testing.B) {
	for i, do := range []func() error{l.enqueue, l.dequeue} {
		began := time.Now()
		check(b, do())
		l.times[i] = append(l.times[i], time.Since(began))
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}
