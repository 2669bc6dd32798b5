package handle_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

// contended is a store where others are always faster, when so many transactions
// more have committed and until somebody calms it.
type contended struct {
	testkit.Hooked
	left atomic.Int64
}

func (c *contended) Transact(ctx context.Context, f func(kv.Tx) error) error {
	return c.Hooked.Transact(ctx, func(tx kv.Tx) error {
		err := f(tx)
		if err == nil && c.left.Add(-1) < 0 {
			return kv.ErrConflict
		}
		return err
	})
}

func (c *contended) calm() { c.left.Store(1 << 40) }

// A call in a batch whose transaction runs again and again leaves when its context
// ends, whoever runs the batch and however long the others are willing to wait; and
// takes and adds nothing.
func TestLeaveBatch(t *testing.T) {
	for _, end := range allEnds {
		for position := range 3 {
			for _, verb := range []string{"add", "take", "wait"} {
				t.Run(fmt.Sprintf("%s, %s, as number %d", end.name, verb, position), func(t *testing.T) {
					testkit.Bubble(t, func(t *testing.T) {
						db := &contended{Hooked: testkit.Hooked{DB: memory.New(memory.Options{})}}
						db.calm()
						defer func() { testkit.NoError(t, db.Close()) }()
						l := leaving{t, db, end.open(t, db, conq.Options{Staging: conq.StagingNever}), end.open(t, db.DB, conq.Options{})}
						l.leave(verb, position)
					})
				})
			}
		}
	}
}

type leaving struct {
	t     *testing.T
	db    *contended
	v     endVerbs
	other endVerbs // on a store without contention
}

// leave has three calls share a batch, of which one leaves.
func (l leaving) leave(verb string, position int) {
	t := l.t
	call := l.v.take
	if verb == "wait" {
		call = l.v.wait
	}
	if verb == "add" {
		call = func(ctx context.Context, n int) ([]string, error) { return nil, l.v.add(ctx, fmt.Sprint(n)) }
	}
	hold := make(chan struct{})
	if verb != "wait" { // so that the others come together while it is held
		testkit.NoError(t, l.other.add(t.Context(), "0"))
		l.db.Attempt = func(tx kv.Tx) kv.Tx { <-hold; return tx }
		go func() { testkit.Check(t, drop(call(t.Context(), 1))) }()
		synctest.Wait()
	}
	calls := make([]*combined, 3)
	var done [3]atomic.Bool
	for i := range calls {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if i == position {
			ctx, cancel = context.WithTimeoutCause(ctx, time.Second, errEnough)
		}
		defer cancel()
		calls[i] = new(combined)
		go func() {
			calls[i].values, calls[i].err = call(ctx, 1+i)
			if calls[i].err == nil {
				calls[i].values = append(calls[i].values, "done")
			}
			done[i].Store(true)
		}()
		synctest.Wait()
	}
	l.db.left.Store(map[string]int64{"add": 1, "take": 1}[verb]) // of the one that is held
	for i := range 6 {
		if verb != "add" {
			testkit.NoError(t, l.other.add(t.Context(), fmt.Sprint(i+1)))
		}
	}
	close(hold)
	began := time.Now()
	for !done[position].Load() && time.Since(began) < time.Minute {
		pass(10 * time.Millisecond)
	}
	testkit.WantError(t, calls[position].err, errEnough)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it left after %v", took)
	}
	for i := range calls {
		testkit.Equal(t, fmt.Sprintf("call %d has returned", i), done[i].Load(), i == position)
	}
	l.db.calm()
	pass(time.Minute)
	synctest.Wait()
	var got []string
	for i, c := range calls {
		if i != position {
			testkit.NoError(t, c.err)
			got = append(got, c.values[:len(c.values)-1]...)
		}
	}
	rest, err := l.other.take(t.Context(), 10)
	testkit.NoError(t, drop(rest, err))
	if got = append(got, rest...); verb == "add" {
		want := slices.Delete([]string{"1", "2", "3"}, position, position+1)
		testkit.EqualSlices(t, "added", got, append([]string{"0", "1"}, want...))
	} else {
		testkit.EqualSlices(t, "items, in order", got, []string{"1", "2", "3", "4", "5", "6"})
	}
}

// However callers give up while outcomes are unknown: who got an error that is not
// kv.ErrCommitUnknown has added and taken nothing, and nothing is lost or doubled.
func TestLeaveUnknown(t *testing.T) {
	for _, mode := range []conq.Staging{conq.StagingNever, conq.StagingAlways, conq.StagingAuto} {
		for seed := range uint64(testkit.Cases(60)) {
			testkit.Bubble(t, func(t *testing.T) { leaveUnknown(t, mode, seed) })
		}
	}
}

func leaveUnknown(t *testing.T, mode conq.Staging, seed uint64) {
	c := testkit.NewCluster(t, 1000*seed, faulty.Options{
		Conflict: 0.2, Dropped: 0.15, Applied: 0.15, Late: 0.15, Delay: 0.5, MaxDelay: 2 * time.Millisecond,
	})
	defer c.Close()
	db := c.Process()
	q := opened(t, func() (*conq.Queue[string], error) {
		return conq.OpenQueue(t.Context(), db, "q", conq.String(), conq.Options{Staging: mode})
	})
	const callers, calls = 8, 10
	var added, maybe, got [callers][]string
	var lost atomic.Bool // a call that took does not know whether it did
	testkit.Together(callers, func(c int) {
		r := rand.New(rand.NewPCG(seed, uint64(c)))
		for i := range calls {
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if r.IntN(3) > 0 {
				ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(r.IntN(6000))*time.Microsecond, errEnough)
			}
			v := fmt.Sprintf("%d %d", c, i)
			switch r.IntN(4) {
			case 0, 1:
				err := q.Enqueue(ctx, v)
				if err != nil && !errors.Is(err, errEnough) {
					t.Errorf("seed %d: adding failed with %v, and not with the cause", seed, err)
				}
				switch {
				case err == nil:
					added[c] = append(added[c], v)
				case errors.Is(err, kv.ErrCommitUnknown):
					maybe[c] = append(maybe[c], v)
				}
			case 2:
				values, err := q.DequeueN(ctx, 1+r.IntN(3))
				got[c] = append(got[c], values...)
				lost.Store(lost.Load() || errors.Is(err, kv.ErrCommitUnknown))
			case 3:
				wait, stop := context.WithTimeout(ctx, 5*time.Millisecond)
				values, err := q.DequeueWaitN(wait, 1+r.IntN(3))
				got[c] = append(got[c], values...)
				lost.Store(lost.Load() || errors.Is(err, kv.ErrCommitUnknown))
				stop()
			}
			cancel()
		}
	})
	db.Flush()
	pass(time.Minute)
	calm := newQueue(t, c.Inner, conq.String())
	testkit.NoError(t, calm.Reclaim(t.Context()))
	there := make(map[string]int)
	rest, err := calm.DequeueN(t.Context(), 1000)
	testkit.NoError(t, drop(rest, err))
	for _, v := range append(slices.Concat(got[:]...), rest...) {
		there[v]++
	}
	for _, v := range slices.Concat(maybe[:]...) {
		if there[v] > 1 {
			t.Errorf("seed %d: %s is there %d times", seed, v, there[v])
		}
		delete(there, v)
	}
	for _, v := range slices.Concat(added[:]...) {
		if there[v] != 1 && (there[v] > 1 || !lost.Load()) {
			t.Errorf("seed %d: %s was added, and is there %d times", seed, v, there[v])
		}
		delete(there, v)
	}
	for v := range there {
		t.Errorf("seed %d: %s is there, and was not added", seed, v)
	}
}
