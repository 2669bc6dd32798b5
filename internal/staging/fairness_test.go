package staging

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// service notes when requests were written, and in which transaction, counted from
// 1 on, they were served.
type service struct {
	kv.DB
	mu      sync.Mutex
	calls   map[string]*call // by operation id
	batches int
}

// call is a call of Take.
type call struct {
	client            string
	began, registered time.Time // the transaction that wrote the request
	batch             int       // that served it
}

// client is the store as one client sees it.
type client struct {
	*service
	name string
}

func (c client) Transact(ctx context.Context, f func(kv.Tx) error) error {
	began := time.Now()
	var r *recorder
	err := c.DB.Transact(ctx, func(tx kv.Tx) error {
		r = &recorder{Tx: tx}
		return f(r)
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range ofKind(r.sets, requestKind, 4) {
		c.call(op).client, c.call(op).began, c.call(op).registered = c.name, began, time.Now()
	}
	served := ofKind(r.clears, requestKind, 4)
	if len(served) > 0 {
		c.batches++
	}
	for _, op := range served {
		c.call(op).batch = c.batches
	}
	return nil
}

// call returns the call of an operation id. Its request may be served before the
// one who wrote it knows that it is there.
func (s *service) call(op string) *call {
	if s.calls[op] == nil {
		s.calls[op] = new(call)
	}
	return s.calls[op]
}

// overtaken returns how often the call was overtaken that was so most often: by
// calls that registered after it had, and were served in an earlier transaction;
// and how often one other client was served meanwhile.
func (s *service) overtaken() (most, byOne int) {
	for _, a := range s.calls {
		n, by := 0, map[string]int{}
		for _, b := range s.calls {
			if !b.began.After(a.registered) {
				continue
			}
			if b.batch < a.batch {
				n++
			}
			if b.batch <= a.batch {
				by[b.client]++
				byOne = max(byOne, by[b.client])
			}
		}
		most = max(most, n)
	}
	return most, byOne
}

// TestFairness has 64 clients drain a queue from both ends, with batches for a
// quarter of them, while transactions take different times.
func TestFairness(t *testing.T) {
	const clients, items = 64, 1500
	testkit.Bubble(t, func(t *testing.T) {
		store := testkit.NewMemory(t, kv.Limits{})
		fill(t, store, items)
		s := &service{calls: map[string]*call{}, DB: faulty.New(store, 1, faulty.Options{
			Latency: 2 * time.Millisecond, CommitLatency: 3 * time.Millisecond, Delay: 0.2, MaxDelay: 5 * time.Millisecond,
		})}
		var wg sync.WaitGroup
		for c := range clients {
			mine := stage(client{s, strconv.Itoa(c)}, Options{Requests: clients / 4, Items: 20})
			wg.Go(func() {
				if _, err := takeAll(context.Background(), mine, Side(c%2), 1+c%3); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		most, byOne := s.overtaken()
		if len(s.calls) < items/3 || s.batches < len(s.calls)/16 {
			t.Fatalf("only %d calls were served, by %d transactions", len(s.calls), s.batches)
		}
		if most > 0 {
			t.Errorf("of %d calls one was overtaken %d times", len(s.calls), most)
		}
		if byOne > 2 {
			t.Errorf("while one client waited another one was served %d times", byOne)
		}
	})
}

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

// TestFewAreWokenUp checks that clients who wait cost little: with 300 of them and
// batches of 10, each client runs four transactions on average at most, and few
// conflict.
func TestFewAreWokenUp(t *testing.T) {
	const clients = 300
	testkit.Bubble(t, func(t *testing.T) {
		store := testkit.NewMemory(t, kv.Limits{})
		fill(t, store, clients)
		db := &counting{DB: faulty.New(store, 1, faulty.Options{Latency: 20 * time.Millisecond, CommitLatency: 30 * time.Millisecond})}
		var wg sync.WaitGroup
		take := func() {
			if _, err := Take(context.Background(), stage(db, Options{Requests: 10}), Front, 1, values); err != nil {
				t.Error(err)
			}
		}
		take() // and serves the others
		for range clients - 1 {
			wg.Go(take)
		}
		wg.Wait()
		// Register, look and watch, collect; and every 250 ms look whether somebody is
		// still at it, which takes 1.5 s here.
		transactions, attempts := db.transactions.Load(), db.attempts.Load()
		if transactions > 9*clients || attempts > transactions+clients/10 {
			t.Errorf("%d clients ran %d transactions, and %d attempts", clients, transactions, attempts)
		}
	})
}
