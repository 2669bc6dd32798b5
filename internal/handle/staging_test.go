package handle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/tuple"
)

var stagings = map[string]conq.Staging{"auto": conq.StagingAuto, "always": conq.StagingAlways, "never": conq.StagingNever}

// left returns the keys that empty queues should not leave behind: all but those
// that each queue or each handle has once.
func left(t testkit.TB, db kv.DB) []kv.KeyValue {
	t.Helper()
	return slices.DeleteFunc(testkit.Stored(t, db), func(pair kv.KeyValue) bool {
		key, err := tuple.Unpack(pair.Key)
		if err == nil && len(key) == 4 && key[3] == int64(0) {
			return true // of who fulfils, which goes in a moment
		}
		return bytes.HasPrefix(pair.Key, layout.System("outcome")) || bytes.HasPrefix(pair.Key, layout.System("signal"))
	})
}

// What is taken comes in order, also staged: first in, first out, and the ties of
// PopMax as the handle says.
func TestStagingOrder(t *testing.T) {
	for name, staging := range stagings {
		testkit.Bubble(t, func(t *testing.T) {
			c := testkit.NewCluster(t, 1, faulty.Options{})
			defer c.Close()
			db := c.Process()
			q := newQueue(t, db, conq.String(), conq.Options{Staging: staging})
			testkit.NoError(t, q.EnqueueAll(t.Context(), strings.Fields("1 2 3 4 5")))
			for _, want := range []string{"1", "2 3", "4 5"} {
				got, err := q.DequeueN(t.Context(), len(strings.Fields(want)))
				testkit.NoError(t, err)
				testkit.Equal(t, name, strings.Join(got, " "), want)
			}
			for _, fifo := range []bool{false, true} {
				p := newPriorityQueue(t, db, conq.String(), conq.Options{Staging: staging, FIFOTies: fifo})
				for _, v := range strings.Fields("a1 b2 c2 d3 e3 f3 g4") {
					testkit.NoError(t, p.Push(t.Context(), v, int64(v[1]-'0')))
				}
				var got []string
				pop := func(v string, err error) {
					testkit.NoError(t, err)
					got = append(got, v)
				}
				pop(p.PopMax(t.Context()))
				pop(p.PopMax(t.Context()))
				pop(p.PopMin(t.Context()))
				pop(p.PopWait(t.Context(), conq.Max))
				pop(p.PopWait(t.Context(), conq.Min))
				values, err := p.PopN(t.Context(), conq.Max, 5)
				testkit.NoError(t, err)
				for _, v := range values {
					got = append(got, v.Value)
				}
				want := "g4 f3 a1 e3 b2 d3 c2"
				if fifo {
					want = "g4 d3 a1 e3 b2 f3 c2"
				}
				testkit.Equal(t, fmt.Sprint(name, " FIFO ties ", fifo), strings.Join(got, " "), want)
			}
		})
	}
}

// held has a process register a staged request and hang, and another one serve it
// with all others. It returns what lets the process collect its result.
func held(t *testing.T, db kv.DB, take func(kv.DB) func() error) (done chan error, collect func()) {
	t.Helper()
	registered, collected := make(chan bool), make(chan bool)
	n := 0
	hanging := &testkit.Hooked{DB: db}
	f := take(hanging)
	for _, name := range []string{"q", "p"} { // another process serves requests, and has died
		key := tuple.AppendInt(layout.Stage(name).Bytes(), 0)
		testkit.Write(t, db, kv.KeyValue{Key: key, Value: tuple.AppendBytes(nil, []byte("another"))})
	}
	hanging.Attempt = func(tx kv.Tx) kv.Tx {
		if n++; n == 2 {
			close(registered)
			<-collected
		}
		return tx
	}
	done = async(f)
	<-registered
	return done, func() {
		close(collected)
		synctest.Wait()
	}
}

// An item that does not decode goes back to its place, and what is behind it too;
// who found nothing meanwhile and waits is woken up for it.
func TestStagingUndecodable(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := memory.New(memory.Options{Limits: kv.Limits{Shared: true}})
		codec := conq.Codec[string](picky{conq.String()})
		open := func(db kv.DB, staging conq.Staging) *conq.Queue[string] {
			q := newQueue(t, db, codec, conq.Options{Staging: staging})
			return q
		}
		other := open(db, conq.StagingAlways)
		testkit.NoError(t, other.EnqueueAll(t.Context(), []string{"unreadable", "good"}))
		done, collect := held(t, db, func(db kv.DB) func() error {
			q := open(db, conq.StagingAlways)
			return func() error { return drop(q.DequeueN(t.Context(), 2)) }
		})
		_, err := other.Dequeue(t.Context()) // serves the one that hangs first
		testkit.WantError(t, err, conq.ErrEmpty)
		waiter := open(db, conq.StagingNever)
		got := async(func() error { return drop(waiter.DequeueWait(t.Context())) })
		collect()
		testkit.WantError(t, <-done, conq.ErrDecode)
		testkit.WantError(t, <-got, conq.ErrDecode)
		wantLen(t, "items left", other.Len, 2)
		testkit.NoError(t, db.Close())
	})
}

// spoils fails, and leaves nothing of what it was given, as some ciphers do that decrypt in place.
type spoils struct{ conq.Codec[string] }

func (spoils) Decode(b []byte) (string, error) {
	clear(b)
	return "", errors.New("wrong key")
}

// An item stays as it was when it does not decode, whatever the codec does with its bytes.
func TestSpoiledByDecode(t *testing.T) {
	for mode, staging := range stagings {
		t.Run(mode, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{Shared: true})
			q := newQueue(t, db, conq.String())
			wrong := newQueue(t, db, spoils{conq.String()}, conq.Options{Staging: staging})
			testkit.NoError(t, q.Enqueue(t.Context(), "a secret"))
			testkit.WantError(t, drop(wrong.Dequeue(t.Context())), conq.ErrDecode)
			testkit.WantError(t, drop(wrong.DequeueWait(t.Context())), conq.ErrDecode)
			wantOne(t, "item", q.Dequeue, "a secret")
		})
	}
}

// Clear also clears what is staged: whose request or result was cleared comes
// again, and finds nothing.
func TestStagingClear(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := memory.New(memory.Options{Limits: sharedSmall})
		open := func(db kv.DB) *conq.Queue[string] {
			q := newQueue(t, db, conq.String(), conq.Options{Staging: conq.StagingAlways})
			return q
		}
		other := open(db)
		testkit.NoError(t, other.Enqueue(t.Context(), strings.Repeat("over several keys ", 20)))
		done, collect := held(t, db, func(db kv.DB) func() error {
			q := open(db)
			return func() error {
				_, err := q.Dequeue(t.Context())
				return err
			}
		})
		_, err := other.Dequeue(t.Context())
		testkit.WantError(t, err, conq.ErrEmpty)
		testkit.NoError(t, other.Clear(t.Context()))
		collect()
		testkit.WantError(t, <-done, conq.ErrEmpty)
		testkit.Equal(t, "keys left", len(left(t, db)), 0)
		testkit.NoError(t, db.Close())
	})
}

// A handle's own rule for ties holds for its requests, whoever serves them.
func TestStagingMixedTies(t *testing.T) {
	for _, fifo := range []bool{false, true} {
		testkit.Bubble(t, func(t *testing.T) {
			db := memory.New(memory.Options{Limits: kv.Limits{Shared: true}})
			open := func(db kv.DB, fifo bool) *conq.PriorityQueue[string] {
				p := newPriorityQueue(t, db, conq.String(), conq.Options{Staging: conq.StagingAlways, FIFOTies: fifo})
				return p
			}
			other := open(db, !fifo)
			for _, v := range strings.Fields("a b c") {
				testkit.NoError(t, other.Push(t.Context(), v, 1))
			}
			var got string
			done, collect := held(t, db, func(db kv.DB) func() error {
				p := open(db, fifo)
				return func() (err error) {
					got, err = p.PopMax(t.Context())
					return err
				}
			})
			v, err := other.PopMax(t.Context())
			testkit.NoError(t, err)
			collect()
			testkit.NoError(t, <-done)
			want := map[bool]string{true: "a c", false: "c a"}[fifo]
			testkit.Equal(t, "popped", got+" "+v, want)
			testkit.NoError(t, db.Close())
		})
	}
}

// Automatic staging begins when dequeues of several processes collide, and ends
// when they do not any more.
func TestStagingAuto(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := testkit.NewCluster(t, 1, faulty.Options{Delay: 1})
		defer c.Close()
		var seen events
		const handles, each = 8, 40
		var all []endVerbs
		for range handles {
			all = append(all, openFront(t, c.Process(), conq.Options{Observe: seen.observe}))
		}
		for i := range handles * each {
			testkit.NoError(t, all[0].add(t.Context(), fmt.Sprint(i)))
		}
		testkit.Together(handles, func(h int) {
			for range each {
				_, err := all[h].take(t.Context(), 1)
				testkit.Check(t, err)
			}
		})
		requested, fulfilled := seen.sum(conq.Requested), seen.sum(conq.Fulfilled)
		if requested.Calls < each || fulfilled.Calls < each || fulfilled.Items < each {
			t.Errorf("%d staged requests, %d served: it should have begun", requested.Calls, fulfilled.Calls)
		}
		testkit.Equal(t, "expired", seen.sum(conq.Expired).Items, 0)
		pass(200 * time.Millisecond)
		seen.take(conq.Added)
		for i := range each {
			testkit.NoError(t, all[1].add(t.Context(), fmt.Sprint(i)))
			_, err := all[1].take(t.Context(), 1)
			testkit.NoError(t, err)
		}
		testkit.Equal(t, "staged requests of a lone process", seen.sum(conq.Requested).Calls, 0)
		of := seen.sum(conq.Taken)
		testkit.Equal(t, "items", of.Items, each)
		testkit.Equal(t, "attempts", of.Attempts, each)
	})
}

// Where staged takes last long, automatic staging does not try the plain transaction at each turn, which collides.
func TestStagingAutoSlow(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		c := testkit.NewCluster(t, 1, faulty.Options{Latency: 40 * time.Millisecond, CommitLatency: 60 * time.Millisecond})
		defer c.Close()
		var seen events
		var log strings.Builder
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		const handles, each = 8, 40
		var all []endVerbs
		for h := range handles {
			o := conq.Options{Observe: seen.observe}
			if h == 0 {
				o.Logger = logger
			}
			all = append(all, openFront(t, c.Process(), o))
		}
		for i := range handles * each {
			testkit.NoError(t, all[0].add(t.Context(), fmt.Sprint(i)))
		}
		testkit.Together(handles, func(h int) {
			for range each {
				_, err := all[h].take(t.Context(), 1)
				testkit.Check(t, err)
			}
		})
		if n := strings.Count(log.String(), "collide"); n > each/4 {
			t.Errorf("in %d takes a handle tried the plain transaction, and collided, %d times", each, n)
		}
		if n := seen.sum(conq.Requested).Calls; n < handles*each/2 {
			t.Errorf("%d staged requests for %d takes", n, handles*each)
		}
	})
}

// 64 consumers on one handle hardly conflict with each other, nor with producers.
func TestStagingAutoConflicts(t *testing.T) {
	for name, open := range engines.All(t) {
		t.Run(name, func(t *testing.T) {
			db, attempts := testkit.Counted(open(kv.Limits{}))
			calls := &callCounter{DB: db}
			v := openFront(t, calls, conq.Options{})
			const consumers, producers, each = 64, 8, 400
			var group sync.WaitGroup
			for range producers {
				group.Go(func() {
					for range each {
						testkit.Check(t, v.add(t.Context(), "x"))
					}
				})
			}
			testkit.Together(consumers, func(int) {
				for range producers * each / consumers {
					_, err := v.wait(t.Context(), 1)
					testkit.Check(t, err)
				}
			})
			group.Wait()
			conflicts := float64(attempts.Load()-calls.n.Load()) / (producers * each)
			if conflicts >= 0.05 {
				t.Errorf("%.3f conflicts an item, want less than 0.05", conflicts)
			}
		})
	}
}

// callCounter counts transactions, where hooked counts their attempts.
type callCounter struct {
	kv.DB
	n atomic.Int64
}

func (c *callCounter) Signals() *kvext.Signals { return kvext.SignalsOf(c.DB) }

func (c *callCounter) Transact(ctx context.Context, f func(kv.Tx) error) error {
	c.n.Add(1)
	return c.DB.Transact(ctx, f)
}

// A codec that panics leaves no request behind, nor what that was served: the next caller gets the
// item, and those behind it stay behind.
func TestPanicWhileStaged(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{Shared: true})
	q := newQueue(t, db, &panicsOnce{Codec: conq.String()}, conq.Options{Staging: conq.StagingAlways})
	testkit.NoError(t, q.EnqueueAll(t.Context(), []string{"first", "second"}))
	wantPanic(t, "in Decode", func() { _, _ = q.Dequeue(t.Context()) })
	report, err := conq.Check(t.Context(), db)
	testkit.NoError(t, err)
	testkit.Equal(t, "requests, results and staged items", report.Requests+report.Results+report.StagedItems, 0)
	for _, want := range []string{"first", "second"} {
		wantOne(t, "item", q.Dequeue, want)
	}
}
