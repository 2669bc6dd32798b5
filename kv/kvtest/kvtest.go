// Package kvtest checks that a kv engine keeps the contract of package kv. An
// engine's tests call [Run]; each subtest is named for the rule that it checks,
// and says at a failure which rule that is:
//
//	func TestContract(t *testing.T) {
//		kvtest.Run(t, kvtest.Engine{
//			Open: func(t *testing.T) kv.DB { return Open(t.TempDir()) },
//		})
//	}
//
// Conflicts are provoked, not waited for: inside the first attempt of one
// transaction another is committed, so the outcome does not depend on the
// scheduler. Random concurrent histories then look for what nobody thought of.
// No test sleeps, and none depends on how fast the engine is, except that one
// which hangs fails.
//
// The package tests itself: each of the broken engines in its own tests has to
// be caught.
package kvtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/kv"
)

// Engine is what is tested.
type Engine struct {
	// Open opens a new, empty store. It reports a failure to t, and may leave
	// things to t.Cleanup. The suite closes the store.
	Open func(t *testing.T) kv.DB

	// Reopen opens the store that db was, which has been closed, again. Nil if
	// a store does not outlive Close; then nothing is checked about that.
	Reopen func(t *testing.T, db kv.DB) kv.DB

	// Advance moves the clock that Limits.Age is measured with forwards, for all
	// stores that are open. Nil if it can't be moved; then nothing is checked
	// about age.
	Advance func(d time.Duration)

	// Patience is how long one case may take, and anything in it that has to happen.
	// The longest has some 3,500 commits, one after the other. Default: 2 minutes.
	Patience time.Duration

	// Bubble has each case run in a bubble of testing/synctest, where an engine that waits takes no time. All that
	// the engine waits for must be in there: its goroutines, which end with Close, but no files and no network.
	Bubble bool
}

// patience is the default of Engine.Patience.
const patience = 2 * time.Minute

// Run checks all rules, each in a subtest with a store of its own.
func Run(t *testing.T, e Engine) {
	for _, family := range families {
		t.Run(family.name, func(t *testing.T) {
			for _, c := range family.cases {
				t.Run(c.name, func(t *testing.T) {
					if missing := c.needs.missing(e); missing != "" {
						t.Skipf("the engine has no %s", missing)
					}
					if c.long && testing.Short() {
						t.Skip("-short leaves it out")
					}
					within := func(t *testing.T, f func(*testing.T)) { f(t) }
					if e.Bubble {
						within = synctest.Test
					}
					within(t, func(t *testing.T) { c.run(newTester(t, t, e, cmp.Or(e.Patience, patience))) })
				})
			}
		})
	}
}

// families are all cases, by what they are about.
var families = []struct {
	name  string
	cases []testCase
}{
	{"isolation", isolationCases},
	{"conflicts", conflictCases},
	{"own writes", ownWriteCases},
	{"range", rangeCases},
	{"write", writeCases},
	{"arguments", argumentCases},
	{"limits", limitCases},
	{"transact", transactCases},
	{"on commit", onCommitCases},
	{"watch", watchCases},
	{"life", lifeCases},
}

// testCase checks one rule.
type testCase struct {
	name  string
	rule  string // in a sentence
	check func(*tester)
	needs capability
	long  bool // it copies much: -short leaves it out
}

// capability is what not every engine has.
type capability string

const (
	reopening capability = "Reopen"
	clock     capability = "Advance"
)

// missing returns what e lacks of c.
func (c capability) missing(e Engine) string {
	if c == reopening && e.Reopen == nil || c == clock && e.Advance == nil {
		return string(c)
	}
	return ""
}

// run checks the rule of c, and tells it after a failure.
func (c testCase) run(t *tester) {
	defer func() {
		if t.Failed() {
			t.Logf("the rule: %s", c.rule)
		}
	}()
	c.check(t)
}

// tester is what a case works with.
type tester struct {
	testing.TB
	engine   Engine
	parent   *testing.T // for the engine
	db       kv.DB
	ctx      context.Context // ends when patience does
	patience time.Duration
}

// newTester opens a store. What fails in a case is reported to tb, what fails
// in the engine's functions to parent.
func newTester(tb testing.TB, parent *testing.T, e Engine, patience time.Duration) *tester {
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	t := &tester{TB: tb, engine: e, parent: parent, ctx: ctx, patience: patience}
	t.db = t.open()
	return t
}

// open opens a store that is closed at the end of the case.
func (t *tester) open() kv.DB {
	db := t.engine.Open(t.parent)
	t.Cleanup(func() { t.close(db) })
	return db
}

func (t *tester) close(db kv.DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// transact commits f, which has to succeed.
func (t *tester) transact(f func(kv.Tx) error) {
	t.Helper()
	if err := t.db.Transact(t.ctx, f); err != nil {
		t.Fatalf("Transact: %v", err)
	}
}

// write commits f, which can't fail.
func (t *tester) write(f func(kv.Tx)) {
	t.Helper()
	t.transact(func(tx kv.Tx) error { f(tx); return nil })
}

// put stores keys and values, given in turn.
func (t *tester) put(pairs ...string) {
	t.Helper()
	t.write(func(tx kv.Tx) {
		for ; len(pairs) > 0; pairs = pairs[2:] {
			tx.Set([]byte(pairs[0]), []byte(pairs[1]))
		}
	})
}

// goes tells whether f was committed, and reports it if not. It is for any goroutine.
func (t *tester) goes(f func(kv.Tx) error) bool {
	t.Helper()
	err := t.db.Transact(t.ctx, f)
	if err != nil {
		t.Errorf("Transact: %v", err)
	}
	return err == nil
}

// inBoth runs f in a ReadTransact and in a Transact.
func (t *tester) inBoth(f func(kv.Reader) error) {
	t.Helper()
	t.read(f)
	t.transact(func(tx kv.Tx) error { return f(tx) })
}

// inEach runs f with each kind of Reader.
func (t *tester) inEach(f func(kv.Reader) error) {
	t.Helper()
	t.inBoth(f)
	t.inBoth(func(r kv.Reader) error { return f(r.Snapshot()) })
}

// operations returns n, or less if a transaction may have only so many times as many operations.
func (t *tester) operations(n, times int) int {
	if limit := t.db.Limits().Operations; limit > 0 {
		return min(n, limit/times)
	}
	return n
}

// read runs f, which has to succeed, in a ReadTransact.
func (t *tester) read(f func(kv.Reader) error) {
	t.Helper()
	if err := t.db.ReadTransact(t.ctx, f); err != nil {
		t.Fatalf("ReadTransact: %v", err)
	}
}

// reset makes keys, each with itself as its value, all that is stored.
func (t *tester) reset(keys ...string) {
	t.Helper()
	t.write(func(tx kv.Tx) {
		tx.ClearRange(kv.Range{})
		for _, key := range keys {
			tx.Set([]byte(key), []byte(key))
		}
	})
}

// want checks all that is stored, given as key, value, key, value.
func (t *tester) want(what string, pairs ...string) {
	t.Helper()
	var got []kv.KeyValue
	t.read(func(r kv.Reader) (err error) {
		got, err = collect(r.Range(kv.Range{}, kv.RangeOptions{}))
		return err
	})
	if got, want := show(got), showPairs(pairs...); got != want {
		t.Errorf("%s: the store holds %s, want %s", what, got, want)
	}
}

// wantGet checks what a read returned.
func (t *tester) wantGet(what string, r kv.Reader, key, want string) {
	t.Helper()
	value, err := r.Get([]byte(key))
	if err != nil {
		t.Fatalf("%s: Get(%q): %v", what, key, err)
	}
	if got := showValue(value); got != want {
		t.Errorf("%s: Get(%q) returned %q, want %q", what, key, got, want)
	}
}

// wantKeys checks which keys a range returns, with a space after each.
func (t *tester) wantKeys(what string, seq iter.Seq2[kv.KeyValue, error], want string) error {
	t.Helper()
	got, err := keysOf(seq)
	if err == nil && got != want {
		t.Errorf("%s: a range returned %s, want %s", what, got, want)
	}
	return err
}

// wantFailed checks that a transaction failed with an error, after so many attempts.
func (t *tester) wantFailed(what string, err, want error, attempts, wantAttempts int) {
	t.Helper()
	if !errors.Is(err, want) || attempts != wantAttempts {
		t.Errorf("%s: the transaction returned %v after %d attempts, want %v after %d", what, err, attempts, want, wantAttempts)
	}
}

// absent is what a value that is not there is shown as.
const absent = "(absent)"

func showValue(value []byte) string {
	if value == nil {
		return absent
	}
	return string(value)
}

// show makes pairs comparable and readable.
func show(pairs []kv.KeyValue) string {
	var s strings.Builder
	for _, pair := range pairs {
		fmt.Fprintf(&s, " %.40q=%.40q", pair.Key, pair.Value)
	}
	return "[" + strings.TrimPrefix(s.String(), " ") + "]"
}

// showPairs is show for keys and values in turn.
func showPairs(s ...string) string {
	var pairs []kv.KeyValue
	for ; len(s) > 0; s = s[2:] {
		pairs = append(pairs, kv.KeyValue{Key: []byte(s[0]), Value: []byte(s[1])})
	}
	return show(pairs)
}

// collect returns what is left of a range.
func collect(seq iter.Seq2[kv.KeyValue, error]) ([]kv.KeyValue, error) {
	var pairs []kv.KeyValue
	for pair, err := range seq {
		if err != nil {
			return pairs, err
		}
		pairs = append(pairs, pair)
	}
	return pairs, nil
}

// keysOf returns the keys of r, with a space after each.
func keysOf(seq iter.Seq2[kv.KeyValue, error]) (string, error) {
	pairs, err := collect(seq)
	var s strings.Builder
	for _, pair := range pairs {
		s.Write(append(pair.Key, ' '))
	}
	return s.String(), err
}

// span returns the range from begin to end, either of which may be empty.
func span(begin, end string) kv.Range {
	var r kv.Range
	if begin != "" {
		r.Begin = []byte(begin)
	}
	if end != "" {
		r.End = []byte(end)
	}
	return r
}

// meet tells whether two ranges have a key in common.
func meet(a, b kv.Range) bool {
	begin := a.Begin
	if bytes.Compare(b.Begin, begin) > 0 {
		begin = b.Begin
	}
	return a.Contains(begin) && b.Contains(begin)
}
