package kv_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

const day = 24 * time.Hour

// cleaner is the store as one sees it who removes old outcome keys.
func (f *fixture) cleaner() kv.DB {
	return faulty.New(f.store, 2, faulty.Options{Limits: kv.Limits{UnknownCommits: true}})
}

func forget(t testing.TB, db kv.DB) {
	t.Helper()
	testkit.NoError(t, kv.ForgetOutcomes(t.Context(), db, kv.KeyRange(laneKey), 10))
}

// A lane whose key is removed, since it was idle for long, is as good as before: each
// transaction happens once, whatever becomes of its commits, and whenever the key is
// removed.
func TestForgetOutcomesOfIdleLane(t *testing.T) {
	cleaned := 0
	schedules(3, func(fates []faulty.Fate) {
		for _, each := range []bool{false, true} { // before all, or at each commit
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, append([]faulty.Fate{{}}, fates...)...)
				cleaner := f.cleaner()
				_, err := kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "1") })
				testkit.NoError(t, err)
				<-time.After(kv.OutcomeAge + day)
				if each {
					f.commit = func() { forget(t, cleaner) }
				} else {
					forget(t, cleaner)
				}
				key, err := kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "2") })
				testkit.NoError(t, err)
				f.commit = func() {}
				f.db.Flush()
				state := f.state(t)
				if len(state) != 2 || state[key] != "2" {
					t.Fatalf("after %v, at each commit %v: %v, with the new one at %s", fates, each, state, key)
				}
				cleaned++
			})
		}
	})
	if cleaned < 1000 {
		t.Errorf("only %d cases", cleaned)
	}
}

// What is younger than OutcomeAge stays, and what is no outcome.
func TestForgetOutcomesAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		cleaner := f.cleaner()
		write := func() {
			_, err := kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "1") })
			testkit.NoError(t, err)
		}
		there := func(want bool) {
			t.Helper()
			testkit.Equal(t, "the key is there", f.held(t), want)
		}
		write()
		<-time.After(kv.OutcomeAge - time.Minute)
		forget(t, cleaner)
		there(true)
		write() // it is in use
		<-time.After(kv.OutcomeAge - time.Minute)
		forget(t, cleaner)
		there(true)
		<-time.After(2 * time.Minute)
		forget(t, f.store) // whose outcomes are always known: nothing is looked at
		there(true)
		forget(t, cleaner)
		there(false)
		f.set(t, string(laneKey), "something else")
		forget(t, cleaner)
		there(true)
	})
}

// Who finds out about an attempt so late that its key may have been removed since
// does not run it again: it is not known whether it took effect.
func TestForgetOutcomesTooLate(t *testing.T) {
	for _, removed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, faulty.Fate{Outcome: faulty.Applied})
			cleaner := f.cleaner()
			slow := &sleepy{DB: f.db, before: func(attempt int) {
				if attempt == 2 {
					<-time.After(kv.OutcomeAge + day)
					if removed {
						forget(t, cleaner)
					}
				}
			}}
			lane := kv.NewOnce(slow, laneKey, nil)
			_, err := kv.TransactOnce(t.Context(), lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "1") })
			if removed != errors.Is(err, kv.ErrCommitUnknown) || !removed && err != nil {
				t.Errorf("key removed %v: %v", removed, err)
			}
			if state := f.state(t); len(state) != 1 {
				t.Errorf("key removed %v: %v is there, want it once", removed, state)
			}
			_, err = kv.TransactOnce(t.Context(), lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "2") })
			testkit.NoError(t, err)
		})
	}
}

// sleepy calls a function before each attempt of a transaction, counted from 1 on.
type sleepy struct {
	kv.DB
	before   func(attempt int)
	attempts int
}

func (s *sleepy) Transact(ctx context.Context, f func(kv.Tx) error) error {
	s.attempts++
	s.before(s.attempts)
	return s.DB.Transact(ctx, f)
}

func TestOutcomeTime(t *testing.T) {
	f := newFixture(t)
	before := time.Now()
	_, err := kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "1") })
	testkit.NoError(t, err)
	value := testkit.Value(t, f.store, laneKey)
	at, ok := kv.OutcomeTime(value)
	if !ok || at.Before(before.Truncate(time.Microsecond)) || at.After(time.Now()) {
		t.Errorf("%x: written at %v, %v; want a time from %v on", value, at, ok, before)
	}
	newer := append([]byte{2}, value[1:]...)
	for _, other := range [][]byte{nil, value[1:], append(value, 0), newer} {
		if _, ok := kv.OutcomeTime(other); ok {
			t.Errorf("%x is taken for an outcome", other)
		}
	}
}
