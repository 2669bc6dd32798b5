package kvtest

import (
	"fmt"
	"iter"
	"slices"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
)

var conflictCases = []testCase{
	{name: "get covers its key alone", check: checkGetConflicts,
		rule: "a Get conflicts with a write of that key, present or absent, and with no other"},
	{name: "range covers what it returned", check: checkRangeConflicts,
		rule: "a range conflicts from where it began to the last key that it returned, and on all of it if it ran out"},
	{name: "prefetched reads", check: checkPrefetchConflicts,
		rule: "what was asked for ahead conflicts once it is read, exactly as without that"},
	{name: "two ranges leave a gap", check: checkGap,
		rule: "what lies between two ranges that were read is not covered by either"},
	{name: "snapshot covers nothing", check: checkSnapshotConflicts,
		rule: "reads through Snapshot do not conflict, whatever they read, also when the transaction then writes there"},
	{name: "read conflicts by hand", check: checkReadConflictsByHand,
		rule: "AddReadConflict conflicts on the range that it was given, exactly"},
	{name: "read conflicts of own keys by hand", check: checkTakesByHand,
		rule: "AddReadConflict of a key that the transaction clears, or has cleared, conflicts with others who remove or set it, whatever a snapshot has read around it"},
	{name: "every kind of write", check: checkWriteKinds,
		rule: "Set, Clear, ClearRange, Add and AddWriteConflict make those conflict who read what they cover, and nobody else"},
	{name: "own keys", check: checkOwnKeys,
		rule: "a Get of a key that the transaction has set or cleared itself does not conflict; one before that, or after an Add, does"},
	{name: "blind writes commit", check: checkBlindWrites,
		rule: "writes do not conflict with writes: a transaction that reads nothing commits at the first attempt"},
	{name: "readers commit", check: checkReadersCommit,
		rule: "a transaction without writes and write conflict ranges commits, whatever others wrote"},
	{name: "a write conflict range makes a writer", check: checkWriteConflictCounts,
		rule: "a transaction with a write conflict range and no write is checked like one that writes"},
}

// stored are the keys that conflicts are tried with.
var stored = []string{"b", "d", "f", "h"}

// probes are keys at and next to everything that the cases read.
var probes = []string{
	"\x00", "a", "b", "b\x00", "c", "cz", "d", "d\x00", "e", "ez", "f", "f\x00", "g", "h", "h\x00", "y", "z", "\xfe",
}

// access is one way to read.
type access struct {
	name   string
	do     func(kv.Tx) error
	covers []kv.Range
}

// attempts runs first in a transaction that also writes, commits other before
// its first attempt does, and returns how many attempts it took.
func (t *tester) attempts(first func(kv.Tx) error, other func(kv.Tx)) int {
	t.Helper()
	n := 0
	t.transact(func(tx kv.Tx) error {
		if err := first(tx); err != nil {
			return err
		}
		if n++; n == 1 {
			t.write(other)
		}
		tx.Set([]byte("\x01result"), nil)
		return nil
	})
	return n
}

// wantConflict checks whether a write of key by another makes a run again.
func (t *tester) wantConflict(a access, other string, write func(kv.Tx), want bool) {
	t.Helper()
	t.reset(stored...)
	got := t.attempts(a.do, write)
	if want && got != 2 {
		t.Errorf("%s: took %d attempts though another transaction did %s, which it had covered; want 2", a.name, got, other)
	}
	if !want && got != 1 {
		t.Errorf("%s: took %d attempts because another transaction did %s, which it had not covered; want 1", a.name, got, other)
	}
}

// probe checks that a conflicts with a write of each probe that it covers, one
// by one, and with none of the others.
func (t *tester) probe(a access) {
	t.Helper()
	var outside []string
	for _, key := range probes {
		if !slices.ContainsFunc(a.covers, func(r kv.Range) bool { return r.Contains([]byte(key)) }) {
			outside = append(outside, key)
			continue
		}
		t.wantConflict(a, fmt.Sprintf("Set(%q)", key), set(key), true)
		if slices.Contains(stored, key) {
			clearKey := func(tx kv.Tx) { tx.Clear([]byte(key)) }
			t.wantConflict(a, fmt.Sprintf("Clear(%q)", key), clearKey, true)
		}
	}
	t.wantConflict(a, fmt.Sprintf("Set of each of %q", outside), set(outside...), false)
}

// set returns a transaction that changes keys.
func set(keys ...string) func(kv.Tx) {
	return func(tx kv.Tx) {
		for _, key := range keys {
			tx.Set([]byte(key), []byte("other"))
		}
	}
}

func get(key string) access {
	return access{
		name:   fmt.Sprintf("Get(%q)", key),
		do:     func(tx kv.Tx) error { _, err := tx.Get([]byte(key)); return err },
		covers: []kv.Range{kv.KeyRange([]byte(key))},
	}
}

func checkGetConflicts(t *tester) {
	for _, key := range []string{"b", "c", "d", "d\x00", "\xfe"} {
		t.probe(get(key))
	}
}

// leaving is a way to leave a loop after n pairs, where n is up to most.
type leaving struct {
	name string
	most int
	read func(t *tester, r kv.Reader, s kv.Range, reverse bool, n int) error
}

var leavings = []leaving{
	{"Limit", 3, func(_ *tester, r kv.Reader, s kv.Range, reverse bool, n int) error {
		_, err := collect(r.Range(s, kv.RangeOptions{Limit: n, Reverse: reverse}))
		return err
	}},
	{"break after", 2, func(_ *tester, r kv.Reader, s kv.Range, reverse bool, n int) error {
		for _, err := range r.Range(s, kv.RangeOptions{Reverse: reverse}) {
			if n--; err != nil || n == 0 {
				return err
			}
		}
		return nil
	}},
	{"left hanging in iter.Pull after", 1, func(t *tester, r kv.Reader, s kv.Range, reverse bool, n int) error {
		next, stop := iter.Pull2(r.Range(s, kv.RangeOptions{Reverse: reverse}))
		t.Cleanup(stop) // long after the commit
		_, err, _ := next()
		return err
	}},
}

// covered returns what a loop over s covers that is left after n pairs.
func covered(s kv.Range, reverse bool, n int) kv.Range {
	var keys []string
	for _, key := range stored {
		if s.Contains([]byte(key)) {
			keys = append(keys, key)
		}
	}
	if n == 0 || n > len(keys) {
		return s
	}
	if reverse {
		return kv.Range{Begin: []byte(keys[len(keys)-n]), End: s.End}
	}
	return kv.Range{Begin: s.Begin, End: kv.After([]byte(keys[n-1]))}
}

// loops returns loops over ranges with, before, at and behind keys, left in all
// ways after no, some, and all pairs, and run out.
func (t *tester) loops() []access {
	ranges := []kv.Range{
		span("a", "z"), span("c", "e"), span("c", "g"), span("b", "h"), span("b\x00", "d"), span("c", "c"),
		span("", ""), span("", "d"), span("d\x00", ""),
	}
	var all []access
	for _, s := range ranges {
		for _, reverse := range []bool{false, true} {
			for i, l := range leavings {
				for n := min(i, 1); n <= l.most; n++ { // to run out is the same for all
					all = append(all, access{
						name:   fmt.Sprintf("range %q to %q, reverse %v, %s %d", s.Begin, s.End, reverse, l.name, n),
						do:     func(tx kv.Tx) error { return l.read(t, tx, s, reverse, n) },
						covers: []kv.Range{covered(s, reverse, n)},
					})
				}
			}
		}
	}
	return all
}

func checkRangeConflicts(t *tester) {
	for _, a := range t.loops() {
		t.probe(a)
	}
	for _, s := range []kv.Range{span("c", "g"), span("b\x00", "d"), span("d\x00", "")} {
		t.probe(access{
			name:   fmt.Sprintf("LastKey of %q to %q", s.Begin, s.End),
			do:     func(tx kv.Tx) error { _, err := kvext.LastKey(tx, s, kv.Range{}); return err },
			covers: []kv.Range{covered(s, true, 1)},
		})
	}
	several := []kv.Range{span("a", "c"), span("c", "d"), span("f", "z")}
	a := access{
		name: fmt.Sprintf("LastKeys of %q", several),
		do:   func(tx kv.Tx) error { _, err := kvext.LastKeys(tx, several, kv.Range{}, nil); return err },
	}
	for _, s := range several {
		a.covers = append(a.covers, covered(s, true, 1))
	}
	t.probe(a)
}

func checkPrefetchConflicts(t *tester) {
	whole, part := kv.Read{Range: span("c", "g")}, kv.Read{Range: span("e", ""), Options: kv.RangeOptions{Limit: 1, Reverse: true}}
	key := kv.Read{Key: []byte("d")}
	for name, a := range map[string]access{
		"nothing": {},
		"d":       {do: get("d").do, covers: get("d").covers},
		"c to g, through a snapshot": {do: func(tx kv.Tx) error {
			_, err := collect(tx.Snapshot().Range(whole.Range, whole.Options))
			return err
		}},
		"c to g": {covers: []kv.Range{whole.Range}, do: func(tx kv.Tx) error {
			_, err := collect(tx.Range(whole.Range, whole.Options))
			return err
		}},
		"the last from e on": {covers: []kv.Range{span("h", "")}, do: func(tx kv.Tx) error {
			_, err := collect(tx.Range(part.Range, part.Options))
			return err
		}},
	} {
		do := a.do
		a.name = "Prefetch of d, c to g and the last from e on, then a read of " + name
		a.do = func(tx kv.Tx) error {
			kv.Prefetch(tx, key, whole, part)
			if _, err := tx.Snapshot().Get([]byte("b")); err != nil || do == nil {
				return err
			}
			return do(tx)
		}
		t.probe(a)
	}
}

func checkGap(t *tester) {
	for _, reverse := range []bool{false, true} {
		t.probe(access{
			name: fmt.Sprintf("one pair from each of two ranges, reverse %v", reverse),
			do: func(tx kv.Tx) error {
				for _, s := range []kv.Range{span("a", "c"), span("e", "g")} {
					if _, err := collect(tx.Range(s, kv.RangeOptions{Limit: 1, Reverse: reverse})); err != nil {
						return err
					}
				}
				return nil
			},
			covers: []kv.Range{covered(span("a", "c"), reverse, 1), covered(span("e", "g"), reverse, 1)},
		})
	}
}

func checkSnapshotConflicts(t *tester) {
	all := append(t.loops(), get("c"), get("d"))
	for i, a := range all {
		do := a.do
		all[i].covers = nil
		all[i].name += ", through Snapshot, then Set of the same keys"
		all[i].do = func(tx kv.Tx) error {
			err := do(snapshotTx{tx, tx.Snapshot()})
			set("c", "d")(tx)
			return err
		}
	}
	for _, a := range all {
		t.probe(a)
	}
}

// snapshotTx is a transaction that reads through its snapshot.
type snapshotTx struct {
	kv.Tx
	snapshot kv.Reader
}

func (tx snapshotTx) Get(key []byte) ([]byte, error) { return tx.snapshot.Get(key) }

func (tx snapshotTx) Range(r kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return tx.snapshot.Range(r, opts)
}

func checkReadConflictsByHand(t *tester) {
	for _, s := range []kv.Range{
		span("c", "e"), span("d", "d\x00"), span("e", "e"), span("", "d"), span("d\x00", ""), span("", ""),
	} {
		t.probe(access{
			name:   fmt.Sprintf("AddReadConflict %q to %q", s.Begin, s.End),
			do:     func(tx kv.Tx) error { tx.AddReadConflict(s); return nil },
			covers: []kv.Range{s},
		})
	}
}

// checkTakesByHand has a transaction find a key by a snapshot, and depend on that key alone.
func checkTakesByHand(t *tester) {
	d := []byte("d")
	depend := func(tx kv.Tx) { tx.AddReadConflict(kv.KeyRange(d)) }
	clear := func(tx kv.Tx) { tx.Clear(d) }
	for name, steps := range map[string][]func(kv.Tx){
		"AddReadConflict, then Clear, of d": {depend, clear},
		"Clear, then AddReadConflict, of d": {clear, depend},
	} {
		t.probe(access{
			name: "a snapshot of all, " + name,
			do: func(tx kv.Tx) error {
				if _, err := collect(tx.Snapshot().Range(kv.Range{}, kv.RangeOptions{})); err != nil {
					return err
				}
				for _, step := range steps {
					step(tx)
				}
				return nil
			},
			covers: []kv.Range{kv.KeyRange(d)},
		})
	}
}

func checkWriteKinds(t *tester) {
	d := []byte("d")
	writes := []struct {
		name   string
		do     func(kv.Tx)
		covers kv.Range
	}{
		{"Set d", func(tx kv.Tx) { tx.Set(d, []byte("other")) }, kv.KeyRange(d)},
		{"Clear d", func(tx kv.Tx) { tx.Clear(d) }, kv.KeyRange(d)},
		{"Add d", func(tx kv.Tx) { tx.Add(d, 1) }, kv.KeyRange(d)},
		{"ClearRange d to f", func(tx kv.Tx) { tx.ClearRange(span("d", "f")) }, span("d", "f")},
		{"ClearRange c to d\\x00", func(tx kv.Tx) { tx.ClearRange(span("c", "d\x00")) }, span("c", "d\x00")},
		{"ClearRange up to e", func(tx kv.Tx) { tx.ClearRange(span("", "e")) }, span("", "e")},
		{"ClearRange from c", func(tx kv.Tx) { tx.ClearRange(span("c", "")) }, span("c", "")},
		{"ClearRange d to d", func(tx kv.Tx) { tx.ClearRange(span("d", "d")) }, span("d", "d")},
		{"AddWriteConflict d", func(tx kv.Tx) { tx.AddWriteConflict(kv.KeyRange(d)) }, kv.KeyRange(d)},
		{"AddWriteConflict c to d", func(tx kv.Tx) { tx.AddWriteConflict(span("c", "d")) }, span("c", "d")},
		{"AddWriteConflict from d", func(tx kv.Tx) { tx.AddWriteConflict(span("d", "")) }, span("d", "")},
		{"AddWriteConflict d to d", func(tx kv.Tx) { tx.AddWriteConflict(span("d", "d")) }, span("d", "d")},
	}
	for _, s := range []kv.Range{span("d", "d\x00"), span("b", "d"), span("d", "e"), span("f", "g"), span("", "")} {
		byRange := access{
			name: fmt.Sprintf("range %q to %q", s.Begin, s.End),
			do:   func(tx kv.Tx) error { _, err := collect(tx.Range(s, kv.RangeOptions{})); return err },
		}
		byHand := access{
			name: fmt.Sprintf("AddReadConflict %q to %q", s.Begin, s.End),
			do:   func(tx kv.Tx) error { tx.AddReadConflict(s); return nil },
		}
		for _, w := range writes {
			t.wantConflict(byRange, w.name, w.do, meet(s, w.covers))
			t.wantConflict(byHand, w.name, w.do, meet(s, w.covers))
		}
	}
}

func checkOwnKeys(t *tester) {
	d := []byte("d")
	steps := map[string]func(kv.Tx) error{
		"Set":        func(tx kv.Tx) error { tx.Set(d, []byte("own")); return nil },
		"Clear":      func(tx kv.Tx) error { tx.Clear(d); return nil },
		"ClearRange": func(tx kv.Tx) error { tx.ClearRange(span("c", "e")); return nil },
		"Add":        func(tx kv.Tx) error { tx.Add(d, 1); return nil },
		"Get":        get("d").do,
	}
	for _, c := range []struct {
		first, second string
		conflict      bool
	}{
		{"Set", "Get", false}, {"Clear", "Get", false}, {"ClearRange", "Get", false}, {"Add", "Get", true},
		{"Get", "Set", true}, {"Get", "Clear", true}, {"Get", "ClearRange", true}, {"Get", "Add", true},
	} {
		t.wantConflict(access{
			name: fmt.Sprintf("%s, then %s, of d", c.first, c.second),
			do: func(tx kv.Tx) error {
				if err := steps[c.first](tx); err != nil {
					return err
				}
				return steps[c.second](tx)
			},
		}, "Set(d)", set("d"), c.conflict)
	}
}

func checkBlindWrites(t *tester) {
	blind := func(tx kv.Tx) error {
		tx.Set([]byte("d"), []byte("own"))
		tx.Add([]byte("n"), 2)
		tx.Clear([]byte("b"))
		tx.ClearRange(span("f", "g"))
		tx.AddWriteConflict(span("", ""))
		return nil
	}
	other := func(tx kv.Tx) {
		set("a", "b", "d", "f")(tx)
		tx.Add([]byte("n"), 1)
		tx.AddWriteConflict(span("", ""))
	}
	t.wantConflict(access{name: "a transaction that only writes", do: blind}, "writes of the same keys", other, false)
	t.want("the later commit wins", "\x01result", "", "a", "other", "d", "own", "h", "h", "n", "\x03\x00\x00\x00\x00\x00\x00\x00")
}

func checkReadersCommit(t *tester) {
	reads := append(t.loops(), get("c"), get("d"), access{
		name: "AddReadConflict of everything",
		do:   func(tx kv.Tx) error { tx.AddReadConflict(kv.Range{}); return nil },
	})
	t.reset(stored...)
	for _, a := range reads {
		n := 0
		t.transact(func(tx kv.Tx) error {
			if err := a.do(tx); err != nil {
				return err
			}
			if n++; n == 1 {
				t.write(func(tx kv.Tx) { tx.Set([]byte("d"), nil); tx.AddWriteConflict(kv.Range{}) })
			}
			return nil
		})
		if n != 1 {
			t.Errorf("%s, and no write: took %d attempts, want 1", a.name, n)
		}
	}
}

func checkWriteConflictCounts(t *tester) {
	t.reset(stored...)
	n := 0
	t.transact(func(tx kv.Tx) error {
		if n++; n == 1 {
			if err := get("d").do(tx); err != nil {
				return err
			}
			t.write(set("d"))
		}
		tx.AddWriteConflict(span("x", "y"))
		return nil
	})
	if n != 2 {
		t.Errorf("Get, and a write conflict range: took %d attempts after another wrote the key, want 2", n)
	}
}
