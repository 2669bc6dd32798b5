package work

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// conflictsDB counts transactions that had to be made again.
type conflictsDB struct {
	kv.DB
	mu        sync.Mutex
	conflicts int
	begun     func(n int) // called with 1 when a transaction begins, and -1 when it ends; may be nil
}

func (db *conflictsDB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if db.begun != nil {
		db.begun(1)
		defer db.begun(-1)
	}
	again := false
	return db.DB.Transact(ctx, func(tx kv.Tx) error {
		if again {
			db.mu.Lock()
			db.conflicts++
			db.mu.Unlock()
		}
		again = true
		return f(tx)
	})
}

// Processes that reserve from one queue collide less in nearly strict order than in strict order. Each job is leased once, those
// of a key in their order, and a handle that is alone again takes what is first.
func TestNearlyStrict(t *testing.T) {
	const processes, workers, each = 16, 4, 12
	conflicts := map[Order]int{}
	for _, order := range []Order{Strict, NearlyStrict} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			base := memory.New(memory.Options{})
			o := faulty.FoundationDB(processes)
			var dbs []*conflictsDB
			var queues []*Queue[string]
			for i := range processes {
				dbs = append(dbs, &conflictsDB{DB: faulty.New(base, uint64(i), o)})
				queues = append(queues, open(t, dbs[i], Options{Settings: &Settings{Lease: time.Hour, Order: order}}))
			}
			total := processes * workers * each
			putMany(t, queues[0], 2*total, func(i int) Job {
				if i%4 == 0 {
					return Job{Key: fmt.Sprint("key ", i%3)}
				}
				return Job{}
			})
			var mu sync.Mutex
			last := map[string]ID{}
			seen := map[ID]bool{}
			var group sync.WaitGroup
			for _, q := range queues {
				for range workers {
					group.Go(func() {
						for range each {
							l, err := q.ReserveWait(ctx)
							if err != nil {
								t.Error(err)
								return
							}
							mu.Lock()
							if seen[l.ID] || l.Key != "" && l.ID < last[l.Key] {
								t.Errorf("job %d of key %q comes after %d, or again", l.ID, l.Key, last[l.Key])
							}
							seen[l.ID], last[l.Key] = true, l.ID
							mu.Unlock()
							if err := l.Ack(ctx); err != nil {
								t.Error(err)
							}
						}
					})
				}
			}
			group.Wait()
			for _, db := range dbs {
				conflicts[order] += db.conflicts
			}
			time.Sleep(2 * time.Second)
			for range 10 {
				first, err := queues[3].Peek(ctx, 1)
				noError(t, err)
				l, err := queues[3].ReserveWait(ctx)
				noError(t, err)
				if l.ID != first[0].ID {
					t.Errorf("a handle that is alone takes job %d, the first is %d", l.ID, first[0].ID)
				}
				noError(t, l.Ack(ctx))
			}
			sound(t, queues[0])
			for _, q := range queues {
				noError(t, q.Close())
			}
			noError(t, dbs[0].Close())
		})
	}
	if conflicts[NearlyStrict] > conflicts[Strict]*3/4 {
		t.Errorf("%d conflicts in nearly strict order, %d in strict order", conflicts[NearlyStrict], conflicts[Strict])
	}
}

// Reservations of one handle at the same time do not collide. They take all jobs, each once, and find none only if there is none.
func TestFlightsTakeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, total = 64, 1500
		o := faulty.FoundationDB(workers)
		db := &conflictsDB{DB: faulty.New(memory.New(memory.Options{}), 1, o)}
		q := open(t, db, Options{})
		putMany(t, q, total, func(int) Job { return Job{} })
		var mu sync.Mutex
		seen, atOnce, most := map[ID]bool{}, 0, 0
		db.begun = func(n int) {
			mu.Lock()
			defer mu.Unlock()
			atOnce += n
			most = max(most, atOnce)
		}
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for {
					leases, err := ready(q)(t.Context(), 1)
					if err != nil {
						t.Error(err)
						return
					}
					if len(leases) == 0 {
						return
					}
					mu.Lock()
					if seen[leases[0].ID] {
						t.Errorf("job %d is leased twice", leases[0].ID)
					}
					seen[leases[0].ID] = true
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if len(seen) != total {
			t.Errorf("%d of %d jobs were leased when nobody found one", len(seen), total)
		}
		if most < 2 || db.conflicts > total/50 {
			t.Errorf("up to %d transactions at the same time, and %d conflicts with %d jobs", most, db.conflicts, total)
		}
		noError(t, q.Close())
		noError(t, db.Close())
	})
}

// Workers of a handle that end leases share transactions with those that reserve, and all is done once. When these collide with others, the
// ends of leases do not wait for them again.
func TestActionsShareTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const workers, total = 4, 400
		db := &conflictsDB{DB: faulty.New(memory.New(memory.Options{}), 1, faulty.FoundationDB(workers))}
		q := open(t, db, Options{})
		putMany(t, q, total, func(int) Job { return Job{} })
		var mu sync.Mutex
		transactions, done := 0, 0
		db.begun = func(n int) {
			mu.Lock()
			defer mu.Unlock()
			transactions += max(0, n)
		}
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for range total / workers {
					l, err := q.ReserveWait(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					if err := l.Ack(t.Context()); err != nil {
						t.Error(err)
					}
					mu.Lock()
					done++
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if left, err := q.Stats(t.Context()); err != nil || left.Ready+left.Leased != 0 || done != total {
			t.Errorf("%d of %d jobs are done: %+v, %v", done, total, left, err)
		}
		if transactions > total*3/4 {
			t.Errorf("%d transactions for %d jobs", transactions, total)
		}
		noError(t, q.Close())
		noError(t, db.Close())
	})
}
