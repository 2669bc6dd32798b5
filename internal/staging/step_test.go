package staging

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/subspace"
)

// TestRegisterLandsLate registers with a commit that lands when the next attempt
// is under way, which has another ticket: the request that is there is the one
// that the client waits for.
func TestRegisterLandsLate(t *testing.T) {
	for after := 1; after <= 5; after++ {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			store := testkit.NewMemory(t, kv.Limits{})
			first := true
			db := faulty.New(store, 1, faulty.Options{Choose: func() faulty.Fate {
				if !first {
					return faulty.Fate{}
				}
				first = false
				return faulty.Fate{Outcome: faulty.Late, After: after}
			}})
			m := &mortal{DB: db, before: func(n int) {
				if n == 2 {
					register(t, stage(store, Options{}), Front, 1)
				}
			}}
			mine := register(t, stage(m, Options{}), Front, 1)
			db.Flush()
			testkit.Equal(t, "requests that the client waits for", count(t, store, kv.KeyRange(mine.request.key)), 1)
			testkit.Equal(t, "requests, one of each client", count(t, store, subspace.Named("stage").Range()), 2)
		})
	}
}

// TestTooLarge checks that nobody is stuck whose requests can't be served in one
// transaction, however small its limits are.
func TestTooLarge(t *testing.T) {
	const size = 1000
	for _, l := range []kv.Limits{
		{Transaction: size + 200, Value: size}, {Operations: 8}, {Operations: 9}, {Operations: 20}, {Operations: 128},
	} {
		t.Run(fmt.Sprintf("%d bytes, %d operations", l.Transaction, l.Operations), func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				const clients = 40
				db := testkit.NewMemory(t, l)
				for range clients {
					testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
						return testQueue.Enqueue(tx, make([]byte, size))
					}))
				}
				register(t, stage(db, Options{}), Front, 3) // and dies
				var wg sync.WaitGroup
				for c := range clients {
					wg.Go(func() {
						if _, err := takeAll(context.Background(), stage(db, Options{}), Side(c%2), 1+c%3); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				pass(time.Minute)
				if _, err := takeAll(context.Background(), stage(db, Options{}), Front, 1); err != nil {
					t.Error(err)
				}
				if l.Operations == 0 {
					return // so few bytes as here are not enough for all that follow
				}
				for name, clean := range map[string]func(*Stage) error{
					"who takes": func(s *Stage) error { return drop(takeAll(context.Background(), s, Front, 1)) },
					"Expire":    func(s *Stage) error { return s.Expire(context.Background()) },
				} {
					for range 2 * clients {
						register(t, stage(db, Options{}), Front, 1) // and dies
					}
					pass(time.Minute)
					if err := clean(stage(db, Options{})); err != nil {
						t.Errorf("%s: %v", name, err)
					}
					pass(time.Second) // for the process in the role
					if n := leftovers(t, db); n > 0 {
						t.Errorf("%s left %d keys behind", name, n)
					}
				}
			})
		})
	}
}

func drop(_ any, err error) error { return err }

// contexts notes the contexts of transactions: a watch lives as long as its own.
type contexts struct {
	kv.DB
	mu   sync.Mutex
	live []context.Context
	most int
}

func (c *contexts) Transact(ctx context.Context, f func(kv.Tx) error) error {
	c.mu.Lock()
	c.live = slices.DeleteFunc(c.live, func(ctx context.Context) bool { return ctx.Err() != nil })
	c.live = append(c.live, ctx)
	c.most = max(c.most, len(c.live))
	c.mu.Unlock()
	return c.DB.Transact(ctx, f)
}

// TestWatchesEnd checks that a client which waits for long does not gather
// watches, and leaves none behind.
func TestWatchesEnd(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		db := testkit.NewMemory(t, kv.Limits{})
		s := stage(db, Options{})
		var ahead []*taking[[]string]
		for range 20 {
			ahead = append(ahead, register(t, s, Front, 1))
		}
		mine := &contexts{DB: db}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := Take(context.Background(), stage(mine, Options{}), Front, 1, values); !errors.Is(err, ErrEmpty) {
				t.Error(err)
			}
		})
		for i := len(ahead) - 1; i >= 0; i-- { // those in front of it leave
			synctest.Wait()
			ahead[i].leave(context.Background(), context.Canceled)
		}
		wg.Wait()
		mine.mu.Lock()
		defer mine.mu.Unlock()
		if mine.most > 1 {
			t.Errorf("the watches of %d transactions were there at the same time", mine.most)
		}
		for _, ctx := range mine.live {
			if ctx.Err() == nil {
				t.Error("a watch is left behind")
			}
		}
	})
}

// TestCancelWhileUnknown cancels a client whose collecting has an unknown outcome:
// it finds out before it leaves, and returns the item that it has taken.
func TestCancelWhileUnknown(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	fill(t, db, 1)
	ctx, cancel := context.WithCancel(t.Context())
	m := &mortal{DB: db, at: 1, fate: unknownApplied}
	m.before = func(n int) {
		if n == 2 {
			cancel()
		}
	}
	got, err := Take(ctx, stage(m, Options{}), Front, 1, values)
	if err != nil || !slices.Equal(got, []string{"0"}) || m.hit != "fulfil own" {
		t.Errorf("after an unknown %q the client that is canceled gets %q, %v; want its item", m.hit, got, err)
	}
}

// breaking is a store that breaks down with the commit of its nth transaction that
// writes, which is applied: the outcome is unknown, and then all fails as the one
// before failed.
type breaking struct {
	kv.DB
	at, writes int
	broken     bool
}

var errBroken = errors.New("broken")

func (b *breaking) Limits() kv.Limits { return kv.Limits{UnknownCommits: true} }

func (b *breaking) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if b.broken {
		return errBroken
	}
	var r *recorder
	err := b.DB.Transact(ctx, func(tx kv.Tx) error {
		r = &recorder{Tx: tx}
		return f(r)
	})
	if err == nil && r.wrote() {
		if b.writes++; b.writes == b.at {
			b.broken = true
			return kv.ErrCommitUnknown
		}
	}
	return err
}

// TestLeaveUnknown has a client leave for an error that comes again while it takes
// what it was given, with an unknown outcome: its error tells that items may be gone.
func TestLeaveUnknown(t *testing.T) {
	for _, why := range []error{errBroken, errStop, context.Canceled} {
		store := testkit.NewMemory(t, kv.Limits{})
		fill(t, store, 1)
		db := &breaking{DB: store, at: 2} // after its request
		mine := register(t, stage(db, Options{}), Front, 1)
		if _, err := Take(t.Context(), stage(store, Options{}), Back, 1, values); !errors.Is(err, ErrEmpty) { // it serves both
			t.Fatal(err)
		}
		got, err := mine.leave(t.Context(), why)
		if got != nil || !errors.Is(err, kv.ErrCommitUnknown) || !errors.Is(err, why) {
			t.Errorf("leaving for %q, with an unknown outcome, returned %q, %v", why, got, err)
		}
		if left, err := takeAll(t.Context(), stage(store, Options{}), Front, 1); err != nil || len(left) > 0 {
			t.Errorf("%q are left, %v: so the item can't have been taken", left, err)
		}
	}
}

// TestCollectOrExpire has a result put back while its owner collects it: one of
// them gets the item.
func TestCollectOrExpire(t *testing.T) {
	for _, first := range []string{"owner", "expiry"} {
		t.Run(first+" commits first", func(t *testing.T) {
			db, clock := testkit.NewMemory(t, kv.Limits{}), newClock()
			fill(t, db, 1)
			s := stage(db, Options{Now: clock.Now})
			owner := register(t, s, Front, 1)
			if _, err := Take(t.Context(), s, Back, 1, values); !errors.Is(err, ErrEmpty) { // it takes over
				t.Fatal(err)
			}
			clock.Pass(time.Minute)
			collect := func() ([]string, error) {
				look, err := owner.step(t.Context())
				return look.value, err
			}
			expire := func() { testkit.Check(t, s.expire(t.Context())) }
			var got []string
			var err error
			if first == "expiry" {
				owner.collect = func(tx kv.Tx, items []kv.KeyValue) ([]string, error) {
					expire()
					return values(tx, items)
				}
				got, err = collect()
			} else {
				late := stage(db, Options{Now: clock.Now, PutBack: func(kv.Tx) error {
					if got == nil {
						got, err = collect()
					}
					return nil
				}})
				testkit.Check(t, late.expire(t.Context()))
			}
			if first == "expiry" && (got != nil || !errors.Is(err, errExpired)) {
				t.Errorf("the owner got %q, %v", got, err)
			}
			if first == "owner" && (err != nil || !slices.Equal(got, []string{"0"})) {
				t.Errorf("the owner got %q, %v", got, err)
			}
			left, err := takeAll(t.Context(), s, Front, 1)
			if err != nil || len(left)+len(got) != 1 {
				t.Errorf("the owner got %q, and %q are left, %v", got, left, err)
			}
		})
	}
}
