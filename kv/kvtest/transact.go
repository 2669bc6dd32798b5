package kvtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/conq-go/conq/kv"
)

var transactCases = []testCase{
	{name: "own error", check: checkOwnError,
		rule: "an error of the function ends the transaction with nothing written, and is returned as it is, whatever it wrote"},
	{name: "retries until it commits", check: checkRetries,
		rule: "after a conflict the function runs again, as often as it takes, each time on a new view"},
	{name: "returned conflict is retried", check: checkReturnedConflict,
		rule: "an ErrConflict that the function returns, wrapped or not, makes it run again"},
	{name: "context ended before", check: checkEndedBefore,
		rule: "with a context that has ended, or whose deadline has passed, nothing is written, and the error wraps its cause"},
	{name: "context ends during", check: checkEndsDuring,
		rule: "reads fail with the context's cause once it has ended, and the transaction does not commit"},
	{name: "context ends between attempts", check: checkEndsBetween,
		rule: "when the context ends after conflicts, the error wraps its cause and ErrConflict, and nothing is written"},
	{name: "context is passed on", check: checkContext,
		rule: "Context returns the context that the transaction was started with"},
	{name: "read transact", check: checkReadTransact,
		rule: "ReadTransact runs its function once, and returns its error as it is"},
	{name: "panic", check: checkPanic,
		rule: "a panic of the function, or runtime.Goexit in it, goes on to the caller, with nothing written, and the store works afterwards"},
	{name: "nested", check: checkNested,
		rule: "a transaction inside another is independent of it: it commits on its own, also when the outer one fails"},
	{name: "two stores", check: checkTwoStores,
		rule: "stores are independent, also when their transactions are nested"},
	{name: "not synced", check: checkNoSync,
		rule: "a transaction that need not be synced conflicts, is seen from then on, and is there after Close, as any other"},
	{name: "too old", check: checkTooOld, needs: clock,
		rule: "reads and commit of a transaction older than Limits.Age fail with ErrTooOld; it is retried MaxTooOld times"},
	{name: "too old once", check: checkTooOldOnce, needs: clock,
		rule: "a transaction that was too old is run again on a new view"},
}

func checkOwnError(t *tester) {
	t.reset("k")
	for _, own := range []error{errors.New("own"), fmt.Errorf("wrapped: %w", kv.ErrInvalid), context.Canceled, kv.ErrClosed} {
		n := 0
		err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
			n++
			set("k", "l")(tx)
			tx.Add([]byte("n"), 1)
			tx.Set(nil, nil) // a bad write is no error then
			tx.ClearRange(kv.Range{})
			return own
		})
		if t.wantFailed("an error of the function", err, own, n, 1); err != own {
			t.Errorf("the function returned %q, Transact %v; want the same", own, err)
		}
		t.want("after an error of the function", "k", "k")
	}
}

func checkRetries(t *tester) {
	const conflicts = 12
	n := 0
	t.transact(func(tx kv.Tx) error {
		want := absent
		if n > 0 {
			want = fmt.Sprint(n)
		}
		t.wantGet("in an attempt after that many conflicts", tx, "k", want)
		t.wantGet("what an earlier attempt wrote", tx, "own", absent)
		if n++; n <= conflicts {
			t.write(func(tx kv.Tx) { tx.Set([]byte("k"), []byte(fmt.Sprint(n))) })
		}
		tx.Set([]byte("own"), []byte("commits"))
		return nil
	})
	if n != conflicts+1 {
		t.Errorf("%d attempts after %d conflicts, want one more than these", n, conflicts)
	}
	t.want("after many conflicts", "k", fmt.Sprint(conflicts), "own", "commits")
}

func checkNoSync(t *tester) {
	t.reset("k", "l")
	n, committed := 0, false
	t.transact(func(tx kv.Tx) error {
		kv.NoSync(tx)
		tx.OnCommit(func() { committed = true })
		t.wantGet("in a transaction that need not be synced", tx, "k", []string{"k", "m"}[min(n, 1)])
		if n++; n == 1 {
			t.put("k", "m")
		}
		tx.Set([]byte("own"), []byte("own"))
		tx.Clear([]byte("l"))
		return nil
	})
	if n < 2 || !committed {
		t.Errorf("%d attempts after a conflict, OnCommit ran: %t; want at least 2, true", n, committed)
	}
	t.want("after a transaction that need not be synced", "k", "m", "own", "own")
	t.transact(func(tx kv.Tx) error {
		kv.NoSync(tx)
		t.wantGet("in one that only reads", tx, "own", "own")
		return nil
	})
	if reopening.missing(t.engine) == "" {
		t.write(func(tx kv.Tx) { kv.NoSync(tx); tx.Set([]byte("last"), []byte("last")) })
		t.reopen()
		t.want("after the store was opened again", "k", "m", "last", "last", "own", "own")
	}
}

func checkReturnedConflict(t *tester) {
	n := 0
	t.transact(func(tx kv.Tx) error {
		tx.Set([]byte("k"), []byte(fmt.Sprint(n)))
		if n++; n <= 2 {
			return fmt.Errorf("reading: %w", kv.ErrConflict)
		}
		return nil
	})
	t.want("a function that returned a conflict twice", "k", "2")
}

var errCause = errors.New("cause")

func checkEndedBefore(t *tester) {
	canceled, cancel := context.WithCancelCause(t.ctx)
	cancel(errCause)
	late, release := context.WithDeadline(t.ctx, time.Now().Add(-time.Hour))
	defer release()
	for want, ctx := range map[error]context.Context{errCause: canceled, context.DeadlineExceeded: late} {
		err := t.db.Transact(ctx, func(tx kv.Tx) error { set("k")(tx); return nil })
		if !errors.Is(err, want) || errors.Is(err, kv.ErrConflict) {
			t.Errorf("Transact with an ended context returned %v, want its cause, %v", err, want)
		}
		if err := t.db.ReadTransact(ctx, func(r kv.Reader) error { _, err := r.Get([]byte("k")); return err }); !errors.Is(err, want) {
			t.Errorf("ReadTransact with an ended context returned %v, want its cause, %v", err, want)
		}
	}
	t.want("after a transaction with an ended context")
}

func checkEndsDuring(t *tester) {
	t.fill(100)
	inTransact := func(ctx context.Context, f func(kv.Tx) error) error {
		return t.db.Transact(ctx, func(tx kv.Tx) error {
			t.wantGet("before the context ends", tx, "k", absent)
			tx.Set([]byte("own"), nil)
			return f(tx)
		})
	}
	for where, run := range map[string]func(context.Context, func(kv.Reader) error) error{
		"ReadTransact": t.db.ReadTransact,
		"Transact": func(ctx context.Context, read func(kv.Reader) error) error {
			return inTransact(ctx, func(tx kv.Tx) error { return read(tx) })
		},
		"Transact, its error ignored": func(ctx context.Context, read func(kv.Reader) error) error {
			return inTransact(ctx, func(tx kv.Tx) error { _ = read(tx); return nil })
		},
		"Transact with own pairs": func(ctx context.Context, read func(kv.Reader) error) error {
			return inTransact(ctx, func(tx kv.Tx) error {
				tx.ClearRange(kv.Range{})
				set("a", "b", "c", "d", "e", "f", "own")(tx)
				return read(tx)
			})
		},
	} {
		for what, read := range endingReads {
			ctx, cancel := context.WithCancelCause(t.ctx)
			if err := run(ctx, func(r kv.Reader) error { return read(r, func() { cancel(errCause) }) }); !errors.Is(err, errCause) {
				t.Errorf("the context ended %s in a %s: it returned %v, want the cause", what, where, err)
			}
		}
	}
	t.read(func(r kv.Reader) error {
		t.wantGet("after transactions whose contexts ended", r, "own", absent)
		return nil
	})
}

// endingReads are reads before or in which the context is made to end.
var endingReads = map[string]func(r kv.Reader, end func()) error{
	"before a Get":           func(r kv.Reader, end func()) error { end(); _, err := r.Get([]byte("k")); return err },
	"before a snapshot Get":  func(r kv.Reader, end func()) error { end(); _, err := r.Snapshot().Get([]byte("k")); return err },
	"before a Get of an own": func(r kv.Reader, end func()) error { end(); _, err := r.Get([]byte("own")); return err },
	"before a loop":          func(r kv.Reader, end func()) error { end(); return endInLoop(r, 0, 0, end) },
	"in a loop":              func(r kv.Reader, end func()) error { return endInLoop(r, 0, 1, end) },
	"in a loop with a limit": func(r kv.Reader, end func()) error { return endInLoop(r, 5, 1, end) },
}

// endInLoop ends the context at each pair of a loop, of which there may be as many as most then.
func endInLoop(r kv.Reader, limit, most int, end func()) error {
	n := 0
	for _, err := range r.Range(kv.Range{}, kv.RangeOptions{Limit: limit}) {
		if err != nil {
			return err
		}
		if n++; n > most {
			return fmt.Errorf("the loop gave pair %d after the context had ended", n)
		}
		end()
	}
	return nil
}

func checkEndsBetween(t *tester) {
	for _, last := range []int{2, 8} {
		t.reset("k")
		ctx, cancel := context.WithCancelCause(t.ctx)
		n := 0
		err := t.db.Transact(ctx, func(tx kv.Tx) error {
			if _, err := tx.Get([]byte("k")); err != nil {
				return err
			}
			tx.Set([]byte("own"), nil)
			if n++; n <= last {
				t.write(set("k"))
			}
			if n == last {
				cancel(errCause)
			}
			return nil
		})
		t.wantFailed("the context ended while attempts conflicted", err, errCause, n, last)
		t.wantFailed("the context ended while attempts conflicted", err, kv.ErrConflict, n, last)
		t.want("after a transaction that never committed", "k", "other")
	}
}

func checkContext(t *tester) {
	type key struct{}
	ctx := context.WithValue(t.ctx, key{}, "value")
	check := func(r kv.Reader) error {
		for _, r := range []kv.Reader{r, r.Snapshot()} {
			if r.Context() == nil || r.Context().Value(key{}) != "value" {
				t.Errorf("Context() returned %v, want the one that was passed in", r.Context())
			}
		}
		return nil
	}
	if err := t.db.Transact(ctx, func(tx kv.Tx) error { return check(tx) }); err != nil {
		t.Errorf("Transact: %v", err)
	}
	if err := t.db.ReadTransact(ctx, check); err != nil {
		t.Errorf("ReadTransact: %v", err)
	}
}

func checkReadTransact(t *tester) {
	t.reset("k")
	for _, own := range []error{nil, errors.New("own"), kv.ErrConflict, kv.ErrTooOld} {
		n := 0
		err := t.db.ReadTransact(t.ctx, func(r kv.Reader) error {
			n++
			t.wantGet("in ReadTransact", r, "k", "k")
			t.wantGet("in a Snapshot in ReadTransact", r.Snapshot(), "k", "k")
			return own
		})
		if err != own || n != 1 {
			t.Errorf("the function returned %v, ReadTransact %v after %d runs; want the same after 1", own, err, n)
		}
	}
}

func checkPanic(t *tester) {
	ends := map[string]func(){"panicked": func() { panic(errCause) }, "ended its goroutine": runtime.Goexit}
	for name, run := range map[string]func(end func()) error{
		"Transact": func(end func()) error {
			return t.db.Transact(t.ctx, func(tx kv.Tx) error {
				tx.OnCommit(func() { t.Errorf("an OnCommit function ran though that of the transaction did not return") })
				t.wantGet("before it ends", tx, "k", "k")
				set("k", "l")(tx)
				end()
				return nil
			})
		},
		"a loop in Transact": func(end func()) error {
			return t.db.Transact(t.ctx, func(tx kv.Tx) error {
				set("l")(tx)
				for range tx.Range(kv.Range{}, kv.RangeOptions{}) {
					end()
				}
				return nil
			})
		},
		"ReadTransact": func(end func()) error {
			return t.db.ReadTransact(t.ctx, func(r kv.Reader) error {
				t.wantGet("before it ends", r, "k", "k")
				end()
				return nil
			})
		},
	} {
		for what, end := range ends {
			t.reset("k")
			got := apart(func() { t.Errorf("%s returned %v though its function %s", name, run(end), what) })
			if (what == "panicked") != (got == errCause) {
				t.Errorf("the function of %s %s, and its caller recovered %v", name, what, got)
			}
			t.want("after a function of "+name+" that "+what, "k", "k")
		}
	}
}

// apart calls f in a goroutine of its own, which it may end, and returns what it panicked with.
func apart(f func()) (panicked any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { panicked = recover() }()
		f()
	}()
	<-done
	return panicked
}

func checkNested(t *tester) {
	own := errors.New("own")
	err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
		tx.Set([]byte("outer"), nil)
		t.write(func(inner kv.Tx) {
			t.wantGet("in a nested transaction", inner, "outer", absent)
			inner.Set([]byte("inner"), nil)
			t.wantGet("in the outer transaction", tx, "outer", "")
		})
		return own
	})
	if err != own {
		t.Errorf("Transact returned %v, want the function's error", err)
	}
	t.want("the outer transaction failed, the inner one did not", "inner", "")
}

func checkTwoStores(t *tester) {
	other := t.open()
	t.reset("k")
	err := other.Transact(t.ctx, func(there kv.Tx) error {
		t.wantGet("in a second store", there, "k", absent)
		there.Set([]byte("k"), []byte("there"))
		t.transact(func(here kv.Tx) error {
			here.Set([]byte("l"), []byte("here"))
			t.wantGet("in the second store, inside a transaction of the first", there, "k", "there")
			return nil
		})
		return nil
	})
	if err != nil {
		t.Errorf("Transact: %v", err)
	}
	t.want("the first of two stores", "k", "k", "l", "here")
	t.db = other
	t.want("the second of two stores", "k", "there")
}

func checkTooOld(t *tester) {
	t.reset("k")
	age := t.db.Limits().Age
	for _, swallow := range []bool{false, true} {
		n := 0
		err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
			n++
			t.wantGet("in a new transaction", tx, "k", "k")
			t.engine.Advance(age / 2)
			t.wantGet("in a transaction of half the age", tx, "k", "k")
			t.engine.Advance(age)
			tx.Set([]byte("k"), nil)
			_, err := tx.Get([]byte("l"))
			if !errors.Is(err, kv.ErrTooOld) {
				t.Errorf("a read in a transaction of more than Limits.Age returned %v, want ErrTooOld", err)
			}
			if swallow {
				return nil
			}
			return err
		})
		t.wantFailed("a function that takes longer than Limits.Age", err, kv.ErrTooOld, n, kv.MaxTooOld+1)
		t.want("after a transaction that was too old", "k", "k")
	}
	err := t.db.ReadTransact(t.ctx, func(r kv.Reader) error {
		t.wantGet("in a new ReadTransact", r, "k", "k")
		t.engine.Advance(2 * age)
		_, err := r.Get([]byte("k"))
		return err
	})
	if !errors.Is(err, kv.ErrTooOld) {
		t.Errorf("a read in a ReadTransact of more than Limits.Age returned %v, want ErrTooOld", err)
	}
}

func checkTooOldOnce(t *tester) {
	t.reset("k")
	n := 0
	t.transact(func(tx kv.Tx) error {
		want := "k"
		if n++; n > 1 {
			want = "other"
		}
		t.wantGet("in each attempt", tx, "k", want)
		if n == 1 {
			t.write(set("k"))
			t.engine.Advance(2 * t.db.Limits().Age)
		}
		tx.Set([]byte("l"), nil)
		return nil
	})
	t.want("after an attempt that was too old", "k", "other", "l", "")
}
