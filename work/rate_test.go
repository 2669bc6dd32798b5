package work

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// counted opens a store that counts the keys that are read and written.
func counted(t *testing.T) (kv.DB, *atomic.Int64) {
	touched := new(atomic.Int64)
	return &testkit.Hooked{DB: store(t), Attempt: func(tx kv.Tx) kv.Tx {
		return testkit.FaultyTx{Tx: tx, Hit: func() error { touched.Add(1); return nil }}
	}}, touched
}

func putMany(t *testing.T, q *Queue[string], n int, job func(i int) Job) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		var all []New[string]
		for i := from; i < min(n, from+1000); i++ {
			all = append(all, New[string]{fmt.Sprint(i), job(i)})
		}
		_, _, err := q.PutAll(context.Background(), all)
		noError(t, err)
	}
}

func leaseAll(t *testing.T, q *Queue[string]) (n int) {
	t.Helper()
	for {
		leases, err := ready(q)(context.Background(), 1000)
		noError(t, err)
		if len(leases) == 0 {
			return n
		}
		n += len(leases)
	}
}

// What a reserve costs does not grow with the jobs in front that may not start: those of keys that are over their rate, or
// whose slots are taken, with few slots or many; also where there is none that may, as the queue's limits are reached.
func TestReserveCostsTheSame(t *testing.T) {
	ctx := context.Background()
	hour := Rate{N: 1, Per: time.Hour}
	for name, c := range map[string]struct {
		o       Options
		perKey  int
		started int // of each key
		free    int // how many jobs may start then
	}{
		"key rate":                {Options{Settings: &Settings{KeyRate: hour}}, 2, 1, 1},
		"key rate with 100 slots": {Options{Settings: &Settings{KeyRate: hour, KeyLimit: 100}}, 2, 1, 1},
		"burst with 100 slots":    {Options{Settings: &Settings{KeyRate: Rate{N: 2, Per: time.Hour}, KeyLimit: 100}}, 3, 2, 1},
		"slots":                   {Options{}, 2, 1, 1},
		"concurrency":             {Options{Settings: &Settings{Concurrency: 5}}, 1, 0, 0},
		"rate":                    {Options{Settings: &Settings{Rate: Rate{N: 5, Per: time.Hour}}}, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cost := func(keys int, union bool) int64 {
				db, touched := counted(t)
				q := open(t, db, c.o)
				putMany(t, q, keys*c.perKey, func(i int) Job { return Job{Key: fmt.Sprint(i % keys), Priority: -1} })
				if n := leaseAll(t, q); c.free > 0 && n != keys*c.started {
					t.Fatalf("%d of %d keys started", n, keys)
				}
				_, err := q.Put(ctx, "free", Job{Key: "fresh"})
				noError(t, err)
				u, err := NewUnion(q)
				noError(t, err)
				noError(t, q.Sweep(ctx)) // so that each cost is without it
				before := touched.Load()
				var leases []*Lease[string]
				if union {
					leases, err = ready(u)(ctx, 10)
				} else {
					leases, err = ready(q)(ctx, 10)
				}
				noError(t, err)
				if len(leases) != c.free || c.free > 0 && leases[0].Value != "free" {
					t.Fatalf("%d leases beside %d keys", len(leases), keys)
				}
				cost := touched.Load() - before
				sound(t, q)
				return cost
			}
			for _, union := range []bool{false, true} {
				few, many := cost(10, union), cost(1000, union)
				if many > few+20 { // as it may look at what is due
					t.Errorf("union %v: %d keys are touched beside 1000 keys, %d beside 10", union, many, few)
				}
			}
		})
	}
}

// Where a rate is new, its ready jobs do not hide those of others, and a reserve goes on behind them at once.
func TestRateIsSetLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db, touched := counted(t)
		q := open(t, db, Options{Settings: &Settings{KeyLimit: 10_000}})
		putMany(t, q, 3000, func(int) Job { return Job{Key: "k"} })
		_, err := q.Put(ctx, "behind", Job{Priority: 1})
		noError(t, err)
		noError(t, q.Close())
		limited, err := Open(ctx, db, q.name, queue.String(), Options{Settings: &Settings{KeyLimit: 10_000, KeyRate: Rate{N: 2, Per: time.Minute}}})
		noError(t, err)
		defer limited.Close()
		began := time.Now()
		var got []string
		for range 3 {
			l, err := limited.ReserveWait(ctx)
			noError(t, err)
			got = append(got, l.Value)
			noError(t, l.Ack(ctx))
		}
		if want := []string{"0", "1", "behind"}; !slices.Equal(got, want) || time.Since(began) > time.Millisecond {
			t.Fatalf("got %v after %v, want %v", got, time.Since(began), want)
		}
		sound(t, limited)
		before := touched.Load()
		for i := range 6 {
			l, err := limited.ReserveWait(ctx)
			noError(t, err)
			if want := fmt.Sprint(2 + i); l.Value != want {
				t.Fatalf("got %s, want %s", l.Value, want)
			}
			noError(t, l.Ack(ctx))
		}
		if d := time.Since(began); d < 3*time.Minute-2*time.Second || d > 3*time.Minute+2*time.Second {
			t.Errorf("6 jobs at 2 a minute took %v", d)
		}
		if n := touched.Load() - before; n > 1000 {
			t.Errorf("6 jobs touched %d keys", n)
		}
		sound(t, limited)
	})
}

// What does not start costs a rate nothing: jobs that are left out, kicked, deleted, cancelled or buried. A lease that is
// released has started.
func TestRateOfWhatStarts(t *testing.T) {
	ctx := context.Background()
	for name, verb := range map[string]func(q *Queue[string], id ID) error{
		"delete": func(q *Queue[string], id ID) error { return q.Delete(ctx, id) },
		"cancel": func(q *Queue[string], id ID) error { return q.Cancel(ctx, id) },
		"bury":   func(q *Queue[string], id ID) error { return q.Bury(ctx, id, "") },
		"kick": func(q *Queue[string], id ID) error {
			noError(t, q.Bury(ctx, id, ""))
			noError(t, q.Kick(ctx, id))
			return q.Delete(ctx, id)
		},
		"reprioritise": func(q *Queue[string], id ID) error {
			noError(t, q.Reprioritise(ctx, id, 7))
			return q.Delete(ctx, id)
		},
		"lease": func(q *Queue[string], id ID) error {
			leases, err := ready(q)(ctx, 1)
			noError(t, err)
			return leases[0].Ack(ctx)
		},
		"release": func(q *Queue[string], id ID) error {
			leases, err := ready(q)(ctx, 1)
			noError(t, err)
			noError(t, leases[0].Release(ctx, 0))
			return q.Delete(ctx, leases[0].ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := open(t, store(t), Options{Settings: &Settings{KeyLimit: 9, KeyRate: Rate{N: 2, Per: time.Hour}}})
				for range 6 {
					id, err := q.Put(ctx, "a", Job{Key: "k"})
					noError(t, err)
					noError(t, verb(q, id))
					sound(t, q)
					if name == "lease" || name == "release" {
						break
					}
				}
				putMany(t, q, 5, func(int) Job { return Job{Key: "k"} })
				want := 2
				if name == "lease" || name == "release" {
					want = 1
				}
				if n := leaseAll(t, q); n != want {
					t.Errorf("%d start, want %d", n, want)
				}
				time.Sleep(30 * time.Minute)
				if n := leaseAll(t, q); n != 1 {
					t.Errorf("%d start half an hour later", n)
				}
				time.Sleep(100 * time.Hour) // and as many as at first after a rest
				if n := leaseAll(t, q); n != 4-want && n != 2 {
					t.Errorf("%d start after a rest", n)
				}
				sound(t, q)
			})
		})
	}
}

// Jobs that the bytes of a transaction leave out are not charged to their key, and are there for the next caller.
func TestRateAndBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		q := open(t, store(t), Options{Settings: &Settings{KeyLimit: 9, KeyRate: Rate{N: 4, Per: time.Hour}}})
		for range 4 {
			_, err := q.Put(ctx, string(make([]byte, maxBytes*2/3)), Job{Key: "k"})
			noError(t, err)
		}
		for i := range 4 {
			leases, err := ready(q)(ctx, 4)
			noError(t, err)
			if len(leases) != 1 {
				t.Fatalf("%d leases the %d-th time", len(leases), i)
			}
		}
		sound(t, q)
	})
}

// A retry that comes due over the rate of its key waits in its place: it is before the jobs that were put later.
func TestRateOfRetries(t *testing.T) {
	for _, limit := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			q := open(t, store(t), Options{Settings: &Settings{KeyLimit: limit, KeyRate: Rate{N: 1, Per: time.Minute}}})
			putMany(t, q, 3, func(int) Job { return Job{Key: "k"} })
			began := time.Now()
			for i, want := range []string{"0", "0", "0", "1", "2"} {
				l, err := q.ReserveWait(ctx)
				noError(t, err)
				if d := time.Since(began); l.Value != want || d < time.Duration(i)*time.Minute || d > time.Duration(i)*time.Minute+time.Second {
					t.Fatalf("limit %d: the %d-th start is of %s after %v, want %s", limit, i, l.Value, d, want)
				}
				if l.Value == "0" && i < 2 {
					noError(t, l.FailAfter(ctx, time.Second, nil))
				} else {
					noError(t, l.Ack(ctx))
				}
				sound(t, q)
			}
		})
	}
}

// No clock that is set back stops a rate, of a key or of the queue, for longer than the rate says.
func TestRateAndClockSetBack(t *testing.T) {
	for name, o := range map[string]Options{
		"key":      {Settings: &Settings{KeyLimit: 5, KeyRate: Rate{N: 10, Per: time.Second}}},
		"one slot": {Settings: &Settings{KeyRate: Rate{N: 10, Per: time.Second}}},
		"queue":    {Settings: &Settings{Rate: Rate{N: 10, Per: time.Second}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := context.Background()
				q := open(t, memory.New(memory.Options{}), o)
				defer q.db.Close()
				var offset atomic.Int64
				q.now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
				putMany(t, q, 60, func(int) Job { return Job{Key: "k"} })
				began := time.Now()
				for i := range 60 {
					if i == 30 {
						offset.Store(-int64(time.Hour))
					}
					l, err := q.ReserveWait(ctx)
					noError(t, err)
					noError(t, l.Ack(ctx))
					if l.Value != fmt.Sprint(i) {
						t.Fatalf("got %s as number %d", l.Value, i)
					}
				}
				if d := time.Since(began); d < 4900*time.Millisecond || d > 7*time.Second {
					t.Errorf("60 jobs at 10 a second took %v", d)
				}
				sound(t, q)
			})
		})
	}
}
