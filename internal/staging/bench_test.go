package staging

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// counting counts the transactions of a store, and how often their functions ran.
type counting struct {
	kv.DB
	transactions, attempts atomic.Int64
}

func (c *counting) Transact(ctx context.Context, f func(kv.Tx) error) error {
	c.transactions.Add(1)
	return c.DB.Transact(ctx, func(tx kv.Tx) error {
		c.attempts.Add(1)
		return f(tx)
	})
}

// BenchmarkCluster drains a queue over a network: 2 ms until a transaction has its
// version, 3 ms until a commit is acknowledged. Each client is a process of its
// own, and takes one item at a time.
func BenchmarkCluster(b *testing.B) {
	for _, clients := range []int{1, 4, 16, 64} {
		for _, c := range []struct {
			name string
			take func(kv.DB) func(context.Context) error
		}{{"staging", staged}, {"recipe", plain}} {
			b.Run(fmt.Sprintf("%s/%d", c.name, clients), func(b *testing.B) {
				store := memory.New(memory.Options{})
				db := faulty.New(store, 1, faulty.Options{Latency: 2 * time.Millisecond, CommitLatency: 3 * time.Millisecond})
				drain(b, store, db, clients, c.take)
			})
		}
	}
}

// BenchmarkEmbedded drains a durable queue of one process by staging, as if each
// client were another process.
func BenchmarkEmbedded(b *testing.B) {
	for _, clients := range []int{4, 64} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			db, err := embedded.Open(b.TempDir(), embedded.Options{})
			if err != nil {
				b.Fatal(err)
			}
			drain(b, db, db, clients, staged)
		})
	}
}

// staged returns the dequeue of a client that stages each time.
func staged(db kv.DB) func(context.Context) error {
	s := stage(db, Options{})
	return func(ctx context.Context) error {
		_, err := Take(ctx, s, Front, 1, values)
		return err
	}
}

// plain returns the dequeue of the recipe.
func plain(db kv.DB) func(context.Context) error {
	return func(ctx context.Context) error {
		return db.Transact(ctx, func(tx kv.Tx) error {
			_, ok, err := testQueue.Dequeue(tx)
			if err == nil && !ok {
				err = ErrEmpty
			}
			return err
		})
	}
}

// drain has clients take b.N items, which are enqueued to store, from db.
func drain(b *testing.B, store, db kv.DB, clients int, take func(kv.DB) func(context.Context) error) {
	defer db.Close()
	for done := 0; done < b.N; done += 1000 {
		check(b, store.Transact(b.Context(), func(tx kv.Tx) error {
			for range min(1000, b.N-done) {
				if err := testQueue.Enqueue(tx, make([]byte, 128)); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	counts := &counting{DB: db}
	var took atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range clients {
		one := take(counts)
		wg.Go(func() {
			for {
				err := one(b.Context())
				if errors.Is(err, ErrEmpty) {
					return
				}
				check(b, err)
				took.Add(1)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	if took.Load() != int64(b.N) {
		b.Errorf("%d of %d items were taken", took.Load(), b.N)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	b.ReportMetric(float64(counts.transactions.Load())/float64(b.N), "transactions/item")
	b.ReportMetric(float64(counts.attempts.Load()-counts.transactions.Load())/float64(b.N), "conflicts/item")
}

func check(b testing.TB, err error) {
	if err != nil {
		b.Error(err)
	}
}
