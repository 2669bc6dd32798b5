package handle_test

import (
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/tuple"
)

// Items that a consumer was given by staging and never collected come back to
// those who do not stage, too.
func TestExpireWithoutStaging(t *testing.T) {
	for _, mode := range []conq.Staging{conq.StagingAuto, conq.StagingNever} {
		testkit.Bubble(t, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{Shared: true})
			staged := newQueue(t, db, conq.String(), conq.Options{Staging: conq.StagingAlways})
			plain := newQueue(t, db, conq.String(), conq.Options{Staging: mode})
			testkit.NoError(t, staged.EnqueueAll(t.Context(), []string{"a", "b", "c"}))
			// A consumer has been given the first item, and dies.
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return testkit.Abandon(tx, testkit.Laid("q")) }))
			wantOne(t, "first, while the result is kept for its owner", plain.Dequeue, "b")
			pass(time.Minute)
			wantItems(t, "rest", plain.DequeueN, 3, "a", "c")
			testkit.Equal(t, "keys left", len(left(t, db)), 0)
		})
	}
}

// Who takes only within transactions of his own has items put back by Reclaim.
func TestReclaim(t *testing.T) {
	for _, end := range allEnds {
		testkit.Bubble(t, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{Shared: true})
			var log strings.Builder
			var put []conq.Event
			v := end.open(t, db, conq.Options{
				Staging: conq.StagingAlways, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Observe: func(e conq.Event) {
					if e.Kind == conq.Expired {
						put = append(put, e)
					}
				},
			})
			testkit.NoError(t, v.add(t.Context(), "a"))
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return testkit.Abandon(tx, v.laid) }))
			for _, want := range []int{0, 1} {
				testkit.NoError(t, v.reclaim(t.Context()))
				wantLen(t, "items in the queue", v.len, want)
				testkit.Equal(t, "said to be put back", len(put), want)
				testkit.Equal(t, "lines of the log", strings.Count(log.String(), "never collected"), want)
				pass(time.Minute)
			}
			testkit.Equal(t, "put back", put[0], conq.Event{Queue: v.laid.Name, Kind: conq.Expired, Calls: 1, Items: 1})
			testkit.NoError(t, drop(v.take(t.Context(), 1)))
			testkit.Equal(t, "lines of the log after an item was staged and collected", strings.Count(log.String(), "\n"), 1)
			testkit.NoError(t, v.close())
			testkit.WantError(t, v.reclaim(t.Context()), conq.ErrClosed, v.laid.Name)
		})
	}
}

// The requests of consumers that died go when their deadlines have passed, where nobody stages too:
// while one is there, who enqueues and who waits has more to do.
func TestDeadRequestsGo(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{Shared: true})
		const dead = 40
		for i := range dead + 1 {
			deadline := time.Now().Add(10 * time.Second)
			if i == dead {
				deadline = deadline.Add(time.Hour)
			}
			request, err := tuple.Tuple{1, i, 0, make([]byte, 16)}.Append(layout.Stage("q").Bytes())
			testkit.NoError(t, err)
			state, err := tuple.Tuple{1, deadline.UnixNano()}.Pack()
			testkit.NoError(t, err)
			testkit.Write(t, db, kv.KeyValue{Key: request, Value: state})
		}
		q := newQueue(t, db, conq.String(), conq.Options{Staging: conq.StagingNever})
		for _, want := range []int{dead + 1, 1} {
			_, err := q.Dequeue(t.Context())
			testkit.WantError(t, err, conq.ErrEmpty)
			report, err := conq.Check(t.Context(), db)
			testkit.NoError(t, err)
			testkit.Equal(t, "requests", report.Requests, want)
			pass(time.Minute)
		}
	})
}

// Those who wait get what a dead consumer left, although nobody enqueues.
func TestWaitForExpired(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{Shared: true})
		q := newQueue(t, db, conq.String())
		testkit.NoError(t, q.Enqueue(t.Context(), "a"))
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return testkit.Abandon(tx, testkit.Laid("q")) }))
		wantOne(t, "item", q.DequeueWait, "a")
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
			t.Run(end.name+" "+o.name, func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) {
					process, close := stores["shared"](t)
					defer close()
					expiryKeepsOrder(t, process, end.open, o)
				})
			})
		}
	}
}

func expiryKeepsOrder(t *testing.T, process func() kv.DB, open func(testkit.TB, kv.DB, conq.Options) endVerbs, o orders) {
	staging := open(t, process(), conq.Options{Staging: conq.StagingAlways})
	db := process()
	v := open(t, db, conq.Options{Staging: conq.StagingNever})
	for _, item := range strings.Split("123456", "") {
		testkit.NoError(t, v.add(t.Context(), item))
	}
	kept, err := v.take(t.Context(), len(o.kept))
	testkit.NoError(t, err)
	testkit.Equal(t, "taken", strings.Join(kept, ""), o.kept)
	n := 0
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		return testkit.AbandonThose(tx, v.laid, func(yield func(kv.KeyValue, error) bool) {
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
		testkit.NoError(t, v.reclaim(t.Context()))
		wantLen(t, "items that are back", v.len, 2)
	}
	testkit.NoError(t, v.all(t.Context(), conq.Prioritized[string]{Value: "7", Priority: 7}, conq.Prioritized[string]{Value: "8", Priority: 7}, conq.Prioritized[string]{Value: "9", Priority: 7}))
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { return v.in(tx, "a") }))
	testkit.NoError(t, staging.add(t.Context(), "b"))
	pass(time.Minute)
	want := "123456789ab"[len(o.kept):]
	var got string
	for got != want {
		values, err := v.take(t.Context(), 1)
		testkit.NoError(t, err)
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
		testkit.Bubble(t, func(t *testing.T) {
			c := testkit.NewCluster(t, 1, faulty.Options{})
			defer c.Close()
			db, attempts := testkit.Counted(c.Process())
			producer, other := end.open(t, db, conq.Options{}), end.open(t, c.Process(), conq.Options{Staging: conq.StagingAlways})
			testkit.NoError(t, other.add(t.Context(), "1"))
			testkit.NoError(t, c.Inner.Transact(t.Context(), func(tx kv.Tx) error { return testkit.Abandon(tx, other.laid) }))
			pass(11 * time.Second)
			attempts.Store(0)
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				testkit.NoError(t, producer.in(tx, "3"))
				testkit.NoError(t, other.add(t.Context(), "2"))
				_, err := other.take(t.Context(), 1) // puts it back first
				testkit.NoError(t, err)
				return nil
			}))
			testkit.Equal(t, "attempts", attempts.Load(), 1)
		})
	}
}

// An item has the recipe's index unless one of its own priority is staged that
// would come behind it.
func TestStagedItemsOfOthers(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := testkit.NewCluster(t, 1, faulty.Options{})
		defer c.Close()
		p := newPriorityQueue(t, c.Process(), conq.String())
		count := func(priority int64, v string) (n int64) {
			for _, item := range testkit.In(t, c.Inner, testkit.Laid("p").Items) {
				elems, err := tuple.Unpack(testkit.Laid("p").Fields(item.Key))
				testkit.NoError(t, err)
				if elems[0] == priority && string(item.Value) == v {
					n = elems[1].(int64)
				}
			}
			return n
		}
		push := func(priority int64, values ...string) {
			var all []conq.Prioritized[string]
			for _, v := range values {
				all = append(all, conq.Prioritized[string]{Value: v, Priority: priority})
			}
			testkit.NoError(t, p.PushAll(t.Context(), all))
		}
		push(7, "a", "b", "c")
		testkit.NoError(t, c.Inner.Transact(t.Context(), func(tx kv.Tx) error {
			return testkit.AbandonThose(tx, testkit.Laid("p"), tx.Range(testkit.Laid("p").Items, kv.RangeOptions{Limit: 3}))
		}))
		testkit.NoError(t, p.PushAll(t.Context(), []conq.Prioritized[string]{{Value: "x", Priority: 6}, {Value: "d", Priority: 7}, {Value: "y", Priority: -300}, {Value: "e", Priority: 7}, {Value: "z", Priority: 8}}))
		push(6, "x2")
		testkit.Equal(t, "count of d", count(7, "d"), 3)
		testkit.Equal(t, "count of e", count(7, "e"), 4)
		for _, other := range []int64{6, -300, 8} {
			testkit.Equal(t, "count of another priority's first", count(other, map[int64]string{6: "x", -300: "y", 8: "z"}[other]), 0)
		}
		testkit.Equal(t, "count of another priority's second", count(6, "x2"), 1)
	})
}
