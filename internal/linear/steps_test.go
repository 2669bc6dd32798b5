package linear

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
)

func twoSteps(h *History) { h.TwoSteps = true }

// Where a take has two steps, those that look may see what it has chosen, for as long as it is under
// way; nobody else may take that, or what is behind it before it.
func TestVerifyTwoSteps(t *testing.T) {
	for _, c := range []struct {
		name string
		h    History
		ok   bool
	}{
		{"seen while it goes", steps(alone(put("a:1 c:3")), []Op{take(2, "a:1 c:3"), put("b:2"), peek("a"), length(3)}, alone(length(1))), true},
		{"counted after a smaller count", steps(alone(put("a b")), []Op{take(1, "a"), length(1), length(2)}), true},
		{"seen after it has gone", steps(alone(put("a b")), alone(take(1, "a")), alone(peek("a"))), false},
		{"counted after it has gone", steps(alone(put("a b")), alone(take(1, "a")), alone(length(2))), false},
		{"gone before it was taken", steps(alone(put("a b")), alone(length(1)), alone(take(1, "a"))), false},
		{"taken twice", steps(alone(put("a b")), []Op{take(1, "a"), take(1, "a"), length(2)}), false},
		{"out of order", steps(alone(put("a b")), []Op{take(1, "b"), length(2)}), false},
		{"overlooked", steps(alone(put("a")), []Op{take(1, ""), length(1)}), false},
		{"behind what is going", steps(alone(put("a b")), []Op{take(1, "b"), take(1, "a"), peek("a")}), true},
		{"nothing behind what is going", steps(alone(put("a")), []Op{take(1, ""), take(1, "a"), peek("a")}), true},
		{"seen behind what stays", steps(alone(put("a b c")), []Op{take(1, "a"), peek("c")}), false},
		{"unknown take that lingers", sequence(put("a b"), unknown(take(1, "")), take(1, "b"), peek("a"), length(0), take(1, "")), true},
		{"unknown take that comes back", sequence(put("a b"), unknown(take(1, "")), take(1, "b"), take(1, "a")), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Verify(with(c.h, twoSteps), Limit)
			var v *Violation
			if c.ok && err != nil || !c.ok && !errors.As(err, &v) {
				t.Errorf("Verify = %v, want legal: %v\n%s", err, c.ok, Listing(c.h))
			}
		})
	}
}

// A take that conflicts on what it removes alone is correct among puts and takes, and in two steps
// among those that look; and it is not as if it had one.
func TestTakesThatDependOnTheirItems(t *testing.T) {
	oneStep := false
	for _, k := range []kind{
		of(1, func(p plain) Target { return headOnly{p} }),
		of(2, func(p plain) Target { return headOnly{p} }),
		{ends: 2, fifoTies: true, open: func(db kv.DB, random io.Reader) Target {
			return headOnly{newPlain(db, random, recipe.FirstPushed)}
		}},
	} {
		for seed := range uint64(50 * *rounds) {
			h := runWoven(t, seed, k)
			if CheckShared(t, h); t.Failed() {
				t.Fatalf("seed %d", seed)
			}
			var v *Violation
			oneStep = oneStep || errors.As(Verify(h, Limit), &v)
		}
	}
	if !oneStep {
		t.Error("nobody who looked saw an item whose take was under way")
	}
}

// lateClear returns items before it removes them, in its client's next call. Nobody else takes them.
type lateClear struct {
	plain
	claimed map[string]bool // of all clients
	keys    [][]byte        // to be removed
}

func (l *lateClear) Take(ctx context.Context, end queue.End, n int) (all []Item, err error) {
	gone := l.keys
	l.keys = nil
	err = l.db.Transact(ctx, func(tx kv.Tx) error {
		for _, key := range l.keys { // of an attempt that has failed
			delete(l.claimed, string(key))
		}
		all, l.keys = nil, nil
		for _, key := range gone {
			tx.Clear(key)
		}
		for item, err := range l.q.Items(tx, kv.RangeOptions{}) {
			if err != nil || len(all) == n {
				return err
			}
			if !l.claimed[string(item.Key)] {
				l.claimed[string(item.Key)] = true
				all = append(all, Item{string(item.Value), Untold})
				l.keys = append(l.keys, item.Key)
			}
		}
		return nil
	})
	if err == nil && len(all) == 0 {
		err = conq.ErrEmpty
	}
	return all, err
}

// Both specifications find queues with a known mistake, but what only those see that look.
func TestBrokenTakes(t *testing.T) {
	claimed := make(map[string]bool) // keys are random
	late := func(p plain) Target { return &lateClear{plain: p, claimed: claimed} }
	for _, c := range []struct {
		name   string
		k      kind
		looked bool // only those see it that look
	}{
		{"snapshot read for the head", of(1, func(p plain) Target { return snapshotHead{p} }), false},
		{"snapshot read for both ends", of(2, func(p plain) Target { return snapshotHead{p} }), false},
		{"empty from an old snapshot", of(1, func(p plain) Target { return &staleEmpty{plain: p} }), false},
		{"last in, first out", of(1, func(p plain) Target { return lastFirst{p} }), false},
		{"take again after an unknown outcome", of(1, func(p plain) Target { return retry{headOnly{p}, false, true} }).withUnknown(), false},
		{"unknown outcome taken for a failure", of(1, func(p plain) Target { return denier{headOnly{p}} }).withUnknown(), false},
		{"removed after the call", of(1, late), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone, looked := false, false
			for seed := uint64(0); seed < 50 && !(looked && (alone || c.looked)); seed++ {
				h := runWoven(t, seed, c.k)
				var v *Violation
				alone = alone || errors.As(Verify(h.PutsAndTakes(), Limit), &v)
				looked = looked || errors.As(Verify(with(h, twoSteps), Limit), &v)
			}
			if !looked || alone == c.looked {
				t.Errorf("found among puts and takes: %v, with those that look: %v", alone, looked)
			}
		})
	}
}

// forgetful is a store whose transactions do not depend on items by hand.
type forgetful struct {
	kv.DB
	items kv.Range
}

func (f forgetful) Transact(ctx context.Context, do func(kv.Tx) error) error {
	return f.DB.Transact(ctx, func(tx kv.Tx) error { return do(forgetfulTx{tx, f.items}) })
}

type forgetfulTx struct {
	kv.Tx
	items kv.Range
}

func (tx forgetfulTx) AddReadConflict(r kv.Range) {
	if !tx.items.Contains(r.Begin) {
		tx.Tx.AddReadConflict(r)
	}
}

// Without a conflict on the items that they remove, handles give items to two, and both
// specifications find it. Where all stage, that they can't serve a request twice is enough.
func TestTakesNeedTheirConflicts(t *testing.T) {
	for _, m := range modes {
		if m.options.Staging == conq.StagingAlways && !m.mixed {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			for round := range 20 {
				w := weathers[1]
				w.faults.Limits.Value = 1000 // or what two take misses its pieces, and the drain fails
				f := newFixture(t, memory.New(memory.Options{}), w, m, round)
				for g, db := range f.groups {
					f.groups[g] = forgetful{db, subspace.Named("a").Range()}
				}
				found := false
				f.judge = func(histories ...History) {
					for _, h := range histories {
						var v *Violation
						alone := errors.As(Verify(h.PutsAndTakes(), Limit), &v)
						if looked := errors.As(Verify(with(h, twoSteps), Limit), &v); alone != looked {
							t.Errorf("found among puts and takes: %v, with those that look: %v", alone, looked)
						}
						found = found || alone
					}
				}
				f.run(Workload{Seed: f.seed, Clients: clients, Calls: calls(), Ends: 1}, f.queue("a"))
				if testkit.NoError(t, f.calm.Close()); found {
					return
				}
			}
			t.Error("not found")
		})
	}
}
