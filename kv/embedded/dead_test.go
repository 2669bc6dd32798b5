package embedded

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/conq-go/conq/kv"
	"pgregory.net/rapid"
)

// old is a transaction that has been open for a while, and what it must see.
type old struct {
	t    *tx
	want map[string]string
}

// TestDeadSpace compares reads, new ones and those of transactions that were
// open before, with a model, while keys come and go at both ends and in the
// middle. Every step over a tombstone is remembered.
func TestDeadSpace(t *testing.T) {
	used := 0
	rapid.Check(t, func(rt *rapid.T) {
		db, err := Open("store", Options{FS: memFS(), Durability: Memory})
		if err != nil {
			rt.Fatal(err)
		}
		defer db.Close()
		db.manyTombstones = 1
		m := &deadModel{db: db, now: map[string]string{}}
		rt.Repeat(map[string]func(*rapid.T){
			"":            m.checkGaps,
			"set":         m.set,
			"clear":       m.clear,
			"clear range": m.clearRange,
			"take first":  func(rt *rapid.T) { m.take(rt, false) },
			"take last":   func(rt *rapid.T) { m.take(rt, true) },
			"open":        m.open,
			"end":         m.end,
			"read":        m.read,
			"read old":    m.readOld,
		})
		used += db.dead.gaps.Len()
		for _, o := range m.olds {
			o.t.end()
		}
	})
	if used == 0 {
		t.Error("no run has left a gap: the test tests nothing")
	}
}

type deadModel struct {
	db   *DB
	now  map[string]string
	olds []old
	n    int
}

func drawKey(rt *rapid.T, label string) string {
	return fmt.Sprintf("%02d", rapid.IntRange(0, 40).Draw(rt, label))
}

func drawRange(rt *rapid.T) kv.Range {
	a, b := drawKey(rt, "begin"), drawKey(rt, "end")
	return kv.Range{Begin: []byte(min(a, b)), End: []byte(max(a, b))}
}

func (m *deadModel) transact(rt *rapid.T, f func(kv.Tx) error) {
	if err := m.db.Transact(context.Background(), f); err != nil {
		rt.Fatal(err)
	}
}

func (m *deadModel) set(rt *rapid.T) {
	key := drawKey(rt, "key")
	m.n++
	value := fmt.Sprint(m.n)
	m.transact(rt, func(tx kv.Tx) error { tx.Set([]byte(key), []byte(value)); return nil })
	m.now[key] = value
}

func (m *deadModel) clear(rt *rapid.T) {
	key := drawKey(rt, "key")
	m.transact(rt, func(tx kv.Tx) error { tx.Clear([]byte(key)); return nil })
	delete(m.now, key)
}

func (m *deadModel) clearRange(rt *rapid.T) {
	r := drawRange(rt)
	m.transact(rt, func(tx kv.Tx) error {
		tx.AddWriteConflict(kv.Range{}) // of everything, and yet not cleared
		tx.ClearRange(r)
		return nil
	})
	maps.DeleteFunc(m.now, func(k, _ string) bool { return r.Contains([]byte(k)) })
}

func (m *deadModel) take(rt *rapid.T, reverse bool) {
	m.transact(rt, func(tx kv.Tx) error {
		pair, ok, err := first(tx, kv.Range{}, reverse)
		if ok {
			tx.Clear(pair.Key)
			delete(m.now, string(pair.Key))
		}
		return err
	})
}

func (m *deadModel) open(rt *rapid.T) {
	if len(m.olds) == 4 {
		return
	}
	t := newTx(context.Background(), m.db)
	if err := t.begin(); err != nil {
		rt.Fatal(err)
	}
	m.olds = append(m.olds, old{t, maps.Clone(m.now)})
}

func (m *deadModel) end(rt *rapid.T) {
	if len(m.olds) > 0 {
		i := rapid.IntRange(0, len(m.olds)-1).Draw(rt, "which")
		m.olds[i].t.end()
		m.olds = slices.Delete(m.olds, i, i+1)
	}
}

func (m *deadModel) read(rt *rapid.T) {
	if err := m.db.ReadTransact(context.Background(), func(r kv.Reader) error {
		compare(rt, r, m.now)
		return nil
	}); err != nil {
		rt.Fatal(err)
	}
}

func (m *deadModel) readOld(rt *rapid.T) {
	if len(m.olds) > 0 {
		o := m.olds[rapid.IntRange(0, len(m.olds)-1).Draw(rt, "which")]
		compare(rt, o.t, o.want)
	}
}

func compare(rt *rapid.T, r kv.Reader, model map[string]string) {
	span := drawRange(rt)
	o := kv.RangeOptions{Limit: rapid.IntRange(0, 3).Draw(rt, "limit"), Reverse: rapid.Bool().Draw(rt, "reverse")}
	var got []string
	for pair, err := range r.Range(span, o) {
		if err != nil {
			rt.Fatal(err)
		}
		got = append(got, string(pair.Key)+"="+string(pair.Value))
	}
	var want []string
	for _, k := range slices.Sorted(maps.Keys(model)) {
		if span.Contains([]byte(k)) {
			want = append(want, k+"="+model[k])
		}
	}
	if o.Reverse {
		slices.Reverse(want)
	}
	if o.Limit > 0 && len(want) > o.Limit {
		want = want[:o.Limit]
	}
	if !slices.Equal(got, want) {
		rt.Fatalf("%q to %q %+v: got %q, want %q", span.Begin, span.End, o, got, want)
	}
}

// checkGaps checks what is always true of the gaps: they are disjoint, in
// order, not empty, and hold no key that is alive.
func (m *deadModel) checkGaps(rt *rapid.T) {
	var end []byte
	m.db.dead.gaps.Scan(func(g *gap) bool {
		if bytes.Compare(g.begin, g.end) >= 0 || bytes.Compare(g.begin, end) < 0 {
			rt.Fatalf("gap %q to %q comes after one that ends at %q", g.begin, g.end, end)
		}
		end = g.end
		for k := range m.now {
			if (kv.Range{Begin: g.begin, End: g.end}).Contains([]byte(k)) {
				rt.Fatalf("gap %q to %q holds %q, which is alive", g.begin, g.end, k)
			}
		}
		return true
	})
}

// TestDeadSpaceStaysSmall checks that a queue leaves one gap at its head however
// long it has been in use, also when there is always somebody with an older
// version, and that the gap is used.
func TestDeadSpaceStaysSmall(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
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
		if err := o.begin(); err != nil {
			t.Fatal(err)
		}
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
	if n := db.dead.gaps.Len(); n == 0 || n > 10 {
		t.Errorf("%d gaps after %d dequeues, want a few", n, turns)
	}
	if n := len(db.dead.fresh); n > 10 {
		t.Errorf("%d gaps wait to be joined, want a few", n)
	}
	if n := len(db.window.commits); n > 0 {
		t.Errorf("the window keeps %d commits and no transaction is open", n)
	}
	o := newTx(context.Background(), db)
	defer o.end()
	c, err := o.cursor(kv.PrefixRange([]byte("q")), false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok, err := c.Seek([]byte("q")); !ok || err != nil {
		t.Fatal("the queue is empty, or", err)
	}
	if c.(*cursor).costly(); c.(*cursor).skipped >= manyTombstones {
		t.Errorf("the first read after %d dequeues stepped over %d keys", turns, c.(*cursor).skipped)
	}
}
