package kv_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
	"github.com/conq-go/conq/kv/memory"
)

var (
	laneKey = []byte("lane")
	errFull = errors.New("full")
)

// fates is what can become of a commit whose outcome is unknown. A late one may
// land before the next attempt begins, between its reads and its commit, after
// that, and so on, or when all is over.
var fates = []faulty.Fate{
	{Outcome: faulty.Dropped},
	{Outcome: faulty.Applied},
	{Outcome: faulty.Late, After: 1},
	{Outcome: faulty.Late, After: 2},
	{Outcome: faulty.Late, After: 3},
	{Outcome: faulty.Late, After: 4},
	{Outcome: faulty.Late, After: 5},
	{Outcome: faulty.Late, After: 6},
	{Outcome: faulty.Late},
}

// schedules calls f with all sequences of up to n fates.
func schedules(n int, f func([]faulty.Fate)) {
	var extend func([]faulty.Fate)
	extend = func(s []faulty.Fate) {
		f(s)
		if len(s) < n {
			for _, fate := range fates {
				extend(append(slices.Clip(s), fate))
			}
		}
	}
	extend(nil)
}

// fixture is a store in memory, with the network in front of it.
type fixture struct {
	store  *memory.DB
	db     *faulty.DB
	lane   *kv.Once
	commit func() // called at each commit that writes
	serial int    // makes keys unique, as random bytes do
}

// newFixture has the first commits suffer the given fates.
func newFixture(t testing.TB, fates ...faulty.Fate) *fixture {
	f := &fixture{store: memory.New(memory.Options{}), commit: func() {}}
	f.db = faulty.New(f.store, 1, faulty.Options{Choose: func() (fate faulty.Fate) {
		f.commit()
		if len(fates) > 0 {
			fate, fates = fates[0], fates[1:]
		}
		return fate
	}})
	f.lane = kv.NewOnce(f.db, laneKey, nil)
	t.Cleanup(func() { testkit.NoError(t, f.db.Close()) })
	return f
}

// set writes directly to the store.
func (f *fixture) set(t testing.TB, pairs ...string) {
	t.Helper()
	testkit.NoError(t, f.store.Transact(t.Context(), func(tx kv.Tx) error {
		for ; len(pairs) > 0; pairs = pairs[2:] {
			tx.Set([]byte(pairs[0]), []byte(pairs[1]))
		}
		return nil
	}))
}

// state returns what the store holds, the outcome key apart.
func (f *fixture) state(t testing.TB) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, pair := range testkit.Everything(t, f.store) {
		state[string(pair.Key)] = string(pair.Value)
	}
	delete(state, string(laneKey))
	return state
}

// enqueue adds an item under a key that no other attempt uses.
func (f *fixture) enqueue(tx kv.Tx, queue, value string) (string, error) {
	index := 1
	for pair, err := range tx.Snapshot().Range(kv.PrefixRange([]byte(queue+"/")), kv.RangeOptions{Limit: 1, Reverse: true}) {
		if err != nil {
			return "", err
		}
		if _, err := fmt.Sscanf(string(pair.Key[len(queue):]), "/%d/", &index); err != nil {
			return "", err
		}
		index++
	}
	f.serial++
	key := fmt.Sprintf("%s/%d/%d", queue, index, f.serial)
	tx.Set([]byte(key), []byte(value))
	return key, nil
}

// dequeue removes the first item and returns its key, or "".
func (f *fixture) dequeue(tx kv.Tx, queue string) (key, value string, err error) {
	for pair, err := range tx.Range(kv.PrefixRange([]byte(queue+"/")), kv.RangeOptions{Limit: 1}) {
		if err != nil {
			return "", "", err
		}
		key, value = string(pair.Key), string(pair.Value)
		tx.Clear(pair.Key)
	}
	return key, value, nil
}

// operation is a transaction and what it must leave behind, once.
type operation struct {
	name  string
	run   func(*fixture, kv.Tx) (result string, err error)
	apply func(state map[string]string, result string)
}

var operations = []operation{
	{"enqueue",
		func(f *fixture, tx kv.Tx) (string, error) { return f.enqueue(tx, "q", "new") },
		func(state map[string]string, result string) { state[result] = "new" }},
	{"dequeue",
		func(f *fixture, tx kv.Tx) (string, error) {
			key, _, err := f.dequeue(tx, "q")
			return key, err
		},
		func(state map[string]string, result string) { delete(state, result) }},
	{"move",
		func(f *fixture, tx kv.Tx) (string, error) {
			from, value, err := f.dequeue(tx, "q")
			if err != nil || from == "" {
				return "", err
			}
			to, err := f.enqueue(tx, "r", value)
			return from + " " + to, err
		},
		func(state map[string]string, result string) {
			if from, to, ok := strings.Cut(result, " "); ok {
				state[to] = state[from]
				delete(state, from)
			}
		}},
	{"count",
		func(f *fixture, tx kv.Tx) (string, error) {
			tx.Add([]byte("n"), 1)
			return "", nil
		},
		func(state map[string]string, result string) {
			n := []byte(state["n"] + "\x00\x00\x00\x00\x00\x00\x00\x00")[:8]
			n[0]++
			state["n"] = string(n)
		}},
}

// twice runs o two times through transact, lets everything land that still can,
// and tells whether the store holds what the two results say.
func (o operation) twice(t *testing.T, f *fixture, transact func(func(kv.Tx) (string, error)) string) (ok bool, got, want map[string]string) {
	f.set(t, "q/1/a", "1", "q/2/b", "2")
	want = f.state(t)
	for range 2 {
		o.apply(want, transact(func(tx kv.Tx) (string, error) { return o.run(f, tx) }))
	}
	f.db.Flush()
	got = f.state(t)
	return maps.Equal(got, want), got, want
}

// After any sequence of unknown outcomes the transaction has happened once, and
// the result is that of the attempt that did it.
func TestOnceHappensOnce(t *testing.T) {
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			earlier := 0
			schedules(3, func(fates []faulty.Fate) {
				f := newFixture(t, fates...)
				ok, got, want := o.twice(t, f, func(run func(kv.Tx) (string, error)) string {
					result, last := f.once(t, run)
					if result != last {
						earlier++
					}
					return result
				})
				if !ok {
					t.Errorf("after %v the store holds %q, want %q", fates, got, want)
				}
			})
			if earlier == 0 && (o.name == "enqueue" || o.name == "move") {
				t.Error("no result was that of an earlier attempt than the last: the test is too weak")
			}
		})
	}
}

// once runs f in the lane and checks its OnCommit functions. It returns the
// result, and that of the last attempt.
func (f *fixture) once(t *testing.T, run func(kv.Tx) (string, error)) (result, last string) {
	t.Helper()
	var committed []string
	result, err := kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (string, error) {
		result, err := run(tx)
		tx.OnCommit(func() { committed = append(committed, result) })
		last = result
		return result, err
	})
	testkit.NoError(t, err)
	if !slices.Equal(committed, []string{result}) {
		t.Errorf("OnCommit functions ran of the attempts with the results %q, want of that with %q", committed, result)
	}
	return result, last
}

// endings are ways in which a later attempt ends the call without a write of its
// own, while an earlier one may still land.
var endings = map[string]func(kv.Tx) (string, error){
	"error":   func(kv.Tx) (string, error) { return "", errFull },
	"too old": func(kv.Tx) (string, error) { return "", fmt.Errorf("wrapped: %w", kv.ErrTooOld) },
	"too large": func(tx kv.Tx) (string, error) {
		tx.Set([]byte("large"), make([]byte, 200_000))
		return "", nil
	},
	"nothing written": func(tx kv.Tx) (string, error) { return "", nil },
}

// runEnding enqueues, unless the queue has been closed. Others close it as soon
// as the first attempt is about to commit, which does not conflict with that.
func (f *fixture) runEnding(t *testing.T, ending func(kv.Tx) (string, error)) func(kv.Tx) (string, error) {
	f.commit = func() { f.set(t, "closed", "") }
	return func(tx kv.Tx) (string, error) {
		closed, err := tx.Snapshot().Get([]byte("closed"))
		switch {
		case err != nil:
			return "", err
		case closed != nil:
			return ending(tx)
		}
		return f.enqueue(tx, "q", "new")
	}
}

// An error is returned only if nothing has happened, nor will.
func TestOnceAfterAnErrorNothingLands(t *testing.T) {
	for name, ending := range endings {
		t.Run(name, func(t *testing.T) {
			landed, refused := 0, 0
			schedules(3, func(fates []faulty.Fate) {
				f := newFixture(t, fates...)
				key, err := kv.TransactOnce(t.Context(), f.lane, f.runEnding(t, ending))
				f.db.Flush()
				want := map[string]string{"closed": ""}
				if key != "" {
					landed++
					want[key] = "new"
				} else {
					refused++
				}
				if got := f.state(t); !maps.Equal(got, want) || err != nil && (key != "" || errors.Is(err, kv.ErrCommitUnknown)) {
					t.Errorf("after %v it returned %q, %v, and the store holds %q, want %q", fates, key, err, got, want)
				}
			})
			if landed == 0 || refused == 0 {
				t.Errorf("%d schedules landed and %d did not, want some of either", landed, refused)
			}
		})
	}
}

// Functions given to OnCommit run also behind one that panics.
func TestOnceOnCommitPanics(t *testing.T) {
	f := newFixture(t, faulty.Fate{Outcome: faulty.Applied})
	ran := ""
	defer func() {
		if got := recover(); got != "2" || ran != "123" {
			t.Errorf("panic %v, and functions %s ran; want 2, and 123", got, ran)
		}
	}()
	_, _ = kv.TransactOnce(t.Context(), f.lane, func(tx kv.Tx) (int, error) {
		tx.OnCommit(func() { ran += "1" })
		tx.OnCommit(func() { ran += "2"; panic("2") })
		tx.OnCommit(func() { ran += "3" })
		tx.Set([]byte("k"), nil)
		return 0, nil
	})
}
