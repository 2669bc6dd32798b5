package staging

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

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

// takeEverything has clients take until there is nothing, and returns how many
// items they took.
func takeEverything(t testing.TB, db kv.DB, clients int, take func(kv.DB) func(context.Context) error) int {
	var took atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		one := take(db)
		wg.Go(func() {
			err := one(context.Background())
			for ; err == nil; err = one(context.Background()) {
				took.Add(1)
			}
			if !errors.Is(err, ErrEmpty) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return int(took.Load())
}

// TestScales checks in the time of a bubble, where only the store's latency
// counts, that staging scales where the recipe does not. Transactions of the
// recipe exclude each other from when their version is fixed, halfway through the
// latency, until the store decides: one each 2.5 ms. A request is visible after
// 3.5 ms, its result at least 2.5 ms later, and to collect that takes 5 ms: at
// most 5,800 items a second for 64 clients.
func TestScales(t *testing.T) {
	rate := func(clients, items int, take func(kv.DB) func(context.Context) error) (rate float64) {
		testkit.Bubble(t, func(t *testing.T) {
			store := testkit.NewMemory(t, kv.Limits{})
			fill(t, store, items)
			began := time.Now()
			db := faulty.New(store, 1, faulty.Options{Latency: 2 * time.Millisecond, CommitLatency: 3 * time.Millisecond})
			if took := takeEverything(t, db, clients, take); took != items {
				t.Errorf("%d of %d items were taken", took, items)
			}
			rate = float64(items) / time.Since(began).Seconds()
		})
		return rate
	}
	recipe, few, many := rate(64, 200, plain), rate(64, 1000, staged), rate(256, 2000, staged)
	t.Logf("a second: the recipe with 64 clients %.0f, staging with 64 %.0f, with 256 %.0f", recipe, few, many)
	if few < 10*recipe || many < 30*recipe {
		t.Error("staging should do 10 times as much with 64 clients, and 30 times with 256")
	}
}
