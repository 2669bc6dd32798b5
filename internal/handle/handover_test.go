package handle_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/memory"
)

// localStores are those that one process has for itself.
var localStores = map[string]func(testkit.TB) kv.DB{
	"memory": func(testkit.TB) kv.DB { return memory.New(memory.Options{}) },
	"embedded": func(t testkit.TB) kv.DB {
		db, err := embedded.Open(context.Background(), "db", embedded.Options{FS: vfs.NewMem(), MemTable: 1 << 20, Cache: 1 << 20})
		testkit.NoError(t, err)
		return db
	},
}

// writes is a store that counts what is set in it, and may do something, once, when an attempt
// of a transaction begins, has come to depend on a range, or writes.
type writes struct {
	kv.DB
	attempts, sets          atomic.Int64
	begins, depends, writes func()
	fails                   error // of each commit, after it was rolled back
}

func once(f *func()) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
}

func (w *writes) Signals() *kvext.Signals { return kvext.SignalsOf(w.DB) }

func (w *writes) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return w.DB.Transact(ctx, func(tx kv.Tx) error {
		w.attempts.Add(1)
		once(&w.begins)
		return errors.Join(f(writesTx{tx, w}), w.fails)
	})
}

type writesTx struct {
	kv.Tx
	w *writes
}

func (tx writesTx) Set(key, value []byte) {
	tx.w.sets.Add(1)
	once(&tx.w.writes)
	tx.Tx.Set(key, value)
}

func (tx writesTx) AddReadConflict(r kv.Range) {
	tx.Tx.AddReadConflict(r)
	once(&tx.w.depends)
}

// onLocal runs a test in a bubble for each store that one process has for itself.
func onLocal(t *testing.T, test func(t *testing.T, db *writes)) {
	for name, open := range localStores {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				db := &writes{DB: open(t)}
				defer func() { testkit.NoError(t, db.Close()) }()
				test(t, db)
			})
		})
	}
}

var prioritizedItems = []conq.Prioritized[string]{{Value: "a", Priority: 2}, {Value: "b", Priority: 1}, {Value: "c", Priority: 1}, {Value: "d", Priority: 3}, {Value: "e", Priority: 3}}

// endOrder is an end of a queue, and in which order prioritizedItems are taken there.
type endOrder struct {
	name  string
	order string
	open  func(testkit.TB, kv.DB, conq.Options) endVerbs
}

var (
	// fifoOrders are the ends where of two equal items the first comes first.
	fifoOrders = []endOrder{{"Dequeue", "abcde", allEnds[0].open}, {"PopMin", "bcade", allEnds[1].open}, {"PopMax, FIFOTies", "deabc", allEnds[2].open}}

	endOrders = append([]endOrder{
		{"PopMax", "edacb", func(t testkit.TB, db kv.DB, o conq.Options) endVerbs { return openPriority(t, db, o, false) }},
	}, fifoOrders...)
)

// onEnds is onLocal for each of some ends.
func onEnds(t *testing.T, ends []endOrder, test func(t *testing.T, db *writes, end endOrder)) {
	for _, end := range ends {
		t.Run(end.name, func(t *testing.T) {
			onLocal(t, func(t *testing.T, db *writes) { test(t, db, end) })
		})
	}
}

// What is added together goes to those who wait in the order in which it would be taken, and
// the rest is in the queue. What goes to somebody is not written.
func TestHandOver(t *testing.T) {
	onEnds(t, endOrders, func(t *testing.T, db *writes, end endOrder) {
		var events [conq.Taken + 1]atomic.Int64
		v := end.open(t, db, conq.Options{Observe: func(e conq.Event) {
			if e.Kind <= conq.Taken {
				events[e.Kind].Add(int64(e.Items))
			}
		}})
		waiters := []*taken{}
		for _, n := range []int{1, 2, 1} {
			waiters = append(waiters, startWaiter(t.Context(), v, n))
		}
		db.sets.Store(0)
		testkit.NoError(t, v.all(t.Context(), prioritizedItems...))
		synctest.Wait()
		var got []string
		for i, w := range waiters {
			testkit.NoError(t, w.err)
			testkit.Equal(t, fmt.Sprint("items of waiter ", i), len(w.values), []int{1, 2, 1}[i])
			got = append(got, w.values...)
		}
		testkit.Equal(t, "order", strings.Join(got, ""), end.order[:4])
		testkit.Equal(t, "written", db.sets.Load(), 1)
		testkit.Equal(t, "added", events[conq.Added].Load(), 5)
		testkit.Equal(t, "taken", events[conq.Taken].Load(), 4)
		wantItems(t, "left", v.take, 9, end.order[4:])

		alone := startWaiter(t.Context(), v, 3)
		testkit.NoError(t, v.add(t.Context(), "alone"))
		synctest.Wait()
		testkit.EqualSlices(t, "got", alone.values, []string{"alone"})
		testkit.Equal(t, "written", db.sets.Load(), 1)
		testkit.Equal(t, "stored pairs", len(testkit.Stored(t, db)), 0)

		again := startWaiter(t.Context(), v, 1)
		testkit.NoError(t, v.add(t.Context(), "again"))
		synctest.Wait()
		testkit.EqualSlices(t, "got", again.values, []string{"again"})

		before := db.attempts.Load()
		ctx, cancel := context.WithCancel(t.Context())
		startWaiter(ctx, v, 1)
		testkit.Equal(t, "looks at a queue without news", db.attempts.Load()-before, 0)
		cancel()
		synctest.Wait()
	})
}

// What is left of several items goes into the queue in its order.
func TestHandOverLeft(t *testing.T) {
	for _, o := range []conq.Options{{}, {NoCombining: true}} {
		for wanted := range len(prioritizedItems) {
			onEnds(t, endOrders, func(t *testing.T, db *writes, end endOrder) {
				v := end.open(t, db, o)
				waiter := startWaiter(t.Context(), v, 1+wanted)
				testkit.NoError(t, v.all(t.Context(), prioritizedItems...))
				synctest.Wait()
				testkit.Equal(t, "handed over", len(waiter.values), 1+wanted)
				left, err := v.take(t.Context(), 9)
				if 1+wanted < len(prioritizedItems) {
					testkit.NoError(t, err)
				} else {
					testkit.WantError(t, err, conq.ErrEmpty)
				}
				testkit.Equal(t, "order", strings.Join(append(waiter.values, left...), ""), end.order)
			})
		}
	}
}

// Items are not handed to some where others may have come before them, or look for them
// otherwise.
func TestHandOverToOthers(t *testing.T) {
	for name, othersWait := range map[string]func(t *testing.T, db kv.DB, p *conq.PriorityQueue[string]){
		"on another handle": func(t *testing.T, db kv.DB, _ *conq.PriorityQueue[string]) {
			startWaiter(t.Context(), openPriority(t, db, conq.Options{}, true), 1)
		},
		"at the other end": func(t *testing.T, _ kv.DB, p *conq.PriorityQueue[string]) {
			startWaiter(t.Context(), endVerbs{wait: valuesOf(p.PopWaitN, conq.Max)}, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			onLocal(t, func(t *testing.T, db *writes) {
				p := newPriorityQueue(t, db, conq.String())
				startWaiter(t.Context(), endVerbs{wait: valuesOf(p.PopWaitN, conq.Min)}, 1)
				othersWait(t, db, p)
				before := db.sets.Load()
				testkit.NoError(t, p.Push(t.Context(), "first", 1))
				synctest.Wait()
				if db.sets.Load() == before {
					t.Error("the item was not written")
				}
				testkit.NoError(t, p.Push(t.Context(), "second", 1))
				synctest.Wait()
				wantLen(t, "items that nobody has got", p.Len, 0)
			})
		})
	}
}

// Who has added to the queue before what is handed over would commit is first.
func TestHandOverConflict(t *testing.T) {
	onEnds(t, fifoOrders, func(t *testing.T, db *writes, end endOrder) {
		v := end.open(t, db, conq.Options{})
		waiter := startWaiter(t.Context(), v, 1)
		other := end.open(t, db.DB, conq.Options{})
		db.depends = func() {
			testkit.NoError(t, db.DB.Transact(t.Context(), func(tx kv.Tx) error { return other.in(tx, "first") }))
		}
		testkit.NoError(t, v.all(t.Context(), conq.Prioritized[string]{Value: "second", Priority: 7}, conq.Prioritized[string]{Value: "third", Priority: 7}))
		synctest.Wait()
		left, err := v.take(t.Context(), 9)
		testkit.NoError(t, err)
		testkit.EqualSlices(t, "order", append(waiter.values, left...), []string{"first", "second", "third"})
	})
}

// If there are items, those who wait can take them while others are being added.
func TestHandOverNotEmpty(t *testing.T) {
	onEnds(t, fifoOrders, func(t *testing.T, db *writes, end endOrder) {
		var events []conq.Event
		v := end.open(t, db, conq.Options{Observe: func(e conq.Event) {
			if e.Kind == conq.Taken && e.Items > 0 {
				events = append(events, e)
			}
		}})
		other := end.open(t, db.DB, conq.Options{})
		waiter := startWaiter(t.Context(), v, 1)
		db.begins = func() {
			testkit.NoError(t, db.DB.Transact(t.Context(), func(tx kv.Tx) error { return other.in(tx, "first") }))
		}
		db.writes = func() {
			synctest.Wait()
			testkit.EqualSlices(t, "got", waiter.values, []string{"first"})
		}
		testkit.NoError(t, v.add(t.Context(), "second"))
		testkit.Equal(t, "written", db.writes == nil, true)
		wantItems(t, "left", v.take, 9, "second")
		one := conq.Event{Queue: v.laid.Name, Kind: conq.Taken, Calls: 1, Items: 1, Attempts: 1}
		startWaiter(t.Context(), v, 1)
		testkit.NoError(t, v.add(t.Context(), "third"))
		synctest.Wait()
		testkit.EqualSlices(t, "events", events, []conq.Event{one, one, one})
	})
}

// If the one gives up who has waited longest, nothing is handed over.
func TestHandOverGivenUp(t *testing.T) {
	onLocal(t, func(t *testing.T, db *writes) {
		v := openFront(t, db, conq.Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second := startWaiter(ctx, v, 1), startWaiter(t.Context(), v, 1)
		db.begins = func() {
			cancel(errEnough)
			synctest.Wait()
		}
		testkit.NoError(t, v.add(t.Context(), "x"))
		synctest.Wait()
		testkit.WantError(t, first.err, errEnough)
		testkit.EqualSlices(t, "got", second.values, []string{"x"})
	})
}

// If the transaction fails, those who wait have got nothing, and wait on, unless their items
// may be lost.
func TestHandOverFails(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		onLocal(t, func(t *testing.T, db *writes) {
			v := openFront(t, db, conq.Options{})
			waiter := startWaiter(t.Context(), v, 1)
			if db.fails = errEnough; unknown {
				db.fails = kv.ErrCommitUnknown
			}
			testkit.WantError(t, v.add(t.Context(), "never"), db.fails)
			db.fails = nil
			synctest.Wait()
			testkit.Equal(t, "returned", waiter.done.Load(), unknown)
			if unknown {
				testkit.WantError(t, waiter.err, kv.ErrCommitUnknown)
				return
			}
			testkit.NoError(t, v.add(t.Context(), "now"))
			synctest.Wait()
			testkit.EqualSlices(t, "got", waiter.values, []string{"now"})
		})
	}
}

// fragile is a codec that fails to decode some values, or panics.
type fragile struct{ conq.Codec[string] }

func (fragile) Decode(b []byte) (string, error) {
	switch string(b) {
	case "bad":
		return "", errEnough
	case "panic":
		panic(errEnough)
	}
	return string(b), nil
}

// What does not decode is not handed over, nor is what comes behind it, and it stays in the
// queue.
func TestHandOverDecode(t *testing.T) {
	onLocal(t, func(t *testing.T, db *writes) {
		q := newQueue(t, db, fragile{conq.String()})
		v := endVerbs{wait: q.DequeueWaitN}
		good, bad := startWaiter(t.Context(), v, 2), startWaiter(t.Context(), v, 1)
		testkit.NoError(t, q.EnqueueAll(t.Context(), []string{"good", "bad", "behind"}))
		synctest.Wait()
		testkit.EqualSlices(t, "got", good.values, []string{"good"})
		testkit.WantError(t, bad.err, conq.ErrDecode)
		wantLen(t, "left", q.Len, 2)
		testkit.NoError(t, q.Clear(t.Context()))

		waiter, second := startWaiter(t.Context(), v, 1), startWaiter(t.Context(), v, 1)
		wantPanic(t, errEnough, func() { _ = q.EnqueueAll(t.Context(), []string{"never", "panic"}) })
		synctest.Wait()
		testkit.Equal(t, "returned", waiter.done.Load(), false)
		testkit.NoError(t, q.EnqueueAll(t.Context(), []string{"next", "next but one"}))
		synctest.Wait()
		testkit.EqualSlices(t, "got", append(waiter.values, second.values...), []string{"next", "next but one"})

		waiter = startWaiter(t.Context(), v, 1)
		db.fails = kv.ErrCommitUnknown // of a transaction that had nothing for anybody
		testkit.WantError(t, q.Enqueue(t.Context(), "bad"), kv.ErrCommitUnknown)
		db.fails = nil
		synctest.Wait()
		testkit.Equal(t, "returned", waiter.done.Load(), false)
		testkit.NoError(t, q.Enqueue(t.Context(), "last"))
		synctest.Wait()
		testkit.EqualSlices(t, "got", waiter.values, []string{"last"})
	})
}

// Who gets an item has it for himself.
func TestHandOverCopies(t *testing.T) {
	onLocal(t, func(t *testing.T, db *writes) {
		q := newQueue(t, db, conq.Bytes())
		got := make(chan []byte, 1)
		for _, payload := range [][]byte{[]byte("abc"), nil} {
			go func() {
				v, err := q.DequeueWait(t.Context())
				testkit.NoError(t, err)
				got <- v
			}()
			synctest.Wait()
			want := slices.Clone(payload)
			testkit.NoError(t, q.Enqueue(t.Context(), payload))
			for i := range payload {
				payload[i] = 'x'
			}
			if v := <-got; v == nil || string(v) != string(want) {
				t.Errorf("got %q, want %q, and not nil", v, want)
			}
		}
		testkit.Equal(t, "written", db.sets.Load(), 2) // format and catalogue
	})
}

// A batch that is handed over has the bounds of one that is taken.
func TestHandOverBounds(t *testing.T) {
	for _, c := range []struct {
		items, want int
		size        func(bytes int) int // bytes are those of a batch
	}{
		{10_000 + 500, 10_000, func(int) int { return 1 }},
		{4, 2, func(bytes int) int { return bytes * 3 / 8 }},
		{1, 1, func(bytes int) int { return bytes + 1 }}, // where there may be one
	} {
		onLocal(t, func(t *testing.T, db *writes) {
			v := openFront(t, db, conq.Options{})
			most := budget.MaxPayload(db.Limits())
			waiter := startWaiter(t.Context(), v, 2*10_000)
			db.sets.Store(0)
			item := conq.Prioritized[string]{Value: strings.Repeat("x", min(c.size(min(8<<20, most)), most))}
			testkit.NoError(t, v.all(t.Context(), slices.Repeat([]conq.Prioritized[string]{item}, c.items)...))
			synctest.Wait()
			testkit.Equal(t, "got", len(waiter.values), c.want)
			testkit.Equal(t, "all were handed over", db.sets.Load() == 0, c.items == c.want)
			wantLen(t, "left", v.len, c.items-c.want)
		})
	}
}

// Without combining, calls hand their own items over, one at a time, and don't wait.
func TestHandOverAlone(t *testing.T) {
	onLocal(t, func(t *testing.T, db *writes) {
		v := openFront(t, db, conq.Options{NoCombining: true})
		const calls = 20
		waiters := []*taken{}
		for range calls {
			waiters = append(waiters, startWaiter(t.Context(), v, 1))
		}
		for i := range calls {
			go func() { testkit.NoError(t, v.add(t.Context(), fmt.Sprint(i))) }()
		}
		pass(100 * time.Millisecond) // after conflicts they pause
		synctest.Wait()
		seen := map[string]bool{}
		for _, w := range waiters {
			testkit.NoError(t, w.err)
			testkit.Equal(t, "items of a waiter", len(w.values), 1)
			seen[w.values[0]] = true
		}
		testkit.Equal(t, "different items", len(seen), calls)
	})
}

// A handle that is closed lets those go who wait, also if items are being handed to them.
func TestHandOverClose(t *testing.T) {
	onLocal(t, func(t *testing.T, db *writes) {
		v := openFront(t, db, conq.Options{})
		waiter := startWaiter(t.Context(), v, 1)
		other := startWaiter(t.Context(), v, 1)
		db.depends = func() {
			go func() { testkit.NoError(t, v.close()) }()
			synctest.Wait()
			testkit.Equal(t, "returned while it is held", waiter.done.Load(), false)
		}
		testkit.NoError(t, v.add(t.Context(), "last"))
		synctest.Wait()
		testkit.EqualSlices(t, "got", waiter.values, []string{"last"})
		testkit.WantError(t, other.err, conq.ErrClosed)
		testkit.WantError(t, v.add(t.Context(), "late"), conq.ErrClosed)
	})
}
