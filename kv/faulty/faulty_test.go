package faulty_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store in memory, and the same with faults.
func open(t *testing.T, o faulty.Options) (*faulty.DB, *memory.DB) {
	inner := memory.New(memory.Options{})
	db := faulty.New(inner, 1, o)
	t.Cleanup(func() { testkit.NoError(t, db.Close()) })
	return db, inner
}

// chosen gives the commits the given fates, then none.
func chosen(fates ...faulty.Fate) faulty.Options {
	return faulty.Options{Choose: func() (fate faulty.Fate) {
		if len(fates) > 0 {
			fate, fates = fates[0], fates[1:]
		}
		return fate
	}}
}

func set(t *testing.T, db kv.DB, key, value string) error {
	return db.Transact(t.Context(), func(tx kv.Tx) error { tx.Set([]byte(key), []byte(value)); return nil })
}

// swap sets a key that it has read.
func swap(t *testing.T, db kv.DB, key, value string) error {
	return db.Transact(t.Context(), func(tx kv.Tx) error {
		_, err := tx.Get([]byte(key))
		tx.Set([]byte(key), []byte(value))
		return err
	})
}

func get(t *testing.T, db kv.DB, key string) string {
	t.Helper()
	return string(testkit.Value(t, db, []byte(key)))
}

func wantUnknown(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, kv.ErrCommitUnknown) {
		t.Fatalf("error %v, want ErrCommitUnknown", err)
	}
}

func wantStats(t *testing.T, db *faulty.DB, want faulty.Stats) {
	t.Helper()
	got := db.Stats()
	got.Attempts, got.Commits = want.Attempts, want.Commits
	if got != want {
		t.Errorf("statistics %+v, want %+v", got, want)
	}
}

func TestDroppedAndApplied(t *testing.T) {
	db, inner := open(t, chosen(faulty.Fate{Outcome: faulty.Dropped}, faulty.Fate{Outcome: faulty.Applied}))
	wantUnknown(t, set(t, db, "dropped", "x"))
	wantUnknown(t, set(t, db, "applied", "x"))
	testkit.NoError(t, set(t, db, "committed", "x"))
	if got := get(t, inner, "dropped") + "," + get(t, inner, "applied") + "," + get(t, inner, "committed"); got != ",x,x" {
		t.Errorf("the store holds %s", got)
	}
	wantStats(t, db, faulty.Stats{Dropped: 1, Applied: 1})
}

// The function runs again after a conflict, which leaves nothing behind.
func TestConflicted(t *testing.T) {
	db, inner := open(t, chosen(faulty.Fate{Outcome: faulty.Conflicted}, faulty.Fate{Outcome: faulty.Conflicted}))
	n := 0
	testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		n++
		tx.OnCommit(func() {
			if n != 3 {
				t.Errorf("OnCommit of attempt %d", n)
			}
		})
		if value, err := tx.Get([]byte("k")); value != nil || err != nil {
			t.Errorf("attempt %d sees %q, %v", n, value, err)
		}
		tx.Set([]byte("k"), []byte("x"))
		return nil
	}))
	if n != 3 || get(t, inner, "k") != "x" {
		t.Errorf("%d attempts left %q", n, get(t, inner, "k"))
	}
	wantStats(t, db, faulty.Stats{Conflicts: 2})
}

// Nothing goes wrong that can't with a store that keeps the contract.
func TestOnlyWhatMayHappen(t *testing.T) {
	never := map[string]func(kv.Tx) error{
		"reads only": func(tx kv.Tx) error { _, err := tx.Get([]byte("k")); return err },
		"empty":      func(kv.Tx) error { return nil },
	}
	noConflict := map[string]func(kv.Tx) error{
		"writes only":    func(tx kv.Tx) error { tx.Set([]byte("k"), nil); tx.Add([]byte("n"), 1); return nil },
		"snapshot reads": func(tx kv.Tx) error { tx.Set([]byte("k"), nil); _, err := tx.Snapshot().Get([]byte("n")); return err },
		"reads of what it set": func(tx kv.Tx) error {
			tx.Set([]byte("k"), nil)
			tx.ClearRange(kv.Range{Begin: []byte("x")})
			_, err := tx.Get([]byte("k"))
			_, err2 := tx.Get([]byte("xy"))
			return errors.Join(err, err2)
		},
	}
	for name, f := range never {
		db, _ := open(t, faulty.Options{Conflict: 0.5, Late: 0.5})
		if err := db.Transact(t.Context(), f); err != nil {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, f := range noConflict {
		db, _ := open(t, faulty.Options{Conflict: 1})
		if err := db.Transact(t.Context(), f); err != nil || db.Stats().Conflicts > 0 {
			t.Errorf("%s: error %v, statistics %+v", name, err, db.Stats())
		}
	}
}

// A late commit lands at its step.
func TestLateLandsAtItsStep(t *testing.T) {
	for after, want := range map[int]string{
		1: ", in 1 late, after late",        // before the next transaction begins
		2: ", in 1 , in 2 late, after late", // between its reads and its commit: it conflicts
		3: ", in 1 , after late",            // after its commit
		4: ", in 1 , after ",                // before the one after that begins
	} {
		db, inner := open(t, chosen(faulty.Fate{Outcome: faulty.Late, After: after}))
		wantUnknown(t, set(t, db, "k", "late"))
		seen, n := get(t, inner, "k"), 0
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
			n++
			value, err := tx.Get([]byte("k"))
			seen += fmt.Sprintf(", in %d %s", n, value)
			tx.Set([]byte("other"), nil)
			return err
		}))
		if seen += ", after " + get(t, inner, "k"); seen != want {
			t.Errorf("late by %d steps it was seen %q, want %q", after, seen, want)
		}
		if get(t, db, "k") != "late" {
			t.Errorf("late by %d steps it had not landed after 4", after)
		}
	}
}

func TestLateConflicts(t *testing.T) {
	for name, change := range map[string]func(kv.Tx){
		"other value":    func(tx kv.Tx) { tx.Set([]byte("k"), []byte("new")) },
		"same value":     func(tx kv.Tx) { tx.Set([]byte("k"), []byte("old")) },
		"there and back": func(tx kv.Tx) { tx.Clear([]byte("k")); tx.Set([]byte("k"), []byte("old")) },
	} {
		db, inner := open(t, chosen(faulty.Fate{}, faulty.Fate{Outcome: faulty.Late}))
		testkit.NoError(t, set(t, db, "k", "old"))
		wantUnknown(t, swap(t, db, "k", "late"))
		testkit.NoError(t, db.Transact(t.Context(), func(tx kv.Tx) error { change(tx); return nil }))
		db.Flush()
		if got := get(t, inner, "k"); got == "late" {
			t.Errorf("%s: the late commit landed", name)
		}
		wantStats(t, db, faulty.Stats{Late: 1, Lost: 1})
	}
}

// What has become late no longer depends on its caller.
func TestLateOutlivesItsContext(t *testing.T) { synctest.Test(t, lateOutlivesItsContext) }

func lateOutlivesItsContext(t *testing.T) {
	db, inner := open(t, chosen(faulty.Fate{Outcome: faulty.Late}))
	ctx, cancel := context.WithCancel(t.Context())
	var leaked kv.Tx
	var next func() (kv.KeyValue, error, bool)
	wantUnknown(t, db.Transact(ctx, func(tx kv.Tx) error {
		tx.Set([]byte("k"), []byte("late"))
		leaked = tx
		var stop func()
		next, stop = iter.Pull2(tx.Snapshot().Range(kv.Range{}, kv.RangeOptions{}))
		t.Cleanup(stop)
		_, err, _ := next()
		return err
	}))
	cancel()
	synctest.Wait() // for those who were to be told
	leaked.Set([]byte("k"), []byte("changed"))
	leaked.Clear([]byte("k"))
	_, err := leaked.Get([]byte("k"))
	_, pulled, _ := next()
	_, snapshot := leaked.Snapshot().Get([]byte("k"))
	for _, err := range []error{err, pulled, snapshot, <-leaked.Watch([]byte("k"))} {
		if !errors.Is(err, kv.ErrClosed) {
			t.Errorf("error %v after the end, want ErrClosed", err)
		}
	}
	db.Flush()
	if got := get(t, inner, "k"); got != "late" {
		t.Errorf("the store holds %q, want what the late commit wrote", got)
	}
	wantStats(t, db, faulty.Stats{Late: 1, Landed: 1})
}

// Close decides about what is held back, and leaves no goroutines.
func TestCloseReleases(t *testing.T) {
	var sum faulty.Stats
	for seed := range uint64(20) {
		db := faulty.New(memory.New(memory.Options{}), seed, faulty.Options{Late: 1, LateSteps: 1000})
		wantUnknown(t, set(t, db, "k", "late"))
		if held := db.Stats().Held; held != 1 {
			t.Fatalf("%d commits are held, want 1", held)
		}
		testkit.NoError(t, db.Close())
		testkit.NoError(t, db.Close())
		s := db.Stats()
		if s.Held != 0 || s.Landed+s.Lost != 1 {
			t.Errorf("statistics after Close: %+v", s)
		}
		sum.Landed += s.Landed
		sum.Lost += s.Lost
	}
	if sum.Landed == 0 || sum.Lost == 0 {
		t.Errorf("of 20 late commits %d landed at Close and %d were lost, want some of either", sum.Landed, sum.Lost)
	}
}

// A commit that is about to become late as the store closes is not forgotten.
func TestCloseBeforeHold(t *testing.T) {
	var db *faulty.DB
	o := faulty.Options{Choose: func() faulty.Fate { _ = db.Close(); return faulty.Fate{Outcome: faulty.Late} }}
	db, _ = open(t, o)
	wantUnknown(t, set(t, db, "k", "x"))
	wantStats(t, db, faulty.Stats{Late: 1, Lost: 1})
}

func TestTooOld(t *testing.T) {
	db, _ := open(t, faulty.Options{TooOld: 1})
	n := 0
	err := db.Transact(t.Context(), func(tx kv.Tx) error {
		n++
		for range 2 {
			if _, err := tx.Get([]byte("k")); !errors.Is(err, kv.ErrTooOld) {
				t.Errorf("Get: error %v, want ErrTooOld", err)
			}
		}
		tx.AddReadConflict(kv.Range{})
		tx.Set([]byte("k"), nil)
		return nil
	})
	if !errors.Is(err, kv.ErrTooOld) || n != 1+kv.MaxTooOld {
		t.Errorf("error %v after %d attempts", err, n)
	}
	err = db.ReadTransact(t.Context(), func(r kv.Reader) error {
		for _, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
			return err
		}
		return nil
	})
	if !errors.Is(err, kv.ErrTooOld) {
		t.Errorf("ReadTransact: error %v, want ErrTooOld", err)
	}
	wantStats(t, db, faulty.Stats{TooOld: 1 + kv.MaxTooOld + 1})
}

// Contexts end at each call that there is, nothing is written then, and the
// caller's own goes on.
func TestCancel(t *testing.T) {
	calls := map[string]int{}
	for seed := range uint64(300) {
		inner := memory.New(memory.Options{})
		db := faulty.New(inner, seed, faulty.Options{Cancel: 0.1})
		at := "begin"
		var own context.Context
		err := db.Transact(t.Context(), func(tx kv.Tx) error {
			own = tx.Context()
			for _, call := range steps {
				at = call.name
				if call.do(tx); own.Err() != nil {
					return nil // though a read may have failed
				}
			}
			at = "commit"
			return nil
		})
		if err == nil {
			at = "none"
		} else if !errors.Is(err, faulty.ErrCanceled) || !errors.Is(err, context.Canceled) || get(t, inner, "k") != "" || t.Context().Err() != nil {
			t.Fatalf("seed %d, at %s: error %v, the store holds %q", seed, at, err, get(t, inner, "k"))
		} else if at != "begin" && context.Cause(own) != faulty.ErrCanceled {
			t.Errorf("at %s the transaction's context has the cause %v", at, context.Cause(own))
		}
		calls[at]++
		testkit.NoError(t, db.Close())
	}
	for _, at := range []string{"begin", "Get", "Range", "Set", "Clear", "Watch", "commit", "none"} {
		if calls[at] == 0 {
			t.Errorf("no context ended at %s: %v", at, calls)
		}
	}
}

var steps = []struct {
	name string
	do   func(kv.Tx)
}{
	{"Get", func(tx kv.Tx) { _, _ = tx.Get([]byte("a")) }},
	{"Range", func(tx kv.Tx) {
		for range tx.Range(kv.Range{}, kv.RangeOptions{}) {
			return
		}
	}},
	{"Set", func(tx kv.Tx) { tx.Set([]byte("k"), []byte("x")) }},
	{"Clear", func(tx kv.Tx) { tx.Clear([]byte("b")) }},
	{"Watch", func(tx kv.Tx) { tx.Watch([]byte("b")) }},
}

// A watch tells what its transaction's caller knows.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		fate faulty.Outcome
		want error
	}{
		{faulty.Dropped, kv.ErrCommitUnknown},
		{faulty.Applied, kv.ErrCommitUnknown},
		{faulty.Late, kv.ErrCommitUnknown},
		{faulty.Conflicted, kv.ErrConflict},
		{faulty.Committed, nil},
	} {
		db, inner := open(t, chosen(faulty.Fate{Outcome: c.fate}))
		var first <-chan error
		_ = db.Transact(t.Context(), func(tx kv.Tx) error {
			if w := tx.Watch([]byte("k")); first == nil {
				first = w
			}
			tx.AddReadConflict(kv.KeyRange([]byte("other")))
			tx.Set([]byte("other"), nil)
			return nil
		})
		if c.fate == faulty.Committed {
			testkit.NoError(t, set(t, inner, "k", "x"))
		}
		if err, open := <-first; !errors.Is(err, c.want) || open != (c.want != nil) {
			t.Errorf("outcome %d: the watch told %v, want %v", c.fate, err, c.want)
		}
	}
}

// A watch of a transaction that wrote nothing ends with its context, and at Close.
func TestWatchOfReader(t *testing.T) {
	for _, o := range []faulty.Options{{Late: 1}, {Cancel: 1e-9}, {}} {
		db, _ := open(t, o)
		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		var watch [2]<-chan error
		for i, ctx := range []context.Context{ctx, t.Context()} {
			testkit.NoError(t, db.Transact(ctx, func(tx kv.Tx) error { watch[i] = tx.Watch([]byte("k")); return nil }))
		}
		cancel(cause)
		if err := <-watch[0]; err != cause {
			t.Errorf("after its context has ended the watch told %v", err)
		}
		testkit.NoError(t, db.Close())
		if err := <-watch[1]; err != kv.ErrClosed {
			t.Errorf("after Close the watch told %v", err)
		}
	}
}

// Limits replace those of the store where they are lower.
func TestLimits(t *testing.T) {
	db, inner := open(t, faulty.Options{Dropped: 0.1, Limits: kv.Limits{Value: 50, Key: 20_000, Operations: 3, Age: 1, Shared: true}})
	want := inner.Limits()
	want.Value, want.Operations, want.Shared, want.UnknownCommits = 50, 3, true, true
	if got := db.Limits(); got != want {
		t.Errorf("limits %+v, want %+v", got, want)
	}
	err := db.Transact(t.Context(), func(tx kv.Tx) error {
		tx.Set([]byte("a"), nil)
		tx.AddReadConflict(kv.KeyRange([]byte("b")))
		tx.AddWriteConflict(kv.KeyRange([]byte("b")))
		_, err := tx.Get([]byte("c"))
		return err
	})
	if want := (kv.TooLargeError{What: "transaction", Size: 4, Limit: 3, Unit: "operations"}); err == nil || err.Error() != want.Error() {
		t.Errorf("error %v, want %v", err, &want)
	}
}

// The same seed and the same calls give the same faults, another seed others.
func TestSameSeedSameFaults(t *testing.T) {
	run := func(seed uint64) (log []string) {
		inner := memory.New(memory.Options{})
		db := faulty.New(inner, seed, faulty.Options{
			Conflict: 0.2, Dropped: 0.1, Applied: 0.1, Late: 0.2, LateSteps: 5, TooOld: 0.1, Cancel: 0.02, Delay: 0.1, MaxDelay: 1,
		})
		for i := range 100 {
			err := swap(t, db, fmt.Sprint("k", i%3), fmt.Sprint(i))
			log = append(log, fmt.Sprint(err, get(t, inner, "k0"), get(t, inner, "k1"), get(t, inner, "k2")))
		}
		testkit.NoError(t, db.Close())
		return append(log, fmt.Sprintf("%+v", db.Stats()))
	}
	first, second := run(1), run(1)
	if !slices.Equal(first, second) {
		t.Errorf("two runs of one seed differ:\n%q\n%q", first, second)
	}
	if slices.Equal(first, run(2)) {
		t.Error("two seeds gave the same faults")
	}
}

// Panics and the like of the function are not for the wrapper, whatever its
// goroutines.
func TestGoexit(t *testing.T) {
	db, inner := open(t, faulty.Options{Late: 1})
	var group sync.WaitGroup
	group.Go(func() {
		_ = db.Transact(t.Context(), func(tx kv.Tx) error {
			tx.Set([]byte("k"), nil)
			runtime.Goexit()
			return nil
		})
	})
	group.Wait()
	if held := db.Stats().Held; held != 0 || get(t, inner, "k") != "" {
		t.Errorf("%d commits held", held)
	}
}
