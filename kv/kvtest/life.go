package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"github.com/conq-go/conq/kv"
)

var lifeCases = []testCase{
	{name: "reads after the end", check: checkReadsAfterEnd,
		rule: "reads of a transaction, its snapshots and its unfinished loops fail with ErrClosed after its function has returned"},
	{name: "writes after the end", check: checkWritesAfterEnd,
		rule: "writes to a transaction after its function has returned do nothing"},
	{name: "writes to an earlier attempt", check: checkEarlierAttempt,
		rule: "the transaction of an earlier attempt has ended too"},
	{name: "close", check: checkClose,
		rule: "after Close everything fails with ErrClosed, except a second Close"},
	{name: "close under a transaction", check: checkCloseUnder,
		rule: "Close does not wait for functions: transactions under way fail with ErrClosed and do not commit"},
	{name: "close under load", check: checkCloseUnderLoad,
		rule: "transactions that run while the store closes succeed or fail with ErrClosed, and what was acknowledged, and nothing else, is there when it is opened again"},
	{name: "reopen", check: checkReopen, needs: reopening,
		rule: "what was committed is there after the store is closed and opened again"},
}

// wantClosed checks all kinds of reads.
func (t *tester) wantClosed(what string, r kv.Reader) {
	t.Helper()
	for kind, r := range map[string]kv.Reader{"": r, "Snapshot().": r.Snapshot()} {
		if value, err := r.Get([]byte("b")); !errors.Is(err, kv.ErrClosed) {
			t.Errorf("%s: %sGet returned %q, %v; want ErrClosed", what, kind, value, err)
		}
		for _, reverse := range []bool{false, true} {
			if pairs, err := collect(r.Range(kv.Range{}, kv.RangeOptions{Reverse: reverse})); !errors.Is(err, kv.ErrClosed) {
				t.Errorf("%s: %sRange returned %s, %v; want ErrClosed", what, kind, show(pairs), err)
			}
		}
	}
}

func checkReadsAfterEnd(t *tester) {
	t.reset(stored...)
	var leaked []kv.Reader
	var nexts []func() (kv.KeyValue, error, bool)
	var stops []func()
	leak := func(r kv.Reader) {
		leaked = append(leaked, r, r.Snapshot())
		next, stop := iter.Pull2(r.Range(kv.Range{}, kv.RangeOptions{}))
		if pair, err, _ := next(); err != nil || string(pair.Key) != "b" {
			t.Errorf("a loop began with %q, %v; want b", pair.Key, err)
		}
		nexts, stops = append(nexts, next), append(stops, stop)
	}
	t.write(func(tx kv.Tx) { tx.Set([]byte("b"), nil); leak(tx) })
	t.transact(func(tx kv.Tx) error { leak(tx); return nil })
	t.read(func(r kv.Reader) error { leak(r); return nil })
	if err := t.db.Transact(t.ctx, func(tx kv.Tx) error { leak(tx); return errCause }); err != errCause {
		t.Errorf("Transact returned %v, want the function's error", err)
	}
	for _, r := range leaked {
		t.wantClosed("after the transaction has ended", r)
	}
	for i, next := range nexts {
		if pair, err, ok := next(); !errors.Is(err, kv.ErrClosed) {
			t.Errorf("a loop that went on after its transaction had ended returned %q, %v, %v; want ErrClosed", pair.Key, err, ok)
		}
		stops[i]()
	}
}

// writeLate calls all that writes on a transaction that has ended.
func (t *tester) writeLate(tx kv.Tx) {
	t.Helper()
	set("b", "late")(tx)
	tx.Clear([]byte("d"))
	tx.ClearRange(kv.Range{})
	tx.Add([]byte("n"), 1)
	tx.AddReadConflict(kv.Range{})
	tx.AddWriteConflict(kv.Range{})
	tx.OnCommit(func() { t.Errorf("an OnCommit function ran that was added after the commit") })
	if told := tx.Watch([]byte("b")); told == nil {
		t.Errorf("Watch of a transaction that has ended returned nil, want a channel that ends")
	} else {
		t.wantError("Watch of a transaction that has ended", told)
	}
}

func checkWritesAfterEnd(t *tester) {
	t.reset("b", "d")
	var leaked kv.Tx
	t.write(func(tx kv.Tx) { tx.Set([]byte("c"), nil); leaked = tx })
	t.writeLate(leaked)
	t.want("after writes to a transaction that has committed", "b", "b", "c", "", "d", "d")
	n := t.attempts(func(tx kv.Tx) error {
		_, err := collect(tx.Range(kv.Range{}, kv.RangeOptions{}))
		return err
	}, func(kv.Tx) { t.writeLate(leaked) })
	if n != 1 {
		t.Errorf("writes to a transaction that has committed made another run %d times, want once", n)
	}
}

func checkEarlierAttempt(t *tester) {
	t.reset("b")
	var earlier kv.Tx
	t.transact(func(tx kv.Tx) error {
		if _, err := tx.Get([]byte("b")); err != nil {
			return err
		}
		tx.Set([]byte("c"), nil)
		if earlier == nil {
			earlier = tx
			t.write(set("b"))
			return nil
		}
		t.wantClosed("the first attempt, in the second", earlier)
		earlier.Set([]byte("late"), nil)
		t.wantGet("after a write to the first attempt, in the second", tx, "late", absent)
		return nil
	})
	t.want("after a write to the first attempt", "b", "other", "c", "")
}

func checkClose(t *tester) {
	t.reset("b")
	limits := t.db.Limits()
	for range 2 {
		t.close(t.db)
	}
	run := 0
	err := t.db.Transact(t.ctx, func(tx kv.Tx) error { run++; set("k")(tx); return nil })
	t.wantFailed("Transact after Close", err, kv.ErrClosed, run, 0)
	err = t.db.Transact(t.ctx, func(kv.Tx) error { run++; return nil })
	t.wantFailed("Transact of nothing after Close", err, kv.ErrClosed, run, 0)
	err = t.db.ReadTransact(t.ctx, func(kv.Reader) error { run++; return nil })
	t.wantFailed("ReadTransact after Close", err, kv.ErrClosed, run, 0)
	if got := t.db.Limits(); got != limits {
		t.Errorf("Limits after Close returned %+v, want %+v", got, limits)
	}
}

func checkCloseUnder(t *tester) {
	for name, first := range map[string]func(kv.Reader) error{
		"before its first read": func(kv.Reader) error { return nil },
		"after a read":          func(r kv.Reader) error { _, err := r.Get([]byte("b")); return err },
	} {
		for _, write := range []bool{false, true} {
			db := t.open()
			n := 0
			err := db.Transact(t.ctx, func(tx kv.Tx) error {
				if n++; write {
					set("b")(tx)
				}
				if err := first(tx); err != nil {
					return err
				}
				t.close(db)
				t.wantClosed("the store was closed under a transaction, "+name, tx)
				return nil
			})
			t.wantFailed("the store was closed under a transaction, "+name, err, kv.ErrClosed, n, 1)
		}
		db := t.open()
		if err := db.ReadTransact(t.ctx, func(r kv.Reader) error {
			if err := first(r); err != nil {
				return err
			}
			t.close(db)
			_, err := r.Get([]byte("c"))
			return err
		}); !errors.Is(err, kv.ErrClosed) {
			t.Errorf("the store was closed under a reader, %s: ReadTransact returned %v, want ErrClosed", name, err)
		}
	}
}

// load runs writers, which each set "writer i" to ever larger numbers, closes
// the store under them, and returns what each was told to have been committed.
func (t *tester) load() []int {
	const writers = 4
	acknowledged := make([]int, writers)
	var running, group sync.WaitGroup
	running.Add(writers)
	for w := range writers {
		group.Go(func() {
			for n := 1; t.ctx.Err() == nil; n++ {
				err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
					if w%2 > 0 {
						kv.NoSync(tx)
					}
					tx.Set(fmt.Appendf(nil, "writer %d", w), fmt.Append(nil, n))
					return nil
				})
				if n == 20 || n < 20 && err != nil {
					running.Done()
				}
				if err != nil {
					if !errors.Is(err, kv.ErrClosed) {
						t.Errorf("a transaction while the store closed returned %v, want ErrClosed", err)
					}
					return
				}
				acknowledged[w] = n
			}
		})
	}
	running.Wait()
	for range 2 {
		group.Go(func() { t.close(t.db) })
	}
	group.Wait()
	return acknowledged
}

func checkCloseUnderLoad(t *tester) {
	acknowledged := t.load()
	for w, n := range acknowledged {
		if n < 20 {
			t.Errorf("writer %d was told of %d commits before Close, want at least 20", w, n)
		}
	}
	if reopening.missing(t.engine) != "" {
		return
	}
	t.reopen()
	t.read(func(r kv.Reader) error {
		for w, n := range acknowledged {
			t.wantGet("after a Close under load", r, fmt.Sprintf("writer %d", w), fmt.Sprint(n))
		}
		return nil
	})
}

// reopen closes the store and opens it again.
func (t *tester) reopen() {
	t.Helper()
	if err := t.db.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	db := t.engine.Reopen(t.parent, t.db)
	t.Cleanup(func() { t.close(db) })
	t.db = db
}

func checkReopen(t *tester) {
	large := strings.Repeat("v", t.db.Limits().Value)
	key := string(bytes.Repeat([]byte("k"), t.db.Limits().Key))
	t.reset("a", "b")
	t.write(func(tx kv.Tx) {
		tx.Clear([]byte("b"))
		tx.Set([]byte("c"), nil)
		tx.Set([]byte("large"), []byte(large))
		tx.Add([]byte("n"), -1)
		tx.Set([]byte(key), []byte("key"))
	})
	t.reopen()
	want := []string{"a", "a", "c", "", key, "key", "large", large, "n", little(-1)}
	t.want("after the store was opened again", want...)
	t.read(func(r kv.Reader) error {
		t.wantGet("after the store was opened again", r, "large", large)
		return nil
	})
	t.write(func(tx kv.Tx) { tx.Add([]byte("n"), 2); tx.ClearRange(span("c", "m")) })
	t.reopen()
	t.want("after it was opened a second time", "a", "a", "n", little(1))
	t.write(func(tx kv.Tx) { tx.ClearRange(kv.Range{}) })
	t.fill(20_000)
	t.reopen()
	t.wantFilled("after the store was opened again", 20_000)
}
