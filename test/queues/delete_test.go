package queues

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	recipe "github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/internal/tubeverbs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/tuple"
	"github.com/conq-go/conq/work"
)

// filled fills a queue of each kind with all that there can be of it, and add one thing more, by the same handle.
var filled = map[conq.Kind]func(t *testing.T, db kv.DB, name string) (add func() error, size func() (int, error)){
	conq.KindQueue: func(t *testing.T, db kv.DB, name string) (func() error, func() (int, error)) {
		q, err := conq.OpenQueue(t.Context(), db, name, conq.String())
		testkit.NoError(t, err)
		t.Cleanup(func() { q.Close() })
		testkit.NoError(t, q.EnqueueAll(t.Context(), []string{"a", strings.Repeat("long", 100), "c"}))
		return func() error { return q.Enqueue(t.Context(), "d") }, func() (int, error) { return q.Len(t.Context()) }
	},
	conq.KindPriorityQueue: func(t *testing.T, db kv.DB, name string) (func() error, func() (int, error)) {
		q, err := conq.OpenPriorityQueue(t.Context(), db, name, conq.String(), conq.Options{Staging: conq.StagingAlways})
		testkit.NoError(t, err)
		t.Cleanup(func() { q.Close() })
		for i := range int64(5) {
			testkit.NoError(t, q.Push(t.Context(), strings.Repeat("long", 100), i/2))
		}
		_, err = q.PopMax(t.Context())
		testkit.NoError(t, err)
		return func() error { return q.Push(t.Context(), "d", 1) }, func() (int, error) { return q.Len(t.Context()) }
	},
	conq.KindWorkQueue: func(t *testing.T, db kv.DB, name string) (func() error, func() (int, error)) {
		q, err := work.Open(t.Context(), db, name, conq.String())
		testkit.NoError(t, err)
		t.Cleanup(func() { q.Close() })
		for i := range 6 {
			_, err := q.Put(t.Context(), strings.Repeat("long", 10*i), work.Job{Key: "k", Unique: fmt.Sprint(i), UniqueFor: time.Hour})
			testkit.NoError(t, err)
		}
		_, err = q.Put(t.Context(), "later", work.Job{Delay: time.Hour})
		testkit.NoError(t, err)
		l, err := q.ReserveWait(t.Context())
		testkit.NoError(t, err)
		testkit.NoError(t, l.Bury(t.Context(), "bad"))
		_, err = q.ReserveWait(t.Context())
		testkit.NoError(t, err)
		testkit.NoError(t, q.Every(t.Context(), "daily", "@daily", "x"))
		testkit.NoError(t, q.Pause(t.Context()))
		return func() error { return testkit.Drop(q.Put(t.Context(), "d")) }, func() (int, error) { return q.Len(t.Context()) }
	},
}

// bad is what happens to transactions on a cluster.
var bad = faulty.Options{Conflict: 0.05, Dropped: 0.05, Applied: 0.05}

// deletionStores are those on which deletion is tried: embedded and in memory, and one that is as a cluster, whose transactions are small.
func deletionStores(t *testing.T, faults faulty.Options) map[string]func(kv.Limits) kv.DB {
	all := engines.All(t)
	all["cluster"] = func(limits kv.Limits) kv.DB {
		limits.Shared, limits.UnknownCommits, limits.Operations = true, true, 128
		faults.Limits = limits
		db := faulty.New(memory.New(memory.Options{}), 1, faults)
		t.Cleanup(func() { db.Close() })
		return db
	}
	return all
}

// Nothing of a queue that was deleted is left, but the last id of jobs. A handle makes it anew, with its entry.
func TestDelete(t *testing.T) {
	for engine, open := range deletionStores(t, bad) {
		for kind, fill := range filled {
			t.Run(engine+"/"+string(kind), func(t *testing.T) {
				db := open(kv.Limits{Value: 128})
				_, err := conq.OpenQueue(t.Context(), db, "other", conq.String()) // "q" is a prefix of none of these
				testkit.NoError(t, err)
				_, err = conq.OpenQueue(t.Context(), db, "q2", conq.String())
				testkit.NoError(t, err)
				lastID := func() {
					ids := recipe.ShareIDs(db)
					testkit.NoError(t, testkit.Drop(ids.Take(t.Context())))
					ids.Leave()
				}
				lastID()
				before := withoutIDs(testkit.Everything(t, db))
				add, size := fill(t, db, "q")
				if n, err := size(); n == 0 || err != nil {
					t.Fatalf("%d items, error %v", n, err)
				}
				testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "q"))
				testkit.EqualPairs(t, withoutIDs(testkit.Everything(t, db)), before)
				n, err := size()
				testkit.NoError(t, err)
				testkit.Equal(t, "items of a deleted queue", n, 0)
				testkit.WantError(t, conq.DeleteQueue(t.Context(), db, "q"), conq.ErrNoQueue)

				testkit.NoError(t, add())
				info, found, err := conq.Lookup(t.Context(), db, "q")
				testkit.NoError(t, err)
				testkit.Equal(t, "the queue is there again", found, true)
				testkit.Equal(t, "entry", info, conq.Info{Name: "q", Kind: kind, Format: 1})
				n, err = size()
				testkit.NoError(t, err)
				testkit.Equal(t, "items of the new queue", n, 1)
				report, err := conq.Check(t.Context(), db, conq.CheckOptions{})
				testkit.NoError(t, err)
				testkit.Equal(t, "faults", report.Faults, 0)
			})
		}
	}
}

// withoutIDs returns pairs without the last id of a job.
func withoutIDs(pairs []kv.KeyValue) (rest []kv.KeyValue) {
	for _, pair := range pairs {
		if string(pair.Key) != string(recipe.SystemSpace()) {
			rest = append(rest, pair)
		}
	}
	return rest
}

// What a handle adds never mixes with the items of a queue of another kind, and it can't empty that.
func TestDeletedAndMadeAsAnother(t *testing.T) {
	for engine, open := range deletionStores(t, bad) {
		for kind, fill := range filled {
			for other, make := range filled {
				if kind == other {
					continue
				}
				t.Run(engine+"/"+string(kind)+"/"+string(other), func(t *testing.T) {
					db := open(kv.Limits{})
					add, _ := fill(t, db, "q")
					testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "q"))
					_, size := make(t, db, "q")
					n, err := size()
					testkit.NoError(t, err)
					testkit.WantError(t, add(), conq.ErrKind)
					after, err := size()
					testkit.NoError(t, err)
					testkit.Equal(t, "items", after, n)
				})
			}
		}
	}
}

func TestClearOfAnotherKind(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	old, err := conq.OpenQueue(t.Context(), db, "q", conq.String())
	testkit.NoError(t, err)
	testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "q"))
	testkit.NoError(t, old.Clear(t.Context())) // there is nothing
	p, err := conq.OpenPriorityQueue(t.Context(), db, "q", conq.String())
	testkit.NoError(t, err)
	testkit.NoError(t, p.Push(t.Context(), "x", 1))
	testkit.WantError(t, old.Clear(t.Context()), conq.ErrKind)
	testkit.WantError(t, testkit.Drop(old.Dequeue(t.Context())), conq.ErrKind)
	n, err := p.Len(t.Context())
	testkit.NoError(t, err)
	testkit.Equal(t, "items", n, 1)
}

// Within a transaction of the caller it is the same, and what is added at the same time as a deletion comes before it or after it.
func TestDeleteWhileAdding(t *testing.T) {
	for engine, open := range deletionStores(t, faulty.Options{}) {
		t.Run(engine, func(t *testing.T) {
			db := open(kv.Limits{})
			q, err := conq.OpenQueue(t.Context(), db, "q", conq.String())
			testkit.NoError(t, err)
			p, err := conq.OpenPriorityQueue(t.Context(), db, "p", conq.String())
			testkit.NoError(t, err)
			w, err := work.Open(t.Context(), db, "w", conq.String())
			testkit.NoError(t, err)
			attempts := 0
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				if attempts++; attempts > 20 {
					return errors.New("it never ends")
				}
				if err := errors.Join(q.In(tx).Enqueue("x"), p.In(tx).Push("x", 1)); err != nil {
					return err
				}
				if _, err := w.In(tx).Put("x"); err != nil || attempts > 1 {
					return err
				}
				for _, name := range []string{"q", "p", "w"} { // after this attempt has read, and before it commits
					if err := conq.DeleteQueue(t.Context(), db, name); err != nil && !errors.Is(err, conq.ErrNoQueue) {
						return err
					}
				}
				return nil
			}))
			if attempts < 2 {
				t.Error("a transaction that adds to a queue which is deleted meanwhile does not run again")
			}
			infos, err := conq.Queues(t.Context(), db)
			testkit.NoError(t, err)
			testkit.Equal(t, "queues", len(infos), 3)
		})
	}
}

// Who waits goes on waiting, and gets what is added to the new queue; a lease is lost.
func TestDeleteWithWaiters(t *testing.T) {
	for engine, open := range deletionStores(t, bad) {
		t.Run(engine, func(t *testing.T) {
			db := open(kv.Limits{})
			q, err := conq.OpenQueue(t.Context(), db, "q", conq.String())
			testkit.NoError(t, err)
			w, err := work.Open(t.Context(), db, "w", conq.String())
			testkit.NoError(t, err)
			_, err = w.Put(t.Context(), "old")
			testkit.NoError(t, err)
			held, err := w.ReserveWait(t.Context())
			testkit.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got := make(chan string, 2)
			go func() {
				v, err := q.DequeueWait(ctx)
				got <- fmt.Sprint(v, err)
			}()
			go func() {
				l, err := w.ReserveWait(ctx)
				if err != nil {
					got <- err.Error()
					return
				}
				got <- fmt.Sprint(l.Value, err)
			}()
			testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "q"))
			testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "w"))
			testkit.WantError(t, held.Ack(t.Context()), work.ErrLeaseLost)
			q2, err := conq.OpenQueue(ctx, db, "q", conq.String())
			testkit.NoError(t, err)
			testkit.NoError(t, q2.Enqueue(t.Context(), "new"))
			_, err = w.Put(t.Context(), "new")
			testkit.NoError(t, err)
			for range 2 {
				testkit.Equal(t, "what a waiter got", <-got, "new<nil>")
			}
		})
	}
}

// A deletion that takes several transactions, and is broken off after each of them: the queue is listed as one that is being deleted,
// nothing can be added, a check notes it, and a second deletion completes it.
func TestDeleteBrokenOff(t *testing.T) {
	const n = 300
	broken := 0
	for at := 1; ; at++ {
		db := testkit.NewMemory(t, kv.Limits{Operations: 128})
		_, err := conq.OpenQueue(t.Context(), db, "other", conq.String())
		testkit.NoError(t, err)
		before := withoutIDs(testkit.Everything(t, db))
		w, err := work.Open(t.Context(), db, "w", conq.String())
		testkit.NoError(t, err)
		var last work.ID
		for range n {
			last, err = w.Put(t.Context(), "x")
			testkit.NoError(t, err)
		}
		left := at
		died := errors.New("the process has died")
		ctx, cancel := context.WithCancelCause(t.Context())
		dying := &testkit.Hooked{DB: db, Attempt: func(tx kv.Tx) kv.Tx {
			if left--; left == 0 {
				cancel(died)
			}
			return tx
		}}
		err = conq.DeleteQueue(ctx, dying, "w")
		if err == nil {
			break
		}
		testkit.WantError(t, err, died)
		info, found, err := conq.Lookup(t.Context(), db, "w")
		testkit.NoError(t, err)
		testkit.Equal(t, "there is an entry", found, true)
		if info.Deleting {
			broken++
			testkit.WantError(t, testkit.Drop(w.Put(t.Context(), "y")), conq.ErrDeleting)
			testkit.WantError(t, testkit.Drop(work.Open(t.Context(), db, "w", conq.String())), conq.ErrDeleting)
			report, err := conq.Check(t.Context(), db, conq.CheckOptions{Repair: true})
			testkit.NoError(t, err)
			testkit.Equal(t, "faults", report.Faults, 0)
			testkit.Equal(t, "notes", report.Notes > 0, true)
			l, err := w.ReserveWait(t.Context()) // what is there can still be done
			testkit.NoError(t, err)
			testkit.NoError(t, l.Ack(t.Context()))
		}
		testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "w"))
		testkit.EqualPairs(t, withoutIDs(testkit.Everything(t, db)), before)
		testkit.WantError(t, testkit.Drop(tubeverbs.Find(t.Context(), db, int64(last))), work.ErrNotFound)
	}
	if broken < 1 {
		t.Errorf("it was broken off %d times after it had begun", broken)
	}
}

// What handles of processes that have died left of a queue that is deleted goes with a further deletion.
func TestDeleteRest(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	for _, key := range [][]byte{
		layout.Pieces("q").Range().Begin, layout.Stage("q").Range().Begin, layout.Outcomes("q").Range().Begin, layout.SignalKey("q"), recipe.SignalKey("q"),
	} {
		testkit.Write(t, db, kv.KeyValue{Key: key, Value: []byte("x")})
		testkit.NoError(t, conq.DeleteQueue(t.Context(), db, "q"))
		testkit.EqualPairs(t, testkit.Everything(t, db), nil)
	}
	testkit.WantError(t, conq.DeleteQueue(t.Context(), db, "q"), conq.ErrNoQueue)
}

// Nothing is deleted in a store of a newer version.
func TestDeleteInNewer(t *testing.T) {
	for kind, fill := range filled {
		db := testkit.NewMemory(t, kv.Limits{})
		fill(t, db, "q")
		testkit.Write(t, db, kv.KeyValue{Key: layout.FormatKey(), Value: tuple.AppendInt(nil, layout.StoreFormat+1)})
		before := testkit.Everything(t, db)
		testkit.WantError(t, conq.DeleteQueue(t.Context(), db, "q"), conq.ErrFormat)
		if after := testkit.Everything(t, db); len(after) != len(before) {
			t.Errorf("of a %s %d keys are left, there were %d", kind, len(after), len(before))
		}
	}
}
