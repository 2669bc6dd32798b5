package staging

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
)

// serveAll has another client serve all requests, as if their owners had hung.
func serveAll(t *testing.T, db kv.DB, o Options) {
	t.Helper()
	o.Takeover = time.Nanosecond
	if _, err := Take(t.Context(), stage(db, o), Back, 1, values); err != nil && !errors.Is(err, ErrEmpty) {
		t.Fatal(err)
	}
}

// TestCollectTooLarge has a client want several items of which no two can be collected together,
// and one that can't be at all.
func TestCollectTooLarge(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{Operations: 40})
	fill(t, db, 4)
	s := stage(db, Options{})
	for _, c := range []struct {
		each int // keys that are cleared for each item
		want []string
	}{{16, []string{"0"}}, {60, nil}} {
		got, err := Take(t.Context(), s, Front, 3, func(tx kv.Tx, items []kv.KeyValue) ([]string, error) {
			for i := range len(items) * c.each {
				tx.Clear([]byte{byte(i)})
			}
			return values(tx, items)
		})
		if !slices.Equal(got, c.want) || errors.Is(err, kv.ErrTooLarge) != (c.want == nil) {
			t.Errorf("with %d keys each: got %q, %v", c.each, got, err)
		}
	}
}

// TestExpireManyItems has results be due that can't be put back in one transaction.
func TestExpireManyItems(t *testing.T) {
	db, clock := testkit.NewMemory(t, kv.Limits{Operations: 128}), newClock()
	fill(t, db, 100)
	o := Options{Now: clock.Now}
	for range 2 {
		register(t, stage(db, o), Front, 50) // and dies
		serveAll(t, db, o)
	}
	clock.Pass(time.Minute)
	s := stage(db, o)
	testkit.Check(t, s.Expire(t.Context()))
	nothingLeft(t, db)
	got, err := takeAll(t.Context(), s, Front, 1)
	if err != nil || len(got) < 98 || !slices.IsSortedFunc(got, func(a, b string) int { return number(a) - number(b) }) {
		t.Errorf("%d items are there, in order or not, %v: %q", len(got), err, got)
	}
}

// TestTakeoverWhileOthersLeave has the first client be dead, while those between leave one after
// the other: who waits takes over all the same.
func TestTakeoverWhileOthersLeave(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{})
		fill(t, db, 20)
		roleTaken(t, db)
		register(t, stage(db, Options{}), Front, 1) // and dies
		var ahead []*taking[[]string]
		for range 10 {
			ahead = append(ahead, register(t, stage(db, Options{}), Front, 1))
		}
		done := false
		go func() {
			_, err := Take(context.Background(), stage(db, Options{}), Front, 1, values)
			testkit.Check(t, err)
			done = true
		}()
		for _, a := range slices.Backward(ahead) {
			synctest.Wait()
			if !done {
				a.leave(context.Background(), context.Canceled)
				pass(200 * time.Millisecond)
			}
		}
		synctest.Wait()
		if _, err := ahead[0].step(context.Background()); err != nil {
			t.Errorf("all had to leave before the one behind took over: %v", err)
		}
		pass(time.Minute)
	})
}

// TestClose closes a Stage while clients wait: they leave, and it waits for them.
func TestClose(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{UnknownCommits: true})
		roleTaken(t, db)
		first := register(t, stage(db, Options{}), Front, 1)
		s := stage(db, Options{Takeover: time.Hour})
		for range 3 {
			go func() {
				if _, err := Take(context.Background(), s, Front, 1, values); !errors.Is(err, errStop) {
					t.Errorf("got %v", err)
				}
			}()
		}
		synctest.Wait()
		began := time.Now()
		testkit.Check(t, s.Close(context.Background(), errStop))
		if time.Since(began) > 0 {
			t.Errorf("Close waited for something else")
		}
		if _, err := Take(context.Background(), s, Front, 1, values); !errors.Is(err, errStop) {
			t.Errorf("afterwards: %v", err)
		}
		testkit.Equal(t, "requests that are left, of another client", leftovers(t, db), 1)
		testkit.Check(t, s.Close(context.Background(), errStop))
		first.leave(context.Background(), errStop)
	})
}

// TestCloseForgets checks that no outcome keys stay behind, whether the fulfiller is still at work or not.
func TestCloseForgets(t *testing.T) {
	for _, lingers := range []bool{true, false} {
		testkit.Bubble(t, func(t *testing.T) {
			db := testkit.NewMemory(t, kv.Limits{UnknownCommits: true})
			fill(t, db, 1)
			s := stage(db, Options{})
			testkit.NoError(t, drop(takeAll(t.Context(), s, Front, 1)))
			if !lingers {
				pass(2 * lingering)
			}
			outcomes := subspace.Named("outcomes").Range()
			testkit.Equal(t, "there are outcome keys", count(t, db, outcomes) > 0, true)
			testkit.NoError(t, s.Close(t.Context(), errStop))
			testkit.Equal(t, "outcome keys after Close", count(t, db, outcomes), 0)
		})
	}
}

// TestDropRenewed has a client renew its request while another one drops it: it stays.
func TestDropRenewed(t *testing.T) {
	db, clock := testkit.NewMemory(t, kv.Limits{}), newClock()
	mine := register(t, stage(db, Options{Now: clock.Now}), Front, 1)
	clock.Pass(time.Minute)
	renewed := false
	other := stage(db, Options{Now: func() time.Time {
		if !renewed {
			renewed = true
			testkit.Write(t, db, kv.KeyValue{Key: mine.request.key, Value: state(1, clock.Now().Add(time.Hour).UnixNano())})
		}
		return clock.Now()
	}})
	testkit.Check(t, other.dropDead(t.Context()))
	if n := leftovers(t, db); !renewed || n != 1 {
		t.Errorf("%d requests are left", n)
	}
}
