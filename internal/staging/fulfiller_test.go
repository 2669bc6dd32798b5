package staging

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// held tells whether the key of the role is there.
func held(t *testing.T, s *Stage) bool {
	t.Helper()
	return testkit.Value(t, s.db, s.keys.kind(fulfillerKind)) != nil
}

// The role is given up when nothing is asked for for a while, or at once at Close.
func TestRoleEnds(t *testing.T) {
	for _, closes := range []bool{false, true} {
		testkit.Bubble(t, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{})
			fill(t, db, 1)
			s := stage(db, Options{})
			testkit.NoError(t, drop(Take(t.Context(), s, Front, 1, values)))
			testkit.Equal(t, "held after a take", held(t, s), true)
			began := time.Now()
			if closes {
				testkit.NoError(t, s.Close(t.Context(), errStop))
				testkit.Equal(t, "time that Close took", time.Since(began), 0)
			} else {
				pass(2 * lingering)
			}
			testkit.Equal(t, "held after the end", held(t, s), false)
		})
	}
}

// A process in the role serves the requests of others without any of them fulfilling, also when its own
// callers ask for nothing more; and its own callers need no request.
func TestServesOthers(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{})
		fill(t, db, 20)
		var mine []Event
		var mu sync.Mutex
		s := stage(db, Options{Observe: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			mine = append(mine, e)
		}})
		testkit.NoError(t, drop(Take(t.Context(), s, Front, 1, values)))
		var wg sync.WaitGroup
		for range 5 {
			other := stage(db, Options{Observe: func(e Event) {
				if e.Kind == Fulfilled {
					t.Error("another process fulfils")
				}
			}})
			wg.Go(func() {
				for range 3 {
					testkit.Check(t, drop(Take(t.Context(), other, Front, 1, values)))
				}
			})
		}
		wg.Wait()
		synctest.Wait() // until the last is told of
		mu.Lock()
		defer mu.Unlock()
		served := 0
		for _, e := range mine {
			if e.Kind == Registered {
				t.Error("a caller of the process in the role has written a request")
			}
			if e.Kind == Fulfilled {
				served += e.Requests
			}
		}
		testkit.Equal(t, "requests served", served, 16)
	})
}

// If the process in the role dies, the first client that waits takes it after a while, and serves
// those behind it from then on.
func TestFulfillerDies(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{})
		fill(t, db, 10)
		roleTaken(t, db)
		began := time.Now()
		var wg sync.WaitGroup
		for range 4 {
			s := stage(db, Options{})
			wg.Go(func() { testkit.Check(t, drop(Take(t.Context(), s, Front, 1, values))) })
		}
		wg.Wait()
		if took := time.Since(began); took > time.Second {
			t.Errorf("all were served after %v", took)
		}
	})
}

// Clients keep their places in a line that takes longer than a lease, as long as it moves.
func TestLongLine(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{})
		fill(t, db, 2)
		roleTaken(t, db)
		const lease, inFront = time.Second, 30
		var requests []request
		for range inFront {
			requests = append(requests, *register(t, stage(db, Options{Lease: time.Hour}), Front, 1).request)
		}
		var registered atomic.Int32
		got := make([][]string, 2)
		var wg sync.WaitGroup
		for i := range got {
			s := stage(db, Options{Lease: lease, Observe: func(e Event) {
				if e.Kind == Registered {
					registered.Add(1)
				}
			}})
			wg.Go(func() {
				var err error
				got[i], err = Take(t.Context(), s, Front, 1, values)
				testkit.Check(t, err)
			})
			synctest.Wait()
		}
		for _, r := range requests {
			pass(lease / 10)
			testkit.Remove(t, db, kv.KeyRange(r.key))
		}
		wg.Wait()
		testkit.EqualSlices(t, "got", slices.Concat(got...), []string{"0", "1"})
		testkit.Equal(t, "requests written", registered.Load(), 2)
	})
}

// A request that is written while the role is given up keeps that from happening, or whoever writes it
// sees that nobody is there.
func TestResignBesideRegister(t *testing.T) {
	for _, first := range []string{"resign", "register"} {
		testkit.Bubble(t, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{})
			fill(t, db, 2)
			hooked := &testkit.Hooked{DB: db}
			s, other := stage(db, Options{}), stage(hooked, Options{})
			s.fulfiller.serving = true // what follows is up to this test
			testkit.NoError(t, drop(Take(t.Context(), s, Front, 1, values)))
			var attempts atomic.Int32
			var got []string
			register := func() {
				var err error
				got, err = Take(t.Context(), other, Front, 1, values)
				testkit.Check(t, err)
			}
			if first == "resign" { // it commits before the request does
				hooked.Attempt = func(tx kv.Tx) kv.Tx {
					if attempts.Add(1) == 1 {
						_, err := tx.Get(s.keys.kind(fulfillerKind)) // what it will see
						testkit.Check(t, err)
						testkit.Equal(t, "resigned", s.resign(), true)
					}
					return tx
				}
				register()
				if attempts.Load() < 2 {
					t.Error("the request does not depend on the role")
				}
				testkit.EqualSlices(t, "got", got, []string{"1"})
				return
			}
			go register()
			synctest.Wait()
			testkit.Equal(t, "resigned beside a request", s.resign(), false)
			f, err := s.serveSome()
			testkit.NoError(t, err)
			testkit.Equal(t, "served", len(f.ops), 1)
			synctest.Wait()
			testkit.EqualSlices(t, "got", got, []string{"1"})
			testkit.Equal(t, "resigned", s.resign(), true)
		})
	}
}

// Two that have the role one after the other serve nothing twice: the one that has lost it finds out.
func TestRoleLost(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	fill(t, db, 3)
	s := stage(db, Options{})
	s.fulfiller.serving = true
	testkit.NoError(t, drop(Take(t.Context(), s, Front, 1, values)))
	roleTaken(t, db)
	waits := register(t, stage(db, Options{}), Front, 1)
	if f, err := s.serveSome(); !errors.Is(err, errLost) || len(f.ops) > 0 {
		t.Errorf("served %d requests, %v", len(f.ops), err)
	}
	waits.leave(t.Context(), context.Canceled)
	testkit.Equal(t, "gives up what it has lost", s.resign(), true)
	if !held(t, s) {
		t.Error("it has taken the role from the other process")
	}
	got, err := Take(t.Context(), stage(db, Options{Takeover: time.Nanosecond}), Front, 1, values)
	if err != nil || !slices.Equal(got, []string{"1"}) {
		t.Errorf("got %q, %v", got, err)
	}
}
