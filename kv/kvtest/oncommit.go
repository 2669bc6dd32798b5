package kvtest

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"github.com/conq-go/conq/kv"
)

var onCommitCases = []testCase{
	{name: "order", check: checkOnCommitOrder,
		rule: "OnCommit functions run in the order in which they were added, after the commit and before Transact returns, also if nothing was written; nil is ignored"},
	{name: "only what commits", check: checkOnCommitAttempts,
		rule: "only the functions of the attempt that committed run, once"},
	{name: "not on failure", check: checkOnCommitFailure,
		rule: "no OnCommit function runs if the transaction does not commit"},
	{name: "panic", check: checkOnCommitPanic,
		rule: "if an OnCommit function panics, or ends its goroutine, that goes on to the caller, and those behind it run all the same"},
	{name: "may use the store", check: checkOnCommitUsesStore,
		rule: "an OnCommit function sees what was committed, and may run transactions"},
}

func checkOnCommitOrder(t *tester) {
	for what, do := range map[string]func(kv.Tx) error{
		"reads":  get("k").do,
		"writes": func(tx kv.Tx) error { set("k")(tx); return nil },
	} {
		var ran []int
		t.transact(func(tx kv.Tx) error {
			tx.OnCommit(nil)
			for i := range 5 {
				tx.OnCommit(func() { ran = append(ran, i) })
			}
			err := do(tx)
			if len(ran) > 0 {
				t.Errorf("OnCommit functions ran before the commit")
			}
			return err
		})
		if want := []int{0, 1, 2, 3, 4}; !slices.Equal(ran, want) {
			t.Errorf("when Transact returned that only %s, the OnCommit functions %v had run, want %v, in this order", what, ran, want)
		}
	}
}

func checkOnCommitAttempts(t *tester) {
	t.reset("k")
	var ran []int
	n := 0
	t.transact(func(tx kv.Tx) error {
		n++
		attempt := n
		tx.OnCommit(func() { ran = append(ran, attempt) })
		if _, err := tx.Get([]byte("k")); err != nil {
			return err
		}
		if n < 3 {
			t.write(set("k"))
		}
		tx.Set([]byte("own"), nil)
		return nil
	})
	if len(ran) != 1 || ran[0] != n || n != 3 {
		t.Errorf("OnCommit functions ran of the attempts %v of %d, want of the last of 3", ran, n)
	}
}

func checkOnCommitFailure(t *tester) {
	ctx, cancel := context.WithCancel(t.ctx)
	for name, fail := range map[string]func(kv.Tx) error{
		"the function's error": func(kv.Tx) error { return errCause },
		"a bad write":          func(tx kv.Tx) error { tx.Set(nil, nil); return nil },
		"an ended context":     func(tx kv.Tx) error { cancel(); return nil },
	} {
		err := t.db.Transact(ctx, func(tx kv.Tx) error {
			tx.OnCommit(func() { t.Errorf("an OnCommit function ran though %s kept the transaction from committing", name) })
			set("k")(tx)
			return fail(tx)
		})
		if err == nil {
			t.Errorf("Transact returned nil, in spite of %s", name)
		}
		if ctx.Err() != nil {
			ctx, cancel = context.WithCancel(t.ctx)
		}
	}
	cancel()
}

func checkOnCommitPanic(t *tester) {
	ends := map[string]func(){"panic": func() { panic(errCause) }, "end their goroutine": runtime.Goexit}
	for what, end := range ends {
		t.reset()
		ran, returned := "", false
		got := apart(func() {
			_ = t.db.Transact(t.ctx, func(tx kv.Tx) error {
				ran = "" // as an attempt may be repeated
				tx.OnCommit(func() { ran += "1" })
				tx.OnCommit(func() { ran += "2"; end() })
				tx.OnCommit(func() { ran += "3" })
				tx.OnCommit(func() { ran += "4"; end() })
				tx.OnCommit(func() { ran += "5" })
				set("k")(tx)
				return nil
			})
			returned = true
		})
		if ran != "12345" || returned || (what == "panic") != (got == errCause) {
			t.Errorf("of five OnCommit functions 2 and 4 %s: %s ran, Transact returned: %v, panic: %v; want all of them, false, and what they panicked with",
				what, ran, returned, got)
		}
		t.want("after OnCommit functions that "+what, "k", "other")
	}
}

func checkOnCommitUsesStore(t *tester) {
	t.write(func(tx kv.Tx) {
		tx.OnCommit(func() {
			t.want("in an OnCommit function", "k", "other")
			t.write(func(inner kv.Tx) { inner.Set([]byte("inner"), nil) })
			tx.Set([]byte("late"), nil)
			if _, err := tx.Get([]byte("k")); !errors.Is(err, kv.ErrClosed) {
				t.Errorf("a read of the transaction, in its OnCommit function, returned %v, want ErrClosed", err)
			}
		})
		set("k")(tx)
	})
	t.want("after an OnCommit function that wrote", "inner", "", "k", "other")
}
