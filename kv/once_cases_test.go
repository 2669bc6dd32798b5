package kv_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// When ctx ends before the outcome is known, the error says both, and the next
// transaction of the lane makes sure of it.
func TestOnceContextEnds(t *testing.T) {
	cause := errors.New("cause")
	for _, fate := range fates {
		for _, forget := range []bool{false, true} {
			f := newFixture(t, fate)
			ctx, cancel := context.WithCancelCause(t.Context())
			f.commit = func() { cancel(cause) }
			_, err := kv.TransactOnce(ctx, f.lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "new") })
			// The end of ctx may reach the store before the commit does, and then it is
			// known that there was none.
			known := !errors.Is(err, kv.ErrCommitUnknown)
			if !errors.Is(err, cause) || known && (fate.Outcome != faulty.Applied || len(f.state(t)) > 0) {
				t.Errorf("%v: error %v, want the cause, and ErrCommitUnknown if it may have been committed", fate, err)
			}
			if forget {
				testkit.NoError(t, f.lane.Forget(t.Context()))
			} else {
				f.once(t, func(tx kv.Tx) (string, error) { tx.Set([]byte("other"), nil); return "", nil })
			}
			before := f.state(t)
			f.db.Flush()
			if got := f.state(t); !maps.Equal(got, before) {
				t.Errorf("%v: after a later transaction the store still changed from %q to %q", fate, before, got)
			}
		}
	}
}

// So it does when the function fails because ctx has ended.
func TestOnceContextEndsInFunction(t *testing.T) {
	for _, own := range []error{nil, errFull} {
		f := newFixture(t, faulty.Fate{Outcome: faulty.Late})
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		_, err := kv.TransactOnce(ctx, f.lane, func(tx kv.Tx) (string, error) {
			if n++; n == 1 {
				return f.enqueue(tx, "q", "new")
			}
			cancel()
			return "", own
		})
		if !errors.Is(err, kv.ErrCommitUnknown) || !errors.Is(err, context.Canceled) || errors.Is(err, errFull) {
			t.Errorf("error %v, want ErrCommitUnknown and context.Canceled alone", err)
		}
	}
}

// A store that fails for good leaves the outcome unknown too.
func TestOnceStoreCloses(t *testing.T) {
	f := newFixture(t, faulty.Fate{Outcome: faulty.Dropped})
	f.commit = func() { testkit.NoError(t, f.store.Close()) }
	_, err := kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "new") })
	if !errors.Is(err, kv.ErrCommitUnknown) || !errors.Is(err, kv.ErrClosed) {
		t.Errorf("error %v, want ErrCommitUnknown and ErrClosed", err)
	}
}

// An unknown outcome of something else is an error of the function as any other.
func TestOnceUnknownErrorOfFunction(t *testing.T) {
	f := newFixture(t)
	n := 0
	_, err := kv.TransactOnce(t.Context(), f.lane, func(kv.Tx) (string, error) { n++; return "x", kv.ErrCommitUnknown })
	if err != kv.ErrCommitUnknown || n != 1 {
		t.Errorf("error %v after %d attempts, want the function's after 1", err, n)
	}
}

func TestOncePanics(t *testing.T) {
	f := newFixture(t, faulty.Fate{Outcome: faulty.Dropped})
	n := 0
	func() {
		defer func() {
			if got := recover(); got != errFull {
				t.Errorf("recovered %v, want what the function panicked with", got)
			}
		}()
		_, _ = kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) {
			if n++; n == 2 {
				panic(errFull)
			}
			return f.enqueue(tx, "q", "new")
		})
	}()
	f.once(t, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "other") })
	if got := f.state(t); len(got) != 1 {
		t.Errorf("the store holds %q, want one item", got)
	}
}

// A transaction that writes nothing does not touch the key, one that writes in any
// way does.
func TestOnceWritesOnlyWithWrites(t *testing.T) {
	writes := map[string]func(kv.Tx){
		"Set":              func(tx kv.Tx) { tx.Set([]byte("k"), nil) },
		"Clear":            func(tx kv.Tx) { tx.Clear([]byte("k")) },
		"ClearRange":       func(tx kv.Tx) { tx.ClearRange(kv.Range{}) },
		"Add":              func(tx kv.Tx) { tx.Add([]byte("k"), 1) },
		"AddWriteConflict": func(tx kv.Tx) { tx.AddWriteConflict(kv.Range{}) },
		"":                 func(tx kv.Tx) { tx.AddReadConflict(kv.Range{}) },
	}
	for name, write := range writes {
		f := newFixture(t)
		f.once(t, func(tx kv.Tx) (string, error) { write(tx); return "", nil })
		if held := f.held(t); held != (name != "") {
			t.Errorf("after %q the outcome key is there: %t", name, held)
		}
	}
}

// held tells whether the outcome key holds something.
func (f *fixture) held(t *testing.T) bool { return testkit.Value(t, f.store, laneKey) != nil }

// Where outcomes are always known, it is Transact.
func TestOnceOverCertainStore(t *testing.T) {
	f := newFixture(t)
	f.lane = kv.NewOnce(f.store, laneKey, iotest.ErrReader(errFull))
	result, _ := f.once(t, func(tx kv.Tx) (string, error) {
		inner, err := kv.TransactOnce(tx.Context(), f.lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "inner") })
		testkit.NoError(t, err)
		outer, err := f.enqueue(tx, "r", "outer")
		return inner + " " + outer, err
	})
	if result != "q/1/1 r/1/2" {
		t.Errorf("result %q", result)
	}
	if _, err := kv.TransactOnce(t.Context(), f.lane, endings["error"]); err != errFull {
		t.Errorf("error %v, want the function's", err)
	}
	testkit.NoError(t, f.lane.Forget(t.Context()))
	if f.held(t) {
		t.Error("the outcome key was written")
	}
}

func TestOnceForget(t *testing.T) {
	schedules(2, func(fates []faulty.Fate) {
		f := newFixture(t)
		f.once(t, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "new") })
		f.db = faulty.New(f.store, 1, faulty.Options{Choose: func() (fate faulty.Fate) {
			if len(fates) > 0 {
				fate, fates = fates[0], fates[1:]
			}
			return fate
		}})
		testkit.NoError(t, kv.NewOnce(f.db, laneKey, nil).Forget(t.Context()))
		f.db.Flush()
		if f.held(t) || len(f.state(t)) != 1 {
			t.Errorf("after Forget with %v the key is there: %t; the store holds %q", fates, f.held(t), f.state(t))
		}
		f.once(t, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "new") })
		if !f.held(t) {
			t.Error("after Forget the lane was not usable")
		}
	})
}

// What is no outcome is not overwritten.
func TestOnceForeignKey(t *testing.T) {
	for _, value := range []string{"", "item", "\x02" + strings.Repeat("x", 20)} {
		f := newFixture(t)
		f.set(t, string(laneKey), value)
		_, err := kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "new") })
		forget := f.lane.Forget(t.Context())
		if !errors.Is(err, kv.ErrInvalid) || !strings.Contains(err.Error(), `"lane"`) || !errors.Is(forget, kv.ErrInvalid) {
			t.Errorf("with %q at the key: errors %v, %v, want ErrInvalid and the key", value, err, forget)
		}
		if !f.held(t) || len(f.state(t)) > 0 {
			t.Errorf("with %q at the key something was written", value)
		}
	}
}

func TestOnceRandomFails(t *testing.T) {
	f := newFixture(t)
	f.lane = kv.NewOnce(f.db, laneKey, iotest.ErrReader(errFull))
	if _, err := kv.TransactOnce(t.Context(), f.lane, endings["nothing written"]); !errors.Is(err, errFull) {
		t.Errorf("error %v, want that of the source of random bytes", err)
	}
}

// Transactions of a lane exclude each other, and who waits listens to its context.
func TestOnceExcludes(t *testing.T) {
	f := newFixture(t)
	cause := errors.New("cause")
	f.once(t, func(kv.Tx) (string, error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		go cancel(cause)
		if _, err := kv.TransactOnce(ctx, f.lane, endings["error"]); err != cause {
			t.Errorf("error %v of a call that waited, want the cause of its context", err)
		}
		if err := f.lane.Forget(ctx); err != cause {
			t.Errorf("error %v of Forget, want the cause of its context", err)
		}
		return "", nil
	})
	var inside atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			_, err := kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) {
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d at once", n)
				}
				defer inside.Add(-1)
				_, err := tx.Get([]byte("k"))
				return "", err
			})
			testkit.Check(t, err)
		})
	}
	group.Wait()
}

// OnCommit functions may use the lane.
func TestOnceOnCommitUsesLane(t *testing.T) {
	f := newFixture(t)
	n := 0
	_, err := kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) {
		tx.OnCommit(func() {
			f.once(t, func(tx kv.Tx) (string, error) { n++; return f.enqueue(tx, "q", "new") })
		})
		return "", nil
	})
	testkit.NoError(t, err)
	if n != 1 {
		t.Errorf("the OnCommit function's transaction ran %d times", n)
	}
}

func TestOnceNil(t *testing.T) {
	f := newFixture(t)
	var none context.Context
	if _, err := kv.TransactOnce(none, f.lane, func(kv.Tx) (string, error) { return "", nil }); !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("TransactOnce with a nil context: error %v, want ErrInvalid", err)
	}
	if err := f.lane.Forget(none); !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("Forget with a nil context: error %v, want ErrInvalid", err)
	}
	f.once(t, func(tx kv.Tx) (string, error) { tx.OnCommit(nil); return "", nil })
	for _, lane := range []*kv.Once{f.lane, kv.NewOnce(f.store, laneKey, nil)} {
		if _, err := kv.TransactOnce[int](t.Context(), lane, nil); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("a nil function: %v, want ErrInvalid", err)
		}
	}
	for _, lane := range []*kv.Once{nil, {}} {
		_, err := kv.TransactOnce(t.Context(), lane, func(kv.Tx) (string, error) { return "", nil })
		if forget := lane.Forget(t.Context()); !errors.Is(err, kv.ErrInvalid) || !errors.Is(forget, kv.ErrInvalid) {
			t.Errorf("a lane that NewOnce has not made: errors %v, %v, want ErrInvalid", err, forget)
		}
	}
}

// oldAfter is a store whose transactions are all too old, so many times in a row, when
// a commit was unknown.
type oldAfter struct {
	kv.DB
	times int
	is    bool // it was
}

func (o *oldAfter) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if o.is && o.times > 0 {
		o.times--
		return kv.ErrTooOld
	}
	err := o.DB.Transact(ctx, f)
	o.is = o.is || errors.Is(err, kv.ErrCommitUnknown)
	return err
}

// A store that is slow for a while is no reason to leave an outcome unknown.
func TestOnceTooOldWhileUnknown(t *testing.T) {
	for _, fate := range fates {
		for times := range 5 {
			f := newFixture(t, fate)
			lane := kv.NewOnce(&oldAfter{DB: f.db, times: times}, laneKey, nil)
			key, err := kv.TransactOnce(t.Context(), lane, func(tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "new") })
			if err != nil && !errors.Is(err, kv.ErrTooOld) || errors.Is(err, kv.ErrCommitUnknown) {
				t.Errorf("%v, too old %d times: error %v", fate, times, err)
			}
			want := map[string]string{}
			if err == nil {
				want[key] = "new"
			}
			f.db.Flush()
			if got := f.state(t); !maps.Equal(got, want) {
				t.Errorf("%v, too old %d times: returned %q, %v, and the store holds %q", fate, times, key, err, got)
			}
		}
	}
}

// silent is a store that does not answer some times, after an outcome was unknown.
type silent struct {
	kv.DB
	times int
}

func (s *silent) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if s.times > 0 {
		if s.times--; s.times == 0 {
			return s.DB.Transact(ctx, f)
		}
		return kv.ErrUnavailable
	}
	err := s.DB.Transact(ctx, f)
	if errors.Is(err, kv.ErrCommitUnknown) {
		s.times = 4
	}
	return err
}

// A store that does not answer is asked again while an outcome is unknown: to give up would be to lose it, or do it twice.
func TestOnceThroughOutage(t *testing.T) {
	for _, outcome := range []faulty.Outcome{faulty.Dropped, faulty.Applied} {
		for _, fails := range []error{nil, errFull} {
			f := newFixture(t, faulty.Fate{Outcome: outcome})
			runs := 0
			n, err := kv.TransactOnce(t.Context(), kv.NewOnce(&silent{DB: f.db}, laneKey, nil), func(tx kv.Tx) (int, error) {
				if runs++; runs > 1 && fails != nil {
					return 0, fails
				}
				tx.Add([]byte("n"), 1)
				return runs, nil
			})
			landed := outcome == faulty.Applied
			switch {
			case landed && (n != 1 || err != nil), !landed && fails == nil && (n != 2 || err != nil):
				t.Errorf("outcome %v: %d, %v", outcome, n, err)
			case !landed && fails != nil && (err == nil || errors.Is(err, kv.ErrCommitUnknown)):
				t.Errorf("outcome %v: %v", outcome, err)
			}
		}
	}
	f := newFixture(t)
	_, err := kv.TransactOnce(t.Context(), kv.NewOnce(&silent{f.db, 2}, laneKey, nil), func(kv.Tx) (int, error) { return 0, nil })
	if !errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrCommitUnknown) {
		t.Errorf("with nothing unknown: %v", err)
	}
}
