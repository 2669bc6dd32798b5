package work

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
)

// reserveOne are the ways to reserve a job.
var reserveOne = map[string]func(ctx context.Context, q *Queue[string]) (*Lease[string], error){
	"reserve": func(ctx context.Context, q *Queue[string]) (*Lease[string], error) { return q.ReserveWait(ctx) },
	"try": func(ctx context.Context, q *Queue[string]) (*Lease[string], error) {
		return first(ready(q)(ctx, 1))
	},
	"union": func(ctx context.Context, q *Queue[string]) (*Lease[string], error) {
		u, err := NewUnion(q)
		if err != nil {
			return nil, err
		}
		return u.ReserveWait(ctx)
	},
	"try of a union": func(ctx context.Context, q *Queue[string]) (*Lease[string], error) {
		u, err := NewUnion(q)
		if err != nil {
			return nil, err
		}
		return first(ready(u)(ctx, 1))
	},
}

func first(leases []*Lease[string], err error) (*Lease[string], error) {
	if err == nil && len(leases) == 0 {
		err = errors.New("no job is ready")
	}
	if err != nil {
		return nil, err
	}
	return leases[0], nil
}

// What is due is ready in its priority, however much there is of it: jobs that are due, whose leases have run out, or whose
// key may start again; on stores with signals and without, also where a transaction does little.
func TestDueInOrder(t *testing.T) {
	for name, o := range map[string]kv.Limits{"own": {}, "shared": {Shared: true}, "few operations": {Operations: 128}} {
		for way, reserve := range reserveOne {
			t.Run(name+" "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := context.Background()
					db := kv.DB(memory.New(memory.Options{Limits: o}))
					if o.Shared {
						db = faulty.New(db, 1, faulty.Options{Limits: o})
					}
					defer db.Close()
					q := open(t, db, Options{Settings: &Settings{Lease: time.Minute}, Skew: time.Millisecond})
					defer q.Close()
					next := func(want string) {
						t.Helper()
						l, err := reserve(ctx, q)
						noError(t, err)
						if l.Value != want {
							t.Fatalf("got %q, want %q", l.Value, want)
						}
						noError(t, l.Ack(ctx))
					}
					const low = 300
					at := time.Now().Add(time.Minute)
					for i := range low {
						_, err := q.Put(ctx, "low", Job{Priority: 10, At: at})
						noError(t, err)
						if i == 0 {
							_, err = q.Put(ctx, "high", Job{Priority: -10, At: at.Add(time.Millisecond)})
							noError(t, err)
						}
					}
					time.Sleep(time.Minute + time.Second)
					next("high")
					next("low")

					for range low - 1 { // whose leases run out, and then that of one that is before them
						_, err := reserve(ctx, q)
						noError(t, err)
					}
					_, err := q.Put(ctx, "urgent", Job{Priority: -20})
					noError(t, err)
					_, err = reserve(ctx, q)
					noError(t, err)
					time.Sleep(2 * time.Minute)
					next("urgent")
				})
			})
		}
	}
}

// A job that is asked for by its id is found behind all that is due.
func TestReserveIDBehindDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		q := open(t, store(t), Options{Settings: &Settings{Lease: time.Minute}})
		var last ID
		for range 2500 {
			_, err := q.Put(ctx, "v")
			noError(t, err)
			l, err := q.ReserveWait(ctx)
			noError(t, err)
			last = l.ID
		}
		time.Sleep(2 * time.Minute)
		l, err := q.reserveID(ctx, last, ReserveOptions{})
		noError(t, err)
		if l.ID != last {
			t.Errorf("got job %d", l.ID)
		}
		_, err = q.reserveID(ctx, last, ReserveOptions{})
		isError(t, err, ErrState)
	})
}

// A reserve that finds nothing due reads nothing for that.
func TestNothingDueCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var ranges atomic.Int64
		q := open(t, &testkit.Hooked{DB: store(t), Attempt: func(tx kv.Tx) kv.Tx {
			return testkit.FaultyTx{Tx: tx, Hit: func() error { ranges.Add(1); return nil }}
		}}, Options{})
		for range 20 {
			_, err := q.Put(ctx, "v")
			noError(t, err)
		}
		_, err := q.ReserveWait(ctx)
		noError(t, err)
		before := ranges.Load()
		_, err = q.ReserveWait(ctx)
		noError(t, err)
		if n := ranges.Load() - before; n > 10 { // paused, the entry twice, header, payload; two entries, two counts, a header
			t.Errorf("%d keys were touched", n)
		}
	})
}

// getsTx counts reads of single keys.
type getsTx struct {
	kv.Tx
	n *atomic.Int64
}

func (tx getsTx) Get(key []byte) ([]byte, error) {
	tx.n.Add(1)
	return tx.Tx.Get(key)
}

// Where one process has the store, small jobs are put and done without reads of single keys, which the engine does not keep in memory: these would have all
// that was put before written to its tables.
func TestReadsByRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		var gets atomic.Int64
		q := open(t, &testkit.Hooked{DB: store(t), Attempt: func(tx kv.Tx) kv.Tx { return getsTx{tx, &gets} }}, Options{})
		for i := range 100 {
			if i == 2 {
				gets.Store(0) // of ids, and of the queue's entry
			}
			_, err := q.Put(ctx, "v")
			noError(t, err)
			l, err := q.ReserveWait(ctx)
			noError(t, err)
			noError(t, l.Extend(ctx, time.Hour))
			noError(t, l.Ack(ctx))
		}
		if n := gets.Load(); n > 3 { // of ids
			t.Errorf("%d reads of single keys", n)
		}
	})
}

// What a call asks for is in the transaction that leases: each caller gets its own terms, also where they share it.
func TestReserveOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		q := open(t, store(t), Options{Holder: "h"})
		done := make(chan error)
		for i := range 40 {
			go func() {
				o, n := ReserveOptions{Lease: time.Duration(i+1) * time.Hour, Holder: fmt.Sprint(i)}, i%3+1
				reserve := q.ReserveWaitN
				if i%2 > 0 {
					reserve = func(ctx context.Context, n int, o ...ReserveOptions) (leases []*Lease[string], err error) {
						for err = queue.ErrEmpty; errors.Is(err, queue.ErrEmpty); {
							leases, err = q.ReserveN(ctx, n, o...)
							time.Sleep(time.Millisecond)
						}
						return leases, err
					}
				}
				leases, err := reserve(ctx, n, o)
				for _, l := range leases {
					info, failed := q.Get(ctx, l.ID)
					if err = errors.Join(err, failed); failed == nil && (info.Holder != o.Holder || !info.Time.Equal(l.Deadline()) ||
						l.Deadline().Before(time.Now().Add(o.Lease-time.Second)) || l.Deadline().After(time.Now().Add(o.Lease))) {
						err = fmt.Errorf("%+v: the job is of %q until %v, by the lease until %v", o, info.Holder, info.Time, l.Deadline())
					}
				}
				done <- err
			}()
		}
		synctest.Wait()
		putMany(t, q, 120, func(int) Job { return Job{Lease: time.Minute} })
		for range 40 {
			noError(t, <-done)
		}
		l, err := q.ReserveWait(ctx) // without options it is the job's own
		noError(t, err)
		if d := time.Until(l.Deadline()); d != time.Minute {
			t.Errorf("a lease of %v", d)
		}
		_, err = ready(q)(ctx, 1, ReserveOptions{Lease: 1})
		isError(t, err, kv.ErrInvalid)
		_, err = q.ReserveWaitN(ctx, 1, ReserveOptions{Holder: "\xff"})
		isError(t, err, kv.ErrInvalid)
	})
}
