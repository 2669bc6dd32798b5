package work

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

// victims are jobs in each state, of which something will be corrupt.
var victims = map[string]func(t *testing.T, q *Queue[string], now *handClock){
	"ready": func(t *testing.T, q *Queue[string], _ *handClock) { putVictim(t, q, Job{}) },
	"due":   func(t *testing.T, q *Queue[string], _ *handClock) { putVictim(t, q, Job{Delay: time.Second}) },
	"later": func(t *testing.T, q *Queue[string], _ *handClock) { putVictim(t, q, Job{Delay: time.Hour}) },
	"expired": func(t *testing.T, q *Queue[string], _ *handClock) {
		putVictim(t, q, Job{Lease: time.Second})
		_, err := first(ready(q)(t.Context(), 1))
		noError(t, err)
	},
	"blocked": func(t *testing.T, q *Queue[string], _ *handClock) {
		putVictim(t, q, Job{})
		_, err := q.Put(t.Context(), "blocked", Job{Priority: -5, Key: "v"})
		noError(t, err)
	},
	"dead": func(t *testing.T, q *Queue[string], _ *handClock) {
		noError(t, q.Bury(t.Context(), putVictim(t, q, Job{}), "why"))
	},
	"done": func(t *testing.T, q *Queue[string], _ *handClock) {
		putVictim(t, q, Job{})
		l, err := first(ready(q)(t.Context(), 1))
		noError(t, err)
		noError(t, l.AckResult(t.Context(), []byte("result")))
	},
	"periodic": func(t *testing.T, q *Queue[string], _ *handClock) {
		noError(t, q.Every(t.Context(), "p", "@every 1s", "v", EveryOptions{Job: Job{Key: "v"}}))
	},
}

func putVictim(t *testing.T, q *Queue[string], j Job) ID {
	t.Helper()
	j.Priority, j.Key, j.Unique, j.UniqueFor = -5, "v", "v", time.Hour
	id, err := q.Put(t.Context(), "victim", j)
	noError(t, err)
	return id
}

// damages are what may have become of a pair.
var damages = map[string]func(tx kv.Tx, pair kv.KeyValue){
	"cut off":   func(tx kv.Tx, pair kv.KeyValue) { tx.Set(pair.Key, pair.Value[:len(pair.Value)/2]) },
	"gone":      func(tx kv.Tx, pair kv.KeyValue) { tx.Clear(pair.Key) },
	"noise":     func(tx kv.Tx, pair kv.KeyValue) { tx.Set(pair.Key, []byte{0xff}) },
	"integers":  func(tx kv.Tx, pair kv.KeyValue) { tx.Set(pair.Key, tuple.AppendInt(tuple.AppendInt(nil, 7), 7)) },
	"short key": func(tx kv.Tx, pair kv.KeyValue) { tx.Set(pair.Key[:len(pair.Key)-1], pair.Value) },
	"long key":  func(tx kv.Tx, pair kv.KeyValue) { tx.Set(slices.Concat(pair.Key, []byte{0x14}), pair.Value) },
}

func pairsIn(t *testing.T, db kv.DB) map[string]kv.KeyValue {
	t.Helper()
	pairs := make(map[string]kv.KeyValue)
	noError(t, db.ReadTransact(t.Context(), func(r kv.Reader) error {
		clear(pairs)
		for pair, err := range r.Range(jobs.Space("jobs").Range(), kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			pairs[string(pair.Key)] = pair
		}
		return nil
	}))
	return pairs
}

// Whatever of one job can't be read, in whatever state it is: all verbs go on with the others, and it is told of.
func TestCorruptHoldsUpNoOther(t *testing.T) {
	for _, limits := range []kv.Limits{{}, {Shared: true}} {
		for name, victim := range victims {
			t.Run(fmt.Sprint(name, ", shared ", limits.Shared), func(t *testing.T) {
				var mine []kv.KeyValue
				build := func() (kv.DB, *handClock) {
					db, now := memory.New(memory.Options{Limits: limits}), &handClock{t: time.Unix(1_000_000, 0)}
					s := Settings{Lease: time.Minute, Keep: time.Hour, Rate: Rate{N: 1000, Per: time.Second}, KeyRate: Rate{N: 100, Per: time.Second}}
					if !limits.Shared { // where a part of a count may be negative, and what is left of it a large number
						s.Concurrency = math.MaxInt32
					}
					q, err := Open(t.Context(), db, "jobs", queue.String(), Options{Settings: &s})
					noError(t, err)
					q.now = now.now
					before := pairsIn(t, db)
					victim(t, q, now)
					mine = nil
					for key, pair := range pairsIn(t, db) {
						if old, there := before[key]; !there || !bytes.Equal(old.Value, pair.Value) {
							mine = append(mine, pair)
						}
					}
					slices.SortFunc(mine, func(a, b kv.KeyValue) int { return bytes.Compare(a.Key, b.Key) })
					noError(t, q.Close())
					now.add(2 * time.Second)
					return db, now
				}
				db, _ := build()
				noError(t, db.Close())
				for i := range len(mine) {
					for what, damage := range damages {
						db, now := build()
						pair := mine[min(i, len(mine)-1)] // counts are spread at random
						noError(t, db.Transact(t.Context(), func(tx kv.Tx) error { damage(tx, pair); return nil }))
						others(t, fmt.Sprintf("%s: %q %s", name, pair.Key, what), db, now)
						noError(t, db.Close())
					}
				}
			})
		}
	}
}

// others does all that can be done with the other jobs of a queue.
func others(t *testing.T, what string, db kv.DB, now *handClock) {
	ctx := context.Background()
	var log bytes.Buffer
	must := func(verb string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %s: %v", what, verb, err)
		}
	}
	q, err := Open(ctx, db, "jobs", queue.String(), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must("open", err)
	other, err := Open(ctx, db, "other", queue.String())
	must("open", err)
	defer other.Close()
	defer q.Close()
	q.now, other.now = now.now, now.now

	_, err = q.Put(ctx, "plain", Job{Priority: -5})
	must("put", err)
	_, _, err = q.PutAll(ctx, []New[string]{{"keyed", Job{Key: "g", Unique: "g"}}, {"second", Job{Key: "g"}}})
	must("put all", err)
	_, err = q.Put(ctx, "due", Job{Delay: time.Millisecond})
	must("put", err)
	_, err = other.Put(ctx, "other", Job{Priority: -4})
	must("put", err)
	dead, err := q.Put(ctx, "dead")
	must("put", err)
	must("bury", q.Bury(ctx, dead, "why"))
	must("every", q.Every(ctx, "good", "@every 1s", "tick"))
	now.add(2 * time.Second)

	_, err = q.Stats(ctx)
	must("stats", err)
	_, err = q.Count(ctx, Filter{}, nil)
	must("count", err)
	_, err = q.readyBelow(ctx, 0, 10)
	must("ready below", err)
	for state := range Done + 1 {
		for _, err := range q.List(ctx, Filter{State: state, Contains: "e"}) {
			must(fmt.Sprint("list ", state), err)
		}
		for _, err := range q.List(ctx, Filter{State: state, Reverse: true}) {
			must(fmt.Sprint("list ", state), err)
		}
	}
	_, err = q.Peek(ctx, 10)
	must("peek", err)
	_, err = q.Periodics(ctx)
	must("periodics", err)
	must("reclaim", q.Sweep(ctx))
	must("view", db.ReadTransact(ctx, func(r kv.Reader) error {
		_, err := q.recipe.Oldest(r)
		return err
	}))
	u, err := NewUnion(q, other)
	must("union", err)
	got := make(map[string]int)
	reserve := func(from func(context.Context, int, ...ReserveOptions) ([]*Lease[string], error)) {
		for range 20 {
			leases, err := from(ctx, 2)
			if !errors.Is(err, queue.ErrEmpty) {
				must("reserve", err)
			}
			for _, l := range leases {
				got[l.Value]++
				if l.Value != "victim" && l.Value != "blocked" && l.Value != "v" {
					must("extend", l.Extend(ctx, 0))
					must("ack", l.Ack(ctx))
				}
			}
		}
	}
	reserve(u.ReserveN)
	if _, err := q.kickFirst(ctx, 1000); err != nil {
		t.Fatalf("%s: kick first: %v", what, err)
	}
	_, err = q.KickAll(ctx, Filter{State: Dead}, nil)
	must("kick all", err)
	reserve(q.ReserveN)
	for _, v := range []string{"plain", "keyed", "second", "due", "other", "dead", "tick"} {
		if got[v] == 0 {
			t.Errorf("%s: %q was not reserved, but %v", what, v, got)
		}
	}
	_, err = q.ReprioritiseAll(ctx, Filter{}, -5, nil)
	must("reprioritise all", err)
	_, err = q.EndLeases(ctx, Filter{State: Leased}, nil)
	must("end leases", err)
	_, err = q.CancelAll(ctx, Filter{State: Ready}, nil)
	must("cancel all", err)
	must("pause", q.Pause(ctx))
	must("configure", q.Configure(ctx, Settings{KeyLimit: 3, MaxAttempts: 7}))
	must("resume", q.Resume(ctx))
	_ = q.RemovePeriodic(ctx, "p")
	_, err = q.DeleteAll(ctx, Filter{}, nil)
	must("delete all", err)
	must("clear", q.Clear(ctx))
}
