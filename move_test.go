package conq

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
)

// moves take items from one queue and put them into another.
var moves = map[string]func(fixture, kv.Tx) error{
	"Dequeue, Push": func(f fixture, tx kv.Tx) error {
		v, err := f.q.In(tx).Dequeue()
		if err != nil {
			return err
		}
		return f.p.In(tx).Push(v, 1)
	},
	"DequeueN, PushAll": func(f fixture, tx kv.Tx) error {
		values, err := f.q.In(tx).DequeueN(2)
		if err != nil {
			return err
		}
		return f.p.In(tx).PushAll([]Prioritized[string]{{Value: values[0], Priority: 3}, {Value: values[1], Priority: 3}})
	},
	"PopMaxN first pushed, EnqueueAll": func(f fixture, tx kv.Tx) error {
		values, err := f.pf.In(tx).PopMaxN(2)
		if err != nil {
			return err
		}
		return f.q.In(tx).EnqueueAll([]string{values[0].Value, values[1].Value})
	},
	"PopMin, Enqueue": func(f fixture, tx kv.Tx) error {
		v, err := f.p.In(tx).PopMin()
		if err != nil {
			return err
		}
		return f.q.In(tx).Enqueue(v)
	},
	"PopMax, Enqueue in front of an error": func(f fixture, tx kv.Tx) error {
		v, err := f.pf.In(tx).PopMax()
		if err == nil {
			err = f.q.In(tx).Enqueue(v)
		}
		return errors.Join(err, errCancelled)
	},
}

// faults are what happens at the k-th call of a transaction.
var faults = map[string]func(other fixture, cancel context.CancelFunc) error{
	"cancelled": func(_ fixture, cancel context.CancelFunc) error {
		cancel()
		return nil
	},
	"failed":  func(fixture, context.CancelFunc) error { return errCancelled },
	"too old": func(fixture, context.CancelFunc) error { return kv.ErrTooOld },
	"in conflict": func(other fixture, _ context.CancelFunc) error {
		return other.db.Transact(other.ctx, func(tx kv.Tx) error { // swaps the heads of the queues
			v, err := other.q.In(tx).Dequeue()
			if err != nil {
				return err
			}
			w, err := other.p.In(tx).PopMin()
			if err != nil {
				return err
			}
			return errors.Join(other.q.In(tx).Enqueue(w), other.p.In(tx).Push(v, 9))
		})
	},
}

// A transaction that moves items from one queue to another, and is cancelled, or
// fails, or meets a conflict, at any of its calls, loses none and doubles none.
func TestMove(t *testing.T) {
	for engine, open := range engines.All(t) {
		base := open(kv.Limits{})
		for move := range moves {
			for fault := range faults {
				t.Run(fmt.Sprint(engine, " ", move, " ", fault), func(t *testing.T) { moveWithFaults(t, base, move, fault) })
			}
		}
	}
}

func moveWithFaults(t *testing.T, base kv.DB, move, fault string) {
	for k := 1; ; k++ {
		calls, happened := 0, false
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		limited := kv.Limits{Value: 16}
		other := newFixture(t, &testkit.Hooked{DB: base, Bounds: limited}, nil)
		f := newFixture(t, &testkit.Hooked{DB: base, Bounds: limited, Attempt: func(tx kv.Tx) kv.Tx {
			return testkit.FaultyTx{Tx: tx, Hit: func() error {
				if calls++; calls != k {
					return nil
				}
				happened = true
				return faults[fault](other, cancel)
			}}
		}}, nil)
		all := fill(t, other)
		before := fmt.Sprint(contents(t, other))
		calls, happened = 0, false
		err := f.db.Transact(ctx, func(tx kv.Tx) error { return moves[move](f, tx) })
		q, p := contents(t, other)
		for _, v := range p {
			q = append(q, v.Value)
		}
		slices.Sort(q)
		testkit.EqualSlices(t, fmt.Sprintf("items after a fault at call %d", k), q, all)
		testkit.Equal(t, "keys", len(testkit.Stored(t, base)), 3*len(all))
		if err != nil && fault != "in conflict" {
			testkit.Equal(t, "after an error", fmt.Sprint(contents(t, other)), before)
		}
		if !happened {
			if k < 5 {
				t.Fatalf("only %d faults happened", k-1)
			}
			return
		}
	}
}

// fill puts items of three pieces each into both queues, and returns their values,
// sorted.
func fill(t *testing.T, f fixture) (all []string) {
	testkit.NoError(t, f.q.Clear(f.ctx))
	testkit.NoError(t, f.p.Clear(f.ctx))
	for i := range 3 {
		v := fmt.Sprint("q", i, strings.Repeat(".", 40))
		w := fmt.Sprint("p", i, strings.Repeat(".", 40))
		testkit.NoError(t, f.q.Enqueue(f.ctx, v))
		testkit.NoError(t, f.p.Push(f.ctx, w, int64(i/2)))
		all = append(all, v, w)
	}
	slices.Sort(all)
	return all
}

// The largest item can be moved in one transaction, with an engine's own limits, also between queues with the
// longest names.
func TestMoveLargest(t *testing.T) {
	testkit.Long(t)
	for name, open := range engines.All(t) {
		t.Run(name, func(t *testing.T) {
			db := open(kv.Limits{})
			from, err := OpenQueue(db, strings.Repeat("f", MaxName), String())
			testkit.NoError(t, err)
			to, err := OpenPriorityQueue(db, strings.Repeat("t", MaxName), String())
			testkit.NoError(t, err)
			size := db.Limits().Transaction / 2
			testkit.NoError(t, from.Enqueue(t.Context(), strings.Repeat("x", size)))
			testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
				v, err := from.In(tx).Dequeue()
				if err != nil {
					return err
				}
				return to.In(tx).Push(v, math.MinInt64)
			}))
			got, err := to.PopMax(t.Context())
			testkit.NoError(t, err)
			testkit.Equal(t, "length", len(got), size)
			testkit.Equal(t, "keys left", len(testkit.Stored(t, db)), 0)
		})
	}
}
