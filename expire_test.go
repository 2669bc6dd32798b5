package conq

import (
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/tuple"
)

// Items that a consumer was given by staging and never collected come back to
// those who do not stage, too.
func TestExpireWithoutStaging(t *testing.T) {
	for _, mode := range []Staging{StagingAuto, StagingNever} {
		synctest.Test(t, func(t *testing.T) {
			db := newMemory(t, kv.Limits{})
			staged, err := OpenQueue(db, "q", String(), Options{Staging: StagingAlways})
			noError(t, err)
			plain, err := OpenQueue(db, "q", String(), Options{Staging: mode})
			noError(t, err)
			noError(t, staged.EnqueueAll(t.Context(), []string{"a", "b", "c"}))
			// A consumer has been given the first item, and dies.
			noError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return abandon(tx, laid("q")) }))
			first, err := plain.Dequeue(t.Context())
			noError(t, err)
			equal(t, "first, while the result is kept for its owner", first, "b")
			pass(time.Minute)
			rest, err := plain.DequeueN(t.Context(), 3)
			noError(t, err)
			equalSlices(t, "rest", rest, []string{"a", "c"})
			equal(t, "keys left", len(stored(t, db)), 0)
		})
	}
}

// Who takes only within transactions of his own has items put back by Reclaim.
func TestReclaim(t *testing.T) {
	for _, end := range allEnds {
		synctest.Test(t, func(t *testing.T) {
			db := newMemory(t, kv.Limits{})
			var log strings.Builder
			var put []Event
			v := end.open(t, db, Options{
				Staging: StagingAlways, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Observe: func(e Event) {
					if e.Kind == Expired {
						put = append(put, e)
					}
				},
			})
			noError(t, v.add(t.Context(), "a"))
			noError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return abandon(tx, v.laid) }))
			for _, want := range []int{0, 1} {
				noError(t, v.reclaim(t.Context()))
				n, err := v.len(t.Context())
				noError(t, err)
				equal(t, "items in the queue", n, want)
				equal(t, "said to be put back", len(put), want)
				equal(t, "lines of the log", strings.Count(log.String(), "never collected"), want)
				pass(time.Minute)
			}
			equal(t, "put back", put[0], Event{Queue: v.laid.Name, Kind: Expired, Calls: 1, Items: 1})
			noError(t, drop(v.take(t.Context(), 1)))
			equal(t, "lines of the log after an item was staged and collected", strings.Count(log.String(), "\n"), 1)
			noError(t, v.close())
			wantError(t, v.reclaim(t.Context()), ErrClosed, v.laid.Name)
		})
	}
}

// A deadline whose result is not there goes, too.
func TestDueWithoutResult(t *testing.T) {
	db := newMemory(t, kv.Limits{})
	due, err := tuple.Tuple{0, time.Now().Add(-time.Minute).UnixNano(), make([]byte, 16)}.Append(layout.Stage("q").Bytes())
	noError(t, err)
	write(t, db, kv.KeyValue{Key: due})
	q, err := OpenQueue(db, "q", String(), Options{Staging: StagingAlways})
	noError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	noError(t, q.Reclaim(ctx))
	equal(t, "keys left", len(stored(t, db)), 0)
}

// The requests of consumers that died go when their deadlines have passed, where nobody stages too:
// while one is there, who enqueues and who waits has more to do.
func TestDeadRequestsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newMemory(t, kv.Limits{})
		const dead = 40
		for i := range dead + 1 {
			deadline := time.Now().Add(10 * time.Second)
			if i == dead {
				deadline = deadline.Add(time.Hour)
			}
			request, err := tuple.Tuple{1, i, 0, make([]byte, 16)}.Append(layout.Stage("q").Bytes())
			noError(t, err)
			state, err := tuple.Tuple{1, deadline.UnixNano()}.Pack()
			noError(t, err)
			write(t, db, kv.KeyValue{Key: request, Value: state})
		}
		q, err := OpenQueue(db, "q", String())
		noError(t, err)
		for _, want := range []int{dead + 1, 1} {
			_, err := q.Dequeue(t.Context())
			wantError(t, err, ErrEmpty)
			report, err := Check(t.Context(), db)
			noError(t, err)
			equal(t, "requests", report.Requests, want)
			pass(time.Minute)
		}
	})
}

// abandon makes the first item of a queue the result of a staged request that
// nobody collects, as docs/format.md describes it.
func abandon(tx kv.Tx, q *layout.Queue) error {
	return abandonThose(tx, q, tx.Range(q.Items, kv.RangeOptions{Limit: 1}))
}

// abandonThose does so with items that it is given, each with its own request.
func abandonThose(tx kv.Tx, q *layout.Queue, items iter.Seq2[kv.KeyValue, error]) error {
	for item, err := range items {
		if err != nil {
			return err
		}
		deadline, op := time.Now().Add(10*time.Second).UnixNano(), make([]byte, 16)
		rand.Read(op)
		key := func(elems ...any) []byte {
			key, err := tuple.Tuple(elems).Append(layout.Stage(q.Name).Bytes())
			if err != nil {
				panic(err)
			}
			return key
		}
		state, err := tuple.Tuple{1, deadline}.Pack()
		if err != nil {
			return err
		}
		tx.Clear(item.Key)
		tx.Set(key(0, deadline, op), nil)
		tx.Set(key(2, op), state)
		tx.Set(key(2, op, 0, item.Key), item.Value)
		elems, err := tuple.Unpack(q.Fields(item.Key))
		if err != nil {
			return err
		}
		tx.Set(key(append(append(tuple.Tuple{3}, elems[:q.Integers]...), op)...), nil)
	}
	return nil
}

// Those who wait get what a dead consumer left, although nobody enqueues.
func TestWaitForExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := newMemory(t, kv.Limits{})
		_, err := OpenQueue(db, "q", String(), Options{Staging: StagingAlways})
		noError(t, err)
		q, err := OpenQueue(db, "q", String())
		noError(t, err)
		noError(t, q.Enqueue(t.Context(), "a"))
		noError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return abandon(tx, laid("q")) }))
		v, err := q.DequeueWait(t.Context())
		noError(t, err)
		equal(t, "item", v, "a")
	})
}

// orders is how items are taken from a queue in the tests of order, and of which
// of them a consumer dies.
type orders struct {
	name    string
	kept    string // taken before, for good: as many as there are letters
	died    func(*layout.Queue, kv.Reader) iter.Seq2[kv.KeyValue, error]
	between bool // look into the queue when the first of those that died has gone back
}

// What is added while items of dead consumers are staged comes behind them when
// they are put back, in the queue or its priority, whether there are others or not.
func TestExpiryKeepsOrder(t *testing.T) {
	front := func(n int) func(*layout.Queue, kv.Reader) iter.Seq2[kv.KeyValue, error] {
		return func(q *layout.Queue, r kv.Reader) iter.Seq2[kv.KeyValue, error] {
			return r.Range(q.Items, kv.RangeOptions{Limit: n})
		}
	}
	back := func(n int) func(*layout.Queue, kv.Reader) iter.Seq2[kv.KeyValue, error] {
		return func(q *layout.Queue, r kv.Reader) iter.Seq2[kv.KeyValue, error] {
			return r.Range(q.Items, kv.RangeOptions{Limit: n, Reverse: true})
		}
	}
	for _, end := range allEnds {
		for _, o := range []orders{
			{"the only one", "12345", front(1), false},
			{"all that are left", "123", front(3), false},
			{"one after the other", "12", front(4), true},
			{"the last ones, while others are there", "1", back(3), false},
		} {
			for _, store := range []string{"in memory", "shared"} {
				t.Run(end.name+" "+o.name+" "+store, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						process, close := stores[store](t)
						defer close()
						expiryKeepsOrder(t, process, end.open, o)
					})
				})
			}
		}
	}
}

func expiryKeepsOrder(t *testing.T, process func() kv.DB, open func(tb, kv.DB, Options) endVerbs, o orders) {
	staging := open(t, process(), Options{Staging: StagingAlways})
	db := process()
	v := open(t, db, Options{Staging: StagingNever})
	for _, item := range strings.Split("123456", "") {
		noError(t, v.add(t.Context(), item))
	}
	kept, err := v.take(t.Context(), len(o.kept))
	noError(t, err)
	equal(t, "taken", strings.Join(kept, ""), o.kept)
	n := 0
	noError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		return abandonThose(tx, v.laid, func(yield func(kv.KeyValue, error) bool) {
			for item, err := range o.died(v.laid, tx) {
				if n++; !yield(item, err) {
					return
				}
				if o.between {
					pass(time.Second) // each has its own deadline
				}
			}
		})
	}))
	if o.between {
		pass(7*time.Second + time.Second/2) // two of them have to go back
		noError(t, v.reclaim(t.Context()))
		n, err := v.len(t.Context())
		noError(t, err)
		equal(t, "items that are back", n, 2)
	}
	noError(t, v.all(t.Context(), Prioritized[string]{"7", 7}, Prioritized[string]{"8", 7}, Prioritized[string]{"9", 7}))
	noError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return v.in(tx, "a") }))
	noError(t, staging.add(t.Context(), "b"))
	pass(time.Minute)
	want := "123456789ab"[len(o.kept):]
	var got string
	for got != want {
		values, err := v.take(t.Context(), 1)
		noError(t, err)
		if got += values[0]; !strings.HasPrefix(want, got) {
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if n == 0 {
		t.Error("nobody has died")
	}
}

// Where items are staged, producers still conflict with nothing: neither with each
// other nor with who stages, collects, or puts back.
func TestStagedItemsNoConflicts(t *testing.T) {
	for _, end := range allEnds {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 1, faulty.Options{})
			defer c.close()
			db, attempts := counted(c.process())
			producer, other := end.open(t, db, Options{}), end.open(t, c.process(), Options{Staging: StagingAlways})
			noError(t, other.add(t.Context(), "1"))
			attempts.Store(0)
			noError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				noError(t, producer.in(tx, "3"))
				noError(t, other.add(t.Context(), "2"))
				noError(t, c.inner.Transact(t.Context(), func(tx kv.Tx) error { return abandon(tx, other.laid) }))
				pass(11 * time.Second)
				_, err := other.take(t.Context(), 1) // puts it back first
				noError(t, err)
				return nil
			}))
			equal(t, "attempts", attempts.Load(), 1)
		})
	}
}

// An item has the recipe's index unless one of its own priority is staged that
// would come behind it.
func TestStagedItemsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 1, faulty.Options{})
		defer c.close()
		p, err := OpenPriorityQueue(c.process(), "p", String())
		noError(t, err)
		count := func(priority int64, v string) (n int64) {
			noError(t, c.inner.ReadTransact(t.Context(), func(r kv.Reader) error {
				for item, err := range r.Range(laid("p").Items, kv.RangeOptions{}) {
					noError(t, err)
					elems, err := tuple.Unpack(laid("p").Fields(item.Key))
					noError(t, err)
					if elems[0] == priority && string(item.Value) == v {
						n = elems[1].(int64)
					}
				}
				return nil
			}))
			return n
		}
		push := func(priority int64, values ...string) {
			var all []Prioritized[string]
			for _, v := range values {
				all = append(all, Prioritized[string]{v, priority})
			}
			noError(t, p.PushAll(t.Context(), all))
		}
		push(7, "a", "b", "c")
		noError(t, c.inner.Transact(t.Context(), func(tx kv.Tx) error {
			return abandonThose(tx, laid("p"), tx.Range(laid("p").Items, kv.RangeOptions{Limit: 3}))
		}))
		noError(t, p.PushAll(t.Context(), []Prioritized[string]{{"x", 6}, {"d", 7}, {"y", -300}, {"e", 7}, {"z", 8}}))
		push(6, "x2")
		equal(t, "count of d", count(7, "d"), 3)
		equal(t, "count of e", count(7, "e"), 4)
		for _, other := range []int64{6, -300, 8} {
			equal(t, "count of another priority's first", count(other, map[int64]string{6: "x", -300: "y", 8: "z"}[other]), 0)
		}
		equal(t, "count of another priority's second", count(6, "x2"), 1)
	})
}

// Who waits while something is staged, as what somebody has left who died, looks once a second, however
// many wait and whatever came before.
func TestWaitWhileStaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		db := &hooked{DB: newMemory(t, kv.Limits{}), reader: func(r kv.Reader) kv.Reader { looks.Add(1); return r }}
		request, err := tuple.Tuple{1, 1, 0, make([]byte, 16)}.Append(layout.Stage("q").Bytes())
		noError(t, err)
		state, err := tuple.Tuple{1, time.Now().Add(time.Hour).UnixNano()}.Pack()
		noError(t, err)
		write(t, db, kv.KeyValue{Key: request, Value: state})
		const handles, items, seconds = 20, 50, 100
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var waiting sync.WaitGroup
		for range handles {
			q, err := OpenQueue(db, "q", String())
			noError(t, err)
			waiting.Go(func() {
				for ctx.Err() == nil {
					_, _ = q.DequeueWait(ctx)
				}
			})
		}
		q, err := OpenQueue(db, "q", String())
		noError(t, err)
		for range items {
			noError(t, q.Enqueue(t.Context(), "item"))
			pass(7 * time.Millisecond)
		}
		looks.Store(0)
		pass(seconds * time.Second)
		if n := looks.Load(); n > 3*handles*seconds {
			t.Errorf("%d looks in %d s by %d who wait for an empty queue", n, seconds, handles)
		}
		cancel()
		waiting.Wait()
	})
}
