package queues

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// crowd is a queue and a priority queue on an engine that takes little in a transaction.
type crowd struct {
	*testing.T
	ctx   context.Context
	db    kv.DB
	queue *conq.Queue[string]
	prio  *conq.PriorityQueue[string]
	n     int
	large string
}

// together calls f n times at the same time.
func (c *crowd) together(f func(i int) error) {
	c.Helper()
	failed := make(chan error, c.n)
	for i := range c.n {
		go func() { failed <- f(i) }()
	}
	for range c.n {
		testkit.Check(c, <-failed)
	}
}

func (c *crowd) fill() {
	c.together(func(i int) error {
		v := fmt.Sprint("v", i)
		if i%40 == 0 {
			v = c.large
		}
		return errors.Join(c.queue.Enqueue(c.ctx, v), c.prio.Push(c.ctx, v, int64(i%7)))
	})
}

// drain takes all, as many as come at a time.
func (c *crowd) drain(take func(n int) (int, error)) {
	c.Helper()
	c.fill()
	for total := 0; total < c.n; {
		n, err := take(c.n)
		if total += n; err != nil || n == 0 {
			c.Fatalf("%d of %d items, then %d, %v", total, c.n, n, err)
		}
	}
}

func lenOf[T any](all []T, err error) (int, error) { return len(all), err }

func errOf[T any](_ T, err error) error { return err }

// verbsOfQueue and verbsOfPriorityQueue have the methods by name. nil is one that only reads, or is tried with another one.
var verbsOfQueue = map[string]func(*crowd){
	"Enqueue": (*crowd).fill,
	"EnqueueAll": func(c *crowd) { // promises one transaction
		testkit.NoError(c, c.queue.EnqueueAll(c.ctx, make([]string, 20)))
		if c.db.Limits().Operations > 0 {
			testkit.WantError(c, c.queue.EnqueueAll(c.ctx, make([]string, 1000)), kv.ErrTooLarge)
		}
	},
	"Dequeue":      func(c *crowd) { c.fill(); c.together(func(int) error { return errOf(c.queue.Dequeue(c.ctx)) }) },
	"DequeueWait":  func(c *crowd) { c.fill(); c.together(func(int) error { return errOf(c.queue.DequeueWait(c.ctx)) }) },
	"DequeueN":     func(c *crowd) { c.drain(func(n int) (int, error) { return lenOf(c.queue.DequeueN(c.ctx, n)) }) },
	"DequeueWaitN": func(c *crowd) { c.drain(func(n int) (int, error) { return lenOf(c.queue.DequeueWaitN(c.ctx, n)) }) },
	"Clear":        func(c *crowd) { c.fill(); testkit.NoError(c, c.queue.Clear(c.ctx)) },
	"Reclaim":      func(c *crowd) { c.fill(); testkit.NoError(c, c.queue.Reclaim(c.ctx)) },
	"In": func(c *crowd) { // moves, which the caller's transaction has to have room for
		c.drain(func(n int) (moved int, _ error) {
			return moved, c.db.Transact(c.ctx, func(tx kv.Tx) error {
				values, err := c.queue.In(tx).DequeueN(n)
				if moved = len(values); err != nil {
					return err
				}
				pushed := make([]conq.Prioritized[string], len(values))
				for i, v := range values {
					pushed[i].Value = v
				}
				return c.prio.In(tx).PushAll(pushed)
			})
		})
	},
	"All": nil, "Close": nil, "Len": nil, "Name": nil, "Page": nil, "Peek": nil,
}

var verbsOfPriorityQueue = map[string]func(*crowd){
	"Push": nil, // as Enqueue
	"PushAll": func(c *crowd) {
		if c.db.Limits().Operations > 0 {
			testkit.WantError(c, c.prio.PushAll(c.ctx, make([]conq.Prioritized[string], 1000)), kv.ErrTooLarge)
		}
	},
	"PopMin": func(c *crowd) { c.fill(); c.together(func(int) error { return errOf(c.prio.PopMin(c.ctx)) }) },
	"PopMax": func(c *crowd) { c.fill(); c.together(func(int) error { return errOf(c.prio.PopMax(c.ctx)) }) },
	"Pop":    func(c *crowd) { c.fill(); c.together(func(int) error { return errOf(c.prio.Pop(c.ctx, conq.Max)) }) },
	"PopWait": func(c *crowd) {
		c.fill()
		c.together(func(i int) error { return errOf(c.prio.PopWait(c.ctx, conq.End(i%2))) })
	},
	"PopN":     func(c *crowd) { c.drainBoth(c.prio.PopN) },
	"PopWaitN": func(c *crowd) { c.drainBoth(c.prio.PopWaitN) },
	"Clear":    func(c *crowd) { c.fill(); testkit.NoError(c, c.prio.Clear(c.ctx)) },
	"Reclaim":  func(c *crowd) { c.fill(); testkit.NoError(c, c.prio.Reclaim(c.ctx)) },
	"All":      nil, "Close": nil, "In": nil, "Len": nil, "Name": nil, "Page": nil, "Peek": nil,
}

// drainBoth drains from either end in turn.
func (c *crowd) drainBoth(popN func(context.Context, conq.End, int) ([]conq.Prioritized[string], error)) {
	for _, from := range []conq.End{conq.Min, conq.Max} {
		c.drain(func(n int) (int, error) { return lenOf(popN(c.ctx, from, n)) })
	}
}

// No verb fails as it is over the limits of an engine, but where one transaction is promised: it does less in a transaction,
// and goes on in the next one. A new verb needs a case.
func TestNoneTooLarge(t *testing.T) {
	for of, cases := range map[reflect.Type]map[string]func(*crowd){
		reflect.TypeFor[*conq.Queue[string]](): verbsOfQueue, reflect.TypeFor[*conq.PriorityQueue[string]](): verbsOfPriorityQueue,
	} {
		for i := range of.NumMethod() {
			if _, ok := cases[of.Method(i).Name]; !ok {
				t.Errorf("%v.%s has no case", of, of.Method(i).Name)
			}
		}
		for _, limits := range []kv.Limits{
			{Key: 4096, Value: 512 << 10, Transaction: 1280 << 10, Operations: 128}, {Key: 10_000, Value: 3000, Transaction: 40_000, Operations: 64},
			{Key: 10_000, Value: 3000, Transaction: 40_000},
		} {
			for _, shared := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d operations/shared=%v", of, limits.Operations, shared), func(t *testing.T) {
					t.Parallel()
					for name, verb := range cases {
						if verb != nil {
							t.Run(name, func(t *testing.T) { verb(newCrowd(t, limits, shared)) })
						}
					}
				})
			}
		}
	}
}

func newCrowd(t *testing.T, limits kv.Limits, shared bool) *crowd {
	c := &crowd{T: t, ctx: t.Context(), db: testkit.NewMemory(t, limits), n: 150, large: strings.Repeat("x", budget.MaxPayload(limits))}
	if shared {
		c.db = faulty.New(c.db, 1, faulty.Options{Limits: kv.Limits{Shared: true, UnknownCommits: true}})
	}
	var err error
	c.queue, err = conq.OpenQueue(t.Context(), c.db, "q", conq.String())
	testkit.NoError(t, err)
	c.prio, err = conq.OpenPriorityQueue(t.Context(), c.db, "p", conq.String())
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.NoError(t, errors.Join(c.queue.Close(), c.prio.Close())) })
	return c
}
