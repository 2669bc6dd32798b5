package faulty_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
)

// clusterRate returns how many times a second so many clients do f, on the clock of a bubble.
func clusterRate(t *testing.T, db kv.DB, clients int, f func(kv.Tx) error) float64 {
	t.Helper()
	const warm, measured = time.Second / 4, time.Second / 2
	var done atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range clients {
		group.Go(func() {
			for time.Since(began) < warm+measured {
				if err := db.Transact(t.Context(), f); err != nil {
					t.Error(err)
					return
				}
				if time.Since(began) > warm {
					done.Add(1)
				}
			}
		})
	}
	group.Wait()
	return float64(done.Load()) / measured.Seconds()
}

// The published recipe, a transaction a call, is as fast as it was measured to be on a real
// cluster, or the simulated one is not like it.
func TestFoundationDBRates(t *testing.T) {
	testkit.Long(t)
	for _, c := range []struct {
		verb    string
		clients int
		rate    float64 // on the real cluster
	}{
		{"enqueue", 1, 393}, {"enqueue", 16, 4283}, {"enqueue", 64, 9580}, {"enqueue", 256, 12009},
		{"dequeue", 1, 388}, {"dequeue", 4, 408}, {"dequeue", 16, 348}, {"dequeue", 64, 262},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New(memory.Options{})
			db := faulty.New(store, 1, faulty.FoundationDB(c.clients))
			defer db.Close()
			q := recipe.NewQueue(subspace.Named("q"), nil)
			enqueue := func(tx kv.Tx) error { return q.Enqueue(tx, make([]byte, 128)) }
			verb := enqueue
			if c.verb == "dequeue" {
				for range 3000 {
					testkit.NoError(t, store.Transact(t.Context(), enqueue))
				}
				verb = func(tx kv.Tx) error {
					_, _, err := q.Dequeue(tx)
					return err
				}
			}
			got := clusterRate(t, db, c.clients, verb)
			t.Logf("%s, %d clients: %.0f a second, real %.0f", c.verb, c.clients, got, c.rate)
			if got < c.rate/1.5 || got > c.rate*1.5 {
				t.Errorf("%s, %d clients: %.0f a second, on a real cluster %.0f", c.verb, c.clients, got, c.rate)
			}
		})
	}
}

// A watch tells either soon after the commit or after 10 ms, half of the times each.
func TestFoundationDBWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := faulty.New(memory.New(memory.Options{}), 1, faulty.FoundationDB(1))
		defer db.Close()
		const rounds = 400
		soon, late := 0, 0
		for range rounds {
			var told <-chan error
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { told = tx.Watch([]byte("k")); return nil }))
			time.Sleep(5 * time.Millisecond) // until it is set
			testkit.NoError(t, set(t, db, "k", time.Now().String()))
			began := time.Now()
			testkit.NoError(t, <-told)
			switch took := time.Since(began); {
			case took <= 2*time.Millisecond: // and half a commit more or less
				soon++
			case took >= 9700*time.Microsecond && took <= 11300*time.Microsecond:
				late++
			default:
				t.Errorf("a watch told %v after the commit", took)
			}
		}
		if soon < rounds/3 || late < rounds/3 {
			t.Errorf("%d watches told soon and %d late", soon, late)
		}
	})
}

// Stores that share a cluster share its latencies, its capacity and what is stored.
func TestClusterIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, o := memory.New(memory.Options{}), faulty.FoundationDB(1)
		defer store.Close()
		rates := func(processes int) (sum float64) {
			var group sync.WaitGroup
			var mu sync.Mutex
			for i := range processes {
				db := faulty.New(store, uint64(i), o)
				group.Go(func() {
					rate := clusterRate(t, db, 200/processes, func(tx kv.Tx) error {
						_, err := tx.Snapshot().Get([]byte("k"))
						tx.Set([]byte("k"), nil)
						return err
					})
					mu.Lock()
					defer mu.Unlock()
					sum += rate
				})
			}
			group.Wait()
			return sum
		}
		if one, four := rates(1), rates(4); four > 1.02*one || one > 1.02*four {
			t.Errorf("%.0f transactions a second of one process, %.0f of four", one, four)
		}
	})
}

// Plain puts are as fast as they were measured to be on three members.
func TestEtcdRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := faulty.New(memory.New(memory.Options{}), 1, faulty.Etcd(16))
		defer db.Close()
		const real = 4807
		got := clusterRate(t, db, 16, func(tx kv.Tx) error { tx.Set([]byte("k"), nil); return nil })
		if got < real/1.5 || got > real*1.5 {
			t.Errorf("%.0f puts a second, on a real cluster %d", got, real)
		}
	})
}
