package kvtest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/conq-go/conq/kv"
	"go.uber.org/goleak"
)

var watchCases = []testCase{
	{name: "each change", check: checkWatchChanges,
		rule: "a watch is closed after Set, Clear, ClearRange or Add of its key by another transaction"},
	{name: "quiet", check: checkWatchQuiet,
		rule: "a watch does not tell before its key changes: not for other keys, nor for conflict ranges"},
	{name: "own write", check: checkWatchOwnWrite,
		rule: "what the transaction itself leaves at the key is not a change, whether it wrote before or after Watch"},
	{name: "change before the commit", check: checkWatchMissed,
		rule: "a change between the transaction's version and its commit counts"},
	{name: "does not conflict", check: checkWatchConflict,
		rule: "Watch does not make the transaction conflict"},
	{name: "attempt without a commit", check: checkWatchAttempts,
		rule: "the watch of an attempt that did not commit delivers ErrConflict; that of the attempt that did lives on"},
	{name: "context ends", check: checkWatchContext,
		rule: "a watch delivers the cause of the context given to Transact when that ends, once, and is closed"},
	{name: "close", check: checkWatchClose,
		rule: "a watch delivers ErrClosed when the store closes"},
	{name: "bad key", check: checkWatchBadKey,
		rule: "a watch of a key that can't be stored makes the commit fail"},
	{name: "thousands", check: checkWatchMany,
		rule: "thousands of watches, on one key and on many, are all told, and leave no goroutines behind"},
	{name: "no lost wake-up", check: checkWatchRelay,
		rule: "whoever waits for a change that it has not seen yet is always woken"},
}

// watch commits f and a watch of key.
func (t *tester) watch(ctx context.Context, key string, f func(kv.Tx)) <-chan error {
	t.Helper()
	var told <-chan error
	if err := t.db.Transact(ctx, func(tx kv.Tx) error {
		told = tx.Watch([]byte(key))
		f(tx)
		return nil
	}); err != nil {
		t.Fatalf("Transact: %v", err)
	}
	return told
}

func nothing(kv.Tx) {}

// next returns what a watch delivers next, and whether it is still open then.
func (t *tester) next(what string, told <-chan error) (err error, open bool) {
	t.Helper()
	select {
	case err, open = <-told:
	case <-time.After(t.patience):
		t.Fatalf("%s: the watch told nothing", what)
	}
	return err, open
}

// wantTold waits for a watch to end with want, which is nil for a change.
func (t *tester) wantTold(what string, told <-chan error, want error) {
	t.Helper()
	if got, open := t.next(what, told); !errors.Is(got, want) || open != (want != nil) {
		t.Errorf("%s: the watch delivered %v, want %v", what, got, want)
		return
	}
	if got, open := t.next(what+", after its end", told); open {
		t.Errorf("%s: after its end the watch delivered %v, want it closed", what, got)
	}
}

// wantError waits for a watch to end with any error.
func (t *tester) wantError(what string, told <-chan error) {
	t.Helper()
	if got, _ := t.next(what, told); got == nil {
		t.Errorf("%s: the watch told of a change, want an error", what)
	}
}

// wantQuiet checks that a watch has not told anything yet.
func (t *tester) wantQuiet(what string, told <-chan error) {
	t.Helper()
	select {
	case err := <-told:
		t.Errorf("%s: the watch told %v of a key that nobody changed", what, err)
	default:
	}
}

// changes are all ways to change "d".
var changes = map[string]func(kv.Tx){
	"Set":                     set("d"),
	"Set to an empty value":   func(tx kv.Tx) { tx.Set([]byte("d"), nil) },
	"Clear":                   func(tx kv.Tx) { tx.Clear([]byte("d")) },
	"ClearRange":              func(tx kv.Tx) { tx.ClearRange(span("c", "e")) },
	"ClearRange of all":       func(tx kv.Tx) { tx.ClearRange(kv.Range{}) },
	"ClearRange from d":       func(tx kv.Tx) { tx.ClearRange(span("d", "")) },
	"ClearRange just up to d": func(tx kv.Tx) { tx.ClearRange(span("", "d\x00")) },
	"Add":                     func(tx kv.Tx) { tx.Add([]byte("d"), 1) },
}

func checkWatchChanges(t *tester) {
	for name, change := range changes {
		t.reset(stored...)
		told := t.watch(t.ctx, "d", nothing)
		again := t.watch(t.ctx, "d", nothing)
		t.wantQuiet("before "+name, told)
		t.write(change)
		t.wantTold(name, told, nil)
		t.wantTold(name+", a second watch of the key", again, nil)
	}
	told := t.watch(t.ctx, "new", nothing)
	t.write(set("new"))
	t.wantTold("Set of an absent key", told, nil)
	told = t.watch(t.ctx, "new", func(tx kv.Tx) { tx.Clear([]byte("new")) })
	t.write(func(tx kv.Tx) { tx.Add([]byte("new"), 0) })
	t.wantTold("Add to an absent key", told, nil)
}

func checkWatchQuiet(t *tester) {
	t.reset(stored...)
	told := t.watch(t.ctx, "d", nothing)
	t.write(func(tx kv.Tx) {
		set("a", "b", "c", "cz", "d\x00", "e")(tx)
		tx.Clear([]byte("f"))
		tx.ClearRange(span("a", "d"))
		tx.ClearRange(span("d\x00", ""))
		tx.Add([]byte("n"), 1)
	})
	t.wantQuiet("after writes of other keys", told)
	t.write(func(tx kv.Tx) { tx.AddReadConflict(kv.Range{}); tx.AddWriteConflict(kv.Range{}) })
	t.wantQuiet("after conflict ranges", told)
	_ = t.db.Transact(t.ctx, func(tx kv.Tx) error {
		set("d")(tx)
		t.wantQuiet("after a write that is not committed", told)
		return errCause
	})
	t.wantQuiet("after a write that failed", told)
	t.write(set("d"))
	t.wantTold("Set, after all that", told, nil)
}

func checkWatchOwnWrite(t *tester) {
	for name, change := range changes {
		t.reset(stored...)
		after := t.watch(t.ctx, "d", change)
		var before <-chan error
		t.write(func(tx kv.Tx) { change(tx); before = tx.Watch([]byte("d")) })
		t.wantQuiet("own "+name+" before Watch", before)
		t.write(func(tx kv.Tx) { tx.Set([]byte("d"), []byte("later")) })
		t.wantTold("Set after own "+name+" before Watch", before, nil)
		t.wantTold("Set after own "+name+" after Watch", after, nil)
	}
	t.reset(stored...)
	for name, change := range changes {
		told := t.watch(t.ctx, "d", change)
		t.wantQuiet("own "+name+" after Watch", told)
	}
}

func checkWatchMissed(t *tester) {
	for name, change := range changes {
		t.reset(stored...)
		n := 0
		var told <-chan error
		t.transact(func(tx kv.Tx) error {
			n++
			told = tx.Watch([]byte("d"))
			if _, err := tx.Snapshot().Get([]byte("d")); err != nil {
				return err
			}
			t.write(change)
			tx.Set([]byte("own"), nil)
			return nil
		})
		t.wantTold(name+" between Watch and its commit", told, nil)
		t.reset(stored...)
		t.transact(func(tx kv.Tx) error {
			if _, err := tx.Snapshot().Get([]byte("d")); err != nil {
				return err
			}
			t.write(change)
			told = tx.Watch([]byte("d"))
			return nil
		})
		t.wantTold(name+" between the transaction's version and Watch", told, nil)
	}
}

func checkWatchConflict(t *tester) {
	t.wantConflict(access{name: "Watch", do: func(tx kv.Tx) error { tx.Watch([]byte("d")); return nil }},
		"Set(d)", set("d"), false)
}

func checkWatchAttempts(t *tester) {
	t.reset(stored...)
	var watches []<-chan error
	n := t.attempts(func(tx kv.Tx) error {
		watches = append(watches, tx.Watch([]byte("d")))
		_, err := tx.Get([]byte("b"))
		return err
	}, set("b"))
	if n != 2 || len(watches) != 2 {
		t.Fatalf("%d attempts with %d watches, want 2", n, len(watches))
	}
	t.wantTold("the watch of an attempt that conflicted", watches[0], kv.ErrConflict)
	t.wantQuiet("the watch of the attempt that committed", watches[1])
	t.write(set("d"))
	t.wantTold("the watch of the attempt that committed", watches[1], nil)

	var told <-chan error
	if err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
		told = tx.Watch([]byte("d"))
		return errCause
	}); err != errCause {
		t.Errorf("Transact returned %v, want the function's error", err)
	}
	t.wantTold("the watch of a transaction that failed", told, kv.ErrConflict)

	if err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
		tx.Set(nil, nil)
		told = tx.Watch([]byte("d"))
		return nil
	}); !errors.Is(err, kv.ErrInvalid) {
		t.Errorf("Transact returned %v after a bad write, want ErrInvalid", err)
	}
	t.wantTold("a watch after a bad write", told, kv.ErrConflict)
}

func checkWatchContext(t *tester) {
	ctx, cancel := context.WithCancelCause(t.ctx)
	first := t.watch(ctx, "d", nothing)
	second := t.watch(ctx, "d", nothing)
	other := t.watch(t.ctx, "d", nothing)
	t.wantQuiet("before its context ends", first)
	cancel(errCause)
	t.wantTold("after its context has ended", first, errCause)
	t.wantTold("after its context has ended, a second one", second, errCause)
	t.wantQuiet("whose context has not ended", other)
	t.write(set("d"))
	t.wantTold("a watch whose context has not ended", other, nil)
}

func checkWatchClose(t *tester) {
	db := t.db
	first, second := t.watch(t.ctx, "d", nothing), t.watch(t.ctx, "e", nothing)
	t.close(db)
	t.wantTold("after Close", first, kv.ErrClosed)
	t.wantTold("after Close, a second one", second, kv.ErrClosed)
}

func checkWatchBadKey(t *tester) {
	for _, key := range []string{"", "\xff", string(make([]byte, t.db.Limits().Key+1))} {
		var told <-chan error
		n := 0
		err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
			n++
			told = tx.Watch([]byte(key))
			set("k")(tx)
			return nil
		})
		if n != 1 || !errors.Is(err, kv.ErrInvalid) && !errors.Is(err, kv.ErrTooLarge) {
			t.Errorf("Watch of a key of %d bytes: Transact returned %v after %d attempts, want why the key is bad", len(key), err, n)
		}
		t.wantError(fmt.Sprintf("Watch of a key of %d bytes", len(key)), told)
	}
	t.want("after watches of bad keys")
}

func checkWatchMany(t *tester) {
	const n = 1000
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancelCause(t.ctx)
	defer cancel(nil)
	var same, many []<-chan error
	for i := range n {
		same = append(same, t.watch(ctx, "k", nothing))
		many = append(many, t.watch(ctx, fmt.Sprintf("many %d", i), nothing))
	}
	t.write(set("k"))
	for i := range n / 2 {
		t.write(set(fmt.Sprintf("many %d", i)))
	}
	for i, told := range same {
		t.wantTold(fmt.Sprintf("watch %d of one key", i), told, nil)
	}
	for i, told := range many {
		if i == n/2 {
			cancel(errCause)
		}
		want := errCause
		if i < n/2 {
			want = nil
		}
		t.wantTold(fmt.Sprintf("watch %d of many keys", i), told, want)
	}
	if err := goleak.Find(before); err != nil {
		t.Errorf("after all watches have ended: %v", err)
	}
}

// checkWatchRelay has goroutines count to a number together, one at a time; each waits
// until it is its turn.
func checkWatchRelay(t *tester) {
	const runners, laps = 4, 30
	var group sync.WaitGroup
	for runner := range runners {
		group.Go(func() {
			for lap := range laps {
				if err := t.runLap(uint64(lap*runners + runner)); err != nil {
					t.Errorf("runner %d, lap %d: %v", runner, lap, err)
					return
				}
			}
		})
	}
	group.Wait()
	t.want("after all laps", "baton", little(runners*laps))
}

// runLap waits until the number at "baton" is turn, then adds 1.
func (t *tester) runLap(turn uint64) error {
	for {
		var wait <-chan error
		if err := t.db.Transact(t.ctx, func(tx kv.Tx) error {
			wait = nil
			value, err := tx.Get([]byte("baton"))
			if err != nil {
				return err
			}
			if binary.LittleEndian.Uint64(append(value, make([]byte, 8)...)) == turn {
				tx.Add([]byte("baton"), 1)
			} else {
				wait = tx.Watch([]byte("baton"))
			}
			return nil
		}); err != nil || wait == nil {
			return err
		}
		select {
		case err := <-wait:
			if err != nil {
				return err
			}
		case <-time.After(t.patience):
			return errors.New("waited for a change that had come, and was not woken")
		}
	}
}
