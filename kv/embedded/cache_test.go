package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/cache"
	"github.com/conq-go/conq/kv/internal/overlay"
	"pgregory.net/rapid"
)

// TestGaps and TestCache compare reads, new ones and those of transactions that were
// open before, with a model, while keys come and go at both ends and in the
// middle. With the one, every step over a tombstone is remembered, and no range is
// hot; with the other, the cache is small.

func TestGaps(t *testing.T) {
	used, withoutRanges := 0, cache.Usual
	withoutRanges.Bytes = 0
	testReads(t, withoutRanges, func(m *readModel) { used += m.db.gaps.Len() })
	if used == 0 {
		t.Error("no run has left a gap: the test tests nothing")
	}
}

func TestCache(t *testing.T) {
	hot, last, moved := 0, 0, 0
	limits := cache.Limits{Bytes: 1500, LastKeys: 1000, Pairs: 6, First: 2, Fetch: 4, Value: 3, Gap: 2, Inner: 2, Between: 3}
	testReads(t, limits, func(m *readModel) {
		ranges, lastKeys := m.db.cache.Len()
		hot, last, moved = hot+ranges, last+lastKeys, moved+m.moved
	})
	if !testing.Short() && min(hot, last, moved) == 0 { // -short has a fifth of the cases
		t.Errorf("%d hot ranges, %d last keys, %d lazy transactions that moved on: the test tests too little", hot, last, moved)
	}
}

func testReads(t *testing.T, limits cache.Limits, used func(*readModel)) {
	rapid.Check(t, func(rt *rapid.T) {
		db, err := Open(rt.Context(), "store", Options{FS: memFS(), Durability: Memory})
		testkit.NoError(rt, err)
		defer db.Close()
		db.manyTombstones, db.cache = 1, cache.New(limits, db.gaps)
		m := &readModel{db: db, now: map[string]string{}, states: map[uint64]map[string]string{db.version: {}}}
		rt.Repeat(map[string]func(*rapid.T){
			"":            func(rt *rapid.T) { m.check(rt); used(m) },
			"set":         m.set,
			"add":         m.add,
			"clear":       m.clear,
			"clear range": m.clearRange,
			"replace":     m.replace,
			"drain":       func(rt *rapid.T) { inPebble(rt, m.db, m.now) },
			"take first":  func(rt *rapid.T) { m.take(rt, false) },
			"take last":   func(rt *rapid.T) { m.take(rt, true) },
			"open":        m.open,
			"end":         m.end,
			"read":        m.read,
			"read old":    m.readOld,
			"write old":   m.writeOld,
		})
		for _, o := range m.olds {
			o.t.end()
		}
	})
}

// old is a transaction that has been open for a while, what it has read, and what it
// has written itself.
type old struct {
	t      *tx
	reads  []*readResult
	writes []func(state map[string]string)
}

// readResult is a read, and what it returned.
type readResult struct {
	how    string
	span   kv.Range
	among  kv.Range
	o      kv.RangeOptions
	writes int // how much the transaction had written
	got    []string
	err    error
}

// sees returns what r is to be compared with.
func (o *old) sees(m *readModel, r *readResult) map[string]string {
	state := maps.Clone(m.states[o.t.version])
	for _, write := range o.writes[:r.writes] {
		write(state)
	}
	return state
}

type readModel struct {
	db   *DB
	now  map[string]string
	olds []*old
	n    int

	states map[uint64]map[string]string // by version

	moved int // lazy transactions that went on at a later version
}

func drawKey(rt *rapid.T, label string) string {
	return fmt.Sprintf("%02d", rapid.IntRange(0, 40).Draw(rt, label))
}

func drawRange(rt *rapid.T) kv.Range {
	a, b := drawKey(rt, "begin"), drawKey(rt, "end")
	return kv.Range{Begin: []byte(min(a, b)), End: []byte(max(a, b))}
}

func (m *readModel) transact(rt *rapid.T, f func(kv.Tx) error) {
	testkit.NoError(rt, m.db.Transact(context.Background(), f))
}

func (m *readModel) set(rt *rapid.T) {
	m.n++
	keys := drawKeys(rt)
	value := fmt.Sprint(m.n)
	if rapid.IntRange(0, 9).Draw(rt, "large") == 0 {
		value = "a large one"
	}
	m.transact(rt, func(tx kv.Tx) error {
		for _, key := range keys {
			tx.Set([]byte(key), []byte(value))
		}
		return nil
	})
	for _, key := range keys {
		m.now[key] = value
	}
}

func (m *readModel) add(rt *rapid.T) {
	key := drawKey(rt, "key")
	m.transact(rt, func(tx kv.Tx) error { tx.Add([]byte(key), 1); return nil })
	m.now[key] = string(overlay.Sum([]byte(m.now[key]), 1))
}

func (m *readModel) clear(rt *rapid.T) {
	key := drawKey(rt, "key")
	m.transact(rt, func(tx kv.Tx) error { tx.Clear([]byte(key)); return nil })
	delete(m.now, key)
}

func (m *readModel) clearRange(rt *rapid.T) {
	r := drawRange(rt)
	m.transact(rt, func(tx kv.Tx) error {
		tx.AddWriteConflict(kv.Range{}) // of everything, and yet not cleared
		tx.ClearRange(r)
		return nil
	})
	maps.DeleteFunc(m.now, func(k, _ string) bool { return r.Contains([]byte(k)) })
}

func (m *readModel) take(rt *rapid.T, reverse bool) {
	m.transact(rt, func(tx kv.Tx) error {
		pair, ok, err := first(tx, kv.Range{}, reverse)
		if ok {
			tx.Clear(pair.Key)
			delete(m.now, string(pair.Key))
		}
		return err
	})
}

// replace takes the first keys and sets others, in one transaction.
func (m *readModel) replace(rt *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(rt, "taken")
	m.transact(rt, func(tx kv.Tx) error {
		for pair, err := range tx.Range(kv.Range{}, kv.RangeOptions{Limit: n}) {
			if err != nil {
				return err
			}
			tx.Clear(pair.Key)
			delete(m.now, string(pair.Key))
		}
		for _, key := range drawKeys(rt) {
			tx.Set([]byte(key), nil)
			m.now[key] = ""
		}
		return nil
	})
}

func drawKeys(rt *rapid.T) []string {
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string { return drawKey(rt, "key") }), 1, 12).Draw(rt, "keys")
}

func (m *readModel) open(rt *rapid.T) {
	if len(m.olds) == 4 {
		return
	}
	t := newTx(context.Background(), m.db)
	if t.mayBeLazy = rapid.Bool().Draw(rt, "lazy"); t.mayBeLazy {
		t.Lazily()
	}
	testkit.NoError(rt, t.begin())
	m.olds = append(m.olds, &old{t: t})
}

func (m *readModel) end(rt *rapid.T) {
	if len(m.olds) > 0 {
		i := rapid.IntRange(0, len(m.olds)-1).Draw(rt, "which")
		m.olds[i].t.end()
		m.olds = slices.Delete(m.olds, i, i+1)
	}
}

func (m *readModel) read(rt *rapid.T) {
	testkit.NoError(rt, m.db.ReadTransact(context.Background(), func(r kv.Reader) error {
		return drawRead(rt).run(r, func() {}).compare(rt, m.now)
	}))
}

// readOld reads in an older transaction. If that is lazy, it may have moved on, and
// then all that it has read before must be as it would be read now, but for last keys; and it
// may fail, if that is not so.
func (m *readModel) readOld(rt *rapid.T) {
	if len(m.olds) == 0 {
		return
	}
	o := m.olds[rapid.IntRange(0, len(m.olds)-1).Draw(rt, "which")]
	read := drawRead(rt)
	read.writes = len(o.writes)
	before, lazy := o.t.version, o.t.lazy && o.t.snap == nil
	between := func() {}
	if rapid.Bool().Draw(rt, "others write meanwhile") {
		between = func() {
			m.set(rt)
			m.states[m.db.version] = maps.Clone(m.now)
		}
	}
	read.run(o.t, between)
	err := read.compare(rt, o.sees(m, read)) // which the read may have changed
	switch {
	case err == nil:
		if !lazy || read.how != "last key" {
			o.reads = append(o.reads, read)
		}
		if o.t.version != before {
			if !lazy {
				rt.Fatalf("a transaction has moved from version %d to %d", before, o.t.version)
			}
			m.moved++
		}
		for _, r := range o.reads {
			testkit.NoError(rt, r.compare(rt, o.sees(m, r)))
		}
	case !lazy || !errors.Is(err, kv.ErrConflict):
		rt.Fatal(err)
	}
}

// writeOld writes in an older transaction, which sees it from then on.
func (m *readModel) writeOld(rt *rapid.T) {
	if len(m.olds) == 0 {
		return
	}
	o := m.olds[rapid.IntRange(0, len(m.olds)-1).Draw(rt, "which")]
	if rapid.Bool().Draw(rt, "one key") {
		key := drawKey(rt, "key")
		o.t.Set([]byte(key), []byte("own"))
		o.writes = append(o.writes, func(state map[string]string) { state[key] = "own" })
		return
	}
	r := drawRange(rt)
	o.t.ClearRange(r)
	o.writes = append(o.writes, func(state map[string]string) {
		maps.DeleteFunc(state, func(k, _ string) bool { return r.Contains([]byte(k)) })
	})
}

func drawRead(rt *rapid.T) *readResult {
	o := kv.RangeOptions{Limit: rapid.IntRange(0, 3).Draw(rt, "limit"), Reverse: rapid.Bool().Draw(rt, "reverse"), KeysOnly: rapid.Bool().Draw(rt, "keys")}
	how := rapid.SampledFrom([]string{"range", "known", "last key"}).Draw(rt, "how")
	if how == "last key" {
		o = kv.RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}
	}
	return &readResult{span: drawRange(rt), among: drawRange(rt), o: o, how: how}
}

// run reads, and returns itself. It calls between after each pair.
func (r *readResult) run(from kv.Reader, between func()) *readResult {
	switch r.how {
	case "known":
		pairs, known, err := kvext.Known(from.Snapshot(), r.span, r.o, nil)
		if !known && err == nil {
			break
		}
		for _, pair := range pairs {
			r.got = append(r.got, r.line(string(pair.Key), string(pair.Value)))
			pair.Key, pair.Value = append(pair.Key, 'x'), append(pair.Value[:0], "xx"...) // values are ours
		}
		r.err = err
		return r
	case "last key":
		key, err := kvext.LastKey(from.Snapshot(), r.span, r.among)
		if key != nil {
			r.got = append(r.got, string(key))
		}
		r.err = err
		return r
	}
	for pair, err := range from.Range(r.span, r.o) {
		if r.err = err; err != nil {
			break
		}
		r.got = append(r.got, r.line(string(pair.Key), string(pair.Value)))
		pair.Key[0], pair.Value = 'x', append(pair.Value[:0], "xx"...) // they are ours
		between()
	}
	return r
}

func (r *readResult) line(key, value string) string {
	if r.o.KeysOnly {
		return key
	}
	return key + "=" + value
}

// in returns what the read would return in a state of the store.
func (r *readResult) in(state map[string]string) (want []string) {
	for _, k := range slices.Sorted(maps.Keys(state)) {
		if r.span.Contains([]byte(k)) {
			want = append(want, r.line(k, state[k]))
		}
	}
	if r.o.Reverse {
		slices.Reverse(want)
	}
	if r.o.Limit > 0 && len(want) > r.o.Limit {
		want = want[:r.o.Limit]
	}
	return want
}

// compare returns the error of the read, if it had one.
func (r *readResult) compare(rt *rapid.T, state map[string]string) error {
	if want := r.in(state); r.err == nil && !slices.Equal(r.got, want) {
		rt.Fatalf("%q to %q %+v: got %q, want %q", r.span.Begin, r.span.End, r.o, r.got, want)
	}
	return r.err
}

// check notes the state.
func (m *readModel) check(*rapid.T) { m.states[m.db.version] = maps.Clone(m.now) }

// TestGapsStayFew checks that a queue leaves one gap at its head however
// long it has been in use, also when there is always somebody with an older
// version, and that the gap is used.
func TestGapsStayFew(t *testing.T) {
	testkit.Long(t)
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	limits := cache.Usual
	limits.Bytes, limits.First = 0, 1 // or the last read steps over what it fetches
	db.cache = cache.New(limits, db.gaps)
	const depth, turns = 50, 3000
	put := func(tx kv.Tx, i int) { tx.Set(fmt.Appendf(nil, "q%08d", i), nil) }
	mustTransact(t, db, func(tx kv.Tx) {
		for i := range depth {
			put(tx, i)
		}
	})
	var olds []*tx
	for i := range turns {
		o := newTx(context.Background(), db)
		testkit.NoError(t, o.begin())
		olds = append(olds, o)
		mustTransact(t, db, func(tx kv.Tx) {
			pair, ok, err := first(tx, kv.PrefixRange([]byte("q")), false)
			if !ok || err != nil {
				t.Fatal("the queue is empty, or", err)
			}
			tx.Clear(pair.Key)
			put(tx, depth+i)
		})
		if len(olds) > 5 {
			olds[0].end()
			olds = olds[1:]
		}
	}
	for _, o := range olds {
		o.end()
	}
	if n := db.gaps.Len(); n == 0 || n > 10 {
		t.Errorf("%d gaps after %d dequeues, want a few", n, turns)
	}
	if n := db.recent.Len(); n > 0 {
		t.Errorf("the log keeps %d commits and no transaction is open", n)
	}
	o := newTx(context.Background(), db)
	defer o.end()
	c, err := o.cursor(kv.PrefixRange([]byte("q")), kv.RangeOptions{Limit: 1})
	testkit.NoError(t, err)
	defer c.Close()
	if _, ok, err := c.Seek([]byte("q")); !ok || err != nil {
		t.Fatal("the queue is empty, or", err)
	}
	if c.scan.costly(1); c.scan.skipped >= manyTombstones {
		t.Errorf("the first read after %d dequeues stepped over %d keys", turns, c.scan.skipped)
	}
}
