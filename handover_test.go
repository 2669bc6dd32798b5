package conq

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
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/kv/memory"
)

// localStores are those that one process has for itself.
var localStores = map[string]func(tb) kv.DB{
	"memory": func(tb) kv.DB { return memory.New(memory.Options{}) },
	"embedded": func(t tb) kv.DB {
		db, err := embedded.Open("db", embedded.Options{FS: vfs.NewMem(), MemTable: 1 << 20, Cache: 1 << 20})
		noError(t, err)
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

func (w *writes) Signals() *kv.Signals { return kv.SignalsOf(w.DB) }

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
			synctest.Test(t, func(t *testing.T) {
				db := &writes{DB: open(t)}
				defer func() { noError(t, db.Close()) }()
				test(t, db)
			})
		})
	}
}

var prioritizedItems = []Prioritized[string]{{"a", 2}, {"b", 1}, {"c", 1}, {"d", 3}, {"e", 3}}

// endOrder is an end of a queue, and in which order prioritizedItems are taken there.
type endOrder struct {
	name  string
	order string
	open  func(tb, kv.DB, Options) endVerbs
}

var (
	// fifoOrders are the ends where of two equal items the first comes first.
	fifoOrders = []endOrder{{"Dequeue", "abcde", allEnds[0].open}, {"PopMin", "bcade", allEnds[1].open}, {"PopMax, FIFOTies", "deabc", allEnds[2].open}}

	endOrders = append([]endOrder{
		{"PopMax", "edacb", func(t tb, db kv.DB, o Options) endVerbs { return openPriority(t, db, o, false) }},
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
		var events [Taken + 1]atomic.Int64
		v := end.open(t, db, Options{Observe: func(e Event) {
			if e.Kind <= Taken {
				events[e.Kind].Add(int64(e.Items))
			}
		}})
		waiters := []*taken{}
		for _, n := range []int{1, 2, 1} {
			waiters = append(waiters, startWaiter(t.Context(), v, n))
		}
		db.sets.Store(0)
		noError(t, v.all(t.Context(), prioritizedItems...))
		synctest.Wait()
		var got []string
		for i, w := range waiters {
			noError(t, w.err)
			equal(t, fmt.Sprint("items of waiter ", i), len(w.values), []int{1, 2, 1}[i])
			got = append(got, w.values...)
		}
		equal(t, "order", strings.Join(got, ""), end.order[:4])
		equal(t, "written", db.sets.Load(), 1)
		equal(t, "added", events[Added].Load(), 5)
		equal(t, "taken", events[Taken].Load(), 4)
		left, err := v.take(t.Context(), 9)
		noError(t, err)
		equalSlices(t, "left", left, []string{end.order[4:]})

		alone := startWaiter(t.Context(), v, 3)
		noError(t, v.add(t.Context(), "alone"))
		synctest.Wait()
		equalSlices(t, "got", alone.values, []string{"alone"})
		equal(t, "written", db.sets.Load(), 1)
		equal(t, "stored pairs", len(stored(t, db)), 0)

		again := startWaiter(t.Context(), v, 1)
		noError(t, v.add(t.Context(), "again"))
		synctest.Wait()
		equalSlices(t, "got", again.values, []string{"again"})

		before := db.attempts.Load()
		ctx, cancel := context.WithCancel(t.Context())
		startWaiter(ctx, v, 1)
		equal(t, "looks at a queue without news", db.attempts.Load()-before, 0)
		cancel()
		synctest.Wait()
	})
}

// What is left of several items goes into the queue in its order.
func TestHandOverLeft(t *testing.T) {
	for _, o := range []Options{{}, {NoCombining: true}} {
		for wanted := range len(prioritizedItems) {
			onEnds(t, endOrders, func(t *testing.T, db *writes, end endOrder) {
				v := end.open(t, db, o)
				waiter := startWaiter(t.Context(), v, 1+wanted)
				noError(t, v.all(t.Context(), prioritizedItems...))
				synctest.Wait()
				equal(t, "handed over", len(waiter.values), 1+wanted)
				left, err := v.take(t.Context(), 9)
				if 1+wanted < len(prioritizedItems) {
					noError(t, err)
				} else {
					wantError(t, err, ErrEmpty)
				}
				equal(t, "order", strings.Join(append(waiter.values, left...), ""), end.order)
			})
		}
	}
}

// Items are not handed to some where others may have come before them, or look for them
// otherwise.
func TestHandOverToOthers(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		prepare func(t *testing.T, db kv.DB, p *PriorityQueue[string]) // has somebody else wait
	}{
		"on another handle": {Options{}, func(t *testing.T, db kv.DB, _ *PriorityQueue[string]) {
			startWaiter(t.Context(), openPriority(t, db, Options{}, true), 1)
		}},
		"at the other end": {Options{}, func(t *testing.T, _ kv.DB, p *PriorityQueue[string]) {
			go func() { _, _ = p.PopMaxWait(t.Context()) }()
		}},
		"staging": {Options{Staging: StagingAlways}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onLocal(t, func(t *testing.T, db *writes) {
				p, err := OpenPriorityQueue(db, "p", String(), c.options)
				noError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				go func() { _, _ = p.PopMinWait(ctx) }()
				synctest.Wait()
				others := 0
				if c.prepare != nil {
					c.prepare(t, db, p)
					synctest.Wait()
					others = 1
				}
				before := db.sets.Load()
				noError(t, p.Push(t.Context(), "first", 1))
				synctest.Wait()
				if db.sets.Load() == before {
					t.Error("the item was not written")
				}
				for range others {
					noError(t, p.Push(t.Context(), "second", 1))
				}
				synctest.Wait()
				n, err := p.Len(t.Context())
				noError(t, err)
				equal(t, "items that nobody has got", n, 0)
				cancel()
				synctest.Wait()
			})
		})
	}
}

// Who has added to the queue before what is handed over would commit is first.
func TestHandOverConflict(t *testing.T) {
	onEnds(t, fifoOrders, func(t *testing.T, db *writes, end endOrder) {
		v := end.open(t, db, Options{})
		waiter := startWaiter(t.Context(), v, 1)
		other := end.open(t, db.DB, Options{})
		db.depends = func() {
			noError(t, db.DB.Transact(t.Context(), func(tx kv.Tx) error { return other.in(tx, "first") }))
		}
		noError(t, v.all(t.Context(), Prioritized[string]{"second", 7}, Prioritized[string]{"third", 7}))
		synctest.Wait()
		left, err := v.take(t.Context(), 9)
		noError(t, err)
		equalSlices(t, "order", append(waiter.values, left...), []string{"first", "second", "third"})
	})
}

// If there are items, those who wait can take them while others are being added.
func TestHandOverNotEmpty(t *testing.T) {
	onEnds(t, fifoOrders, func(t *testing.T, db *writes, end endOrder) {
		var events []Event
		v := end.open(t, db, Options{Observe: func(e Event) {
			if e.Kind == Taken && e.Items > 0 {
				events = append(events, e)
			}
		}})
		other := end.open(t, db.DB, Options{})
		waiter := startWaiter(t.Context(), v, 1)
		db.begins = func() {
			noError(t, db.DB.Transact(t.Context(), func(tx kv.Tx) error { return other.in(tx, "first") }))
		}
		db.writes = func() {
			synctest.Wait()
			equalSlices(t, "got", waiter.values, []string{"first"})
		}
		noError(t, v.add(t.Context(), "second"))
		equal(t, "written", db.writes == nil, true)
		left, err := v.take(t.Context(), 9)
		noError(t, err)
		equalSlices(t, "left", left, []string{"second"})
		one := Event{Queue: v.laid.Name, Kind: Taken, Calls: 1, Items: 1, Attempts: 1}
		startWaiter(t.Context(), v, 1)
		noError(t, v.add(t.Context(), "third"))
		synctest.Wait()
		equalSlices(t, "events", events, []Event{one, one, one})
	})
}

// If the one gives up who has waited longest, nothing is handed over.
func TestHandOverGivenUp(t *testing.T) {
	onLocal(t, func(t *testing.T, db *writes) {
		v := openFront(t, db, Options{})
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second := startWaiter(ctx, v, 1), startWaiter(t.Context(), v, 1)
		db.begins = func() {
			cancel(errEnough)
			synctest.Wait()
		}
		noError(t, v.add(t.Context(), "x"))
		synctest.Wait()
		wantError(t, first.err, errEnough)
		equalSlices(t, "got", second.values, []string{"x"})
	})
}

// If the transaction fails, those who wait have got nothing, and wait on, unless their items
// may be lost.
func TestHandOverFails(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		onLocal(t, func(t *testing.T, db *writes) {
			v := openFront(t, db, Options{})
			waiter := startWaiter(t.Context(), v, 1)
			if db.fails = errEnough; unknown {
				db.fails = kv.ErrCommitUnknown
			}
			wantError(t, v.add(t.Context(), "never"), db.fails)
			db.fails = nil
			synctest.Wait()
			equal(t, "returned", waiter.done.Load(), unknown)
			if unknown {
				wantError(t, waiter.err, kv.ErrCommitUnknown)
				return
			}
			noError(t, v.add(t.Context(), "now"))
			synctest.Wait()
			equalSlices(t, "got", waiter.values, []string{"now"})
		})
	}
}

// fragile is a codec that fails to decode some values, or panics.
type fragile struct{ Codec[string] }

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
		q, err := OpenQueue[string](db, "q", fragile{String()})
		noError(t, err)
		v := endVerbs{wait: q.DequeueWaitN}
		good, bad := startWaiter(t.Context(), v, 2), startWaiter(t.Context(), v, 1)
		noError(t, q.EnqueueAll(t.Context(), []string{"good", "bad", "behind"}))
		synctest.Wait()
		equalSlices(t, "got", good.values, []string{"good"})
		wantError(t, bad.err, ErrDecode)
		n, err := q.Len(t.Context())
		noError(t, err)
		equal(t, "left", n, 2)
		noError(t, q.Clear(t.Context()))

		waiter, second := startWaiter(t.Context(), v, 1), startWaiter(t.Context(), v, 1)
		func() {
			defer func() { equal(t, "panic", recover(), any(errEnough)) }()
			_ = q.EnqueueAll(t.Context(), []string{"never", "panic"})
		}()
		synctest.Wait()
		equal(t, "returned", waiter.done.Load(), false)
		noError(t, q.EnqueueAll(t.Context(), []string{"next", "next but one"}))
		synctest.Wait()
		equalSlices(t, "got", append(waiter.values, second.values...), []string{"next", "next but one"})

		waiter = startWaiter(t.Context(), v, 1)
		db.fails = kv.ErrCommitUnknown // of a transaction that had nothing for anybody
		wantError(t, q.Enqueue(t.Context(), "bad"), kv.ErrCommitUnknown)
		db.fails = nil
		synctest.Wait()
		equal(t, "returned", waiter.done.Load(), false)
		noError(t, q.Enqueue(t.Context(), "last"))
		synctest.Wait()
		equalSlices(t, "got", waiter.values, []string{"last"})
	})
}

// So it is with priorities, from both ends.
func TestHandOverDecodePriority(t *testing.T) {
	for name, wait := range map[string]func(*PriorityQueue[string]) func(context.Context) (string, error){
		"PopMin": func(p *PriorityQueue[string]) func(context.Context) (string, error) { return p.PopMinWait },
		"PopMax": func(p *PriorityQueue[string]) func(context.Context) (string, error) { return p.PopMaxWait },
	} {
		t.Run(name, func(t *testing.T) {
			onLocal(t, func(t *testing.T, db *writes) {
				p, err := OpenPriorityQueue[string](db, "p", fragile{String()})
				noError(t, err)
				got := make(chan error, 1)
				go func() { got <- drop(wait(p)(t.Context())) }()
				synctest.Wait()
				noError(t, p.Push(t.Context(), "bad", 1))
				wantError(t, <-got, ErrDecode)
				n, err := p.Len(t.Context())
				noError(t, err)
				equal(t, "left", n, 1)
			})
		})
	}
}

// Who gets an item has it for himself.
func TestHandOverCopies(t *testing.T) {
	onLocal(t, func(t *testing.T, db *writes) {
		q, err := OpenQueue(db, "q", Bytes())
		noError(t, err)
		got := make(chan []byte, 1)
		for _, payload := range [][]byte{[]byte("abc"), nil} {
			go func() {
				v, err := q.DequeueWait(t.Context())
				noError(t, err)
				got <- v
			}()
			synctest.Wait()
			want := slices.Clone(payload)
			noError(t, q.Enqueue(t.Context(), payload))
			for i := range payload {
				payload[i] = 'x'
			}
			if v := <-got; v == nil || string(v) != string(want) {
				t.Errorf("got %q, want %q, and not nil", v, want)
			}
		}
		equal(t, "written", db.sets.Load(), 2) // format and catalogue
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
			v := openFront(t, db, Options{})
			most := layout.MaxPayload(db.Limits())
			waiter := startWaiter(t.Context(), v, 2*10_000)
			db.sets.Store(0)
			item := Prioritized[string]{Value: strings.Repeat("x", min(c.size(min(8<<20, most)), most))}
			noError(t, v.all(t.Context(), slices.Repeat([]Prioritized[string]{item}, c.items)...))
			synctest.Wait()
			equal(t, "got", len(waiter.values), c.want)
			equal(t, "all were handed over", db.sets.Load() == 0, c.items == c.want)
			n, err := v.len(t.Context())
			noError(t, err)
			equal(t, "left", n, c.items-c.want)
		})
	}
}

// Without combining, calls hand their own items over, one at a time, and don't wait.
func TestHandOverAlone(t *testing.T) {
	onLocal(t, func(t *testing.T, db *writes) {
		v := openFront(t, db, Options{NoCombining: true})
		const calls = 20
		waiters := []*taken{}
		for range calls {
			waiters = append(waiters, startWaiter(t.Context(), v, 1))
		}
		for i := range calls {
			go func() { noError(t, v.add(t.Context(), fmt.Sprint(i))) }()
		}
		pass(100 * time.Millisecond) // after conflicts they pause
		synctest.Wait()
		seen := map[string]bool{}
		for _, w := range waiters {
			noError(t, w.err)
			equal(t, "items of a waiter", len(w.values), 1)
			seen[w.values[0]] = true
		}
		equal(t, "different items", len(seen), calls)
	})
}

// A handle that is closed lets those go who wait, also if items are being handed to them.
func TestHandOverClose(t *testing.T) {
	onLocal(t, func(t *testing.T, db *writes) {
		v := openFront(t, db, Options{})
		waiter := startWaiter(t.Context(), v, 1)
		other := startWaiter(t.Context(), v, 1)
		db.depends = func() {
			go func() { noError(t, v.close()) }()
			synctest.Wait()
			equal(t, "returned while it is held", waiter.done.Load(), false)
		}
		noError(t, v.add(t.Context(), "last"))
		synctest.Wait()
		equalSlices(t, "got", waiter.values, []string{"last"})
		wantError(t, other.err, ErrClosed)
		wantError(t, v.add(t.Context(), "late"), ErrClosed)
	})
}
