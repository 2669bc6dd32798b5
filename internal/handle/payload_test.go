package handle_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// The largest payload is half of a transaction. One byte more is refused before
// anything is written, whatever verb it comes by.
func TestTooLarge(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, small), nil)
	v := strings.Repeat("x", 10_001)
	verbs := map[string]func(kv.Tx) error{
		"Enqueue":       func(kv.Tx) error { return f.q.Enqueue(f.ctx, v) },
		"EnqueueAll":    func(kv.Tx) error { return f.q.EnqueueAll(f.ctx, []string{"a", v}) },
		"In Enqueue":    func(tx kv.Tx) error { return f.q.In(tx).Enqueue(v) },
		"In EnqueueAll": func(tx kv.Tx) error { return f.q.In(tx).EnqueueAll([]string{"a", v}) },
		"Push":          func(kv.Tx) error { return f.p.Push(f.ctx, v, 1) },
		"PushAll": func(kv.Tx) error {
			return f.p.PushAll(f.ctx, []conq.Prioritized[string]{{Value: "a", Priority: 1}, {Value: v, Priority: 1}})
		},
		"In Push": func(tx kv.Tx) error { return f.p.In(tx).Push(v, 1) },
		"In PushAll": func(tx kv.Tx) error {
			return f.p.In(tx).PushAll([]conq.Prioritized[string]{{Value: "a", Priority: 1}, {Value: v, Priority: 1}})
		},
	}
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			testkit.NoError(t, f.db.Transact(f.ctx, func(tx kv.Tx) error {
				err := verb(tx)
				testkit.WantError(t, err, kv.ErrTooLarge, `conq: queue "`, "item of 10001 bytes", "limit of 10000")
				var large *kv.TooLargeError
				testkit.Equal(t, "is a TooLargeError", errors.As(err, &large), true)
				testkit.Equal(t, "error", *large, kv.TooLargeError{What: "item", Size: 10_001, Limit: 10_000, Unit: "bytes"})
				return nil // committed all the same
			}))
			testkit.Equal(t, "keys", len(testkit.Stored(t, f.db)), 0)
		})
	}
}

// A batch over the limits of a transaction is refused as a whole.
func TestBatchTooLarge(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, small), nil)
	v := strings.Repeat("x", 7_000)
	testkit.WantError(t, f.q.EnqueueAll(f.ctx, []string{v, v, v}), kv.ErrTooLarge, "transaction")
	testkit.Equal(t, "keys", len(testkit.Stored(t, f.db)), 0)
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, []string{v}))
}

// An item of which a piece is missing or has a wrong size, or whose number of pieces makes no sense, one that
// does not decode, and a key that is not an item's, is an ErrDecode and stays, whatever verb it comes by.
func TestBrokenItems(t *testing.T) {
	item := func(elems ...any) []byte {
		return testkit.Pack(t, append([]any{"q", 1, make([]byte, 20)}, elems...)...)
	}
	key3 := item(3)
	piece := func(i int64) []byte { return layout.New("q", conq.KindQueue, small).Piece(key3, i) }
	cases := map[string][]kv.KeyValue{
		"first piece missing":  {{Key: key3, Value: []byte("a")}, {Key: piece(2), Value: []byte("c")}},
		"second piece missing": {{Key: key3, Value: []byte("a")}, {Key: piece(1), Value: []byte("b")}},
		"a short piece":        {{Key: key3, Value: []byte("aa")}, {Key: piece(1), Value: []byte("b")}, {Key: piece(2), Value: []byte("c")}},
		"a long piece":         {{Key: key3, Value: []byte("a")}, {Key: piece(1), Value: []byte("bb")}, {Key: piece(2), Value: []byte("c")}},
		"a long last piece":    {{Key: key3, Value: []byte("a")}, {Key: piece(1), Value: []byte("b")}, {Key: piece(2), Value: []byte("cc")}},
		"an empty last piece":  {{Key: key3, Value: []byte("a")}, {Key: piece(1), Value: []byte("b")}, {Key: piece(2)}},
		"all missing":          {{Key: key3, Value: []byte("a")}},
		"another one instead":  {{Key: key3}, {Key: piece(1)}, {Key: piece(3)}},
		"a later one instead":  {{Key: key3, Value: []byte("a")}, {Key: piece(1), Value: []byte("b")}, {Key: piece(3), Value: []byte("c")}},
		"one in front":         {{Key: key3, Value: []byte("a")}, {Key: piece(0), Value: []byte("x")}, {Key: piece(1), Value: []byte("b")}, {Key: piece(2), Value: []byte("c")}},
		"one piece":            {{Key: item(1)}},
		"no pieces":            {{Key: item(0)}},
		"negative":             {{Key: item(-5)}},
		"huge":                 {{Key: item(int64(1) << 40)}},
		"2^31-1 pieces":        {{Key: item(int64(1)<<31 - 1), Value: []byte("a")}},
		"two elements":         {{Key: item(2, 2)}},
		"a string":             {{Key: item("2")}},
		"not UTF-8":            {{Key: testkit.Pack(t, "q", 1, make([]byte, 20)), Value: []byte{0xff}}},
		"no random element":    {{Key: testkit.Pack(t, "q", 1)}},
		"no index":             {{Key: testkit.Pack(t, "q", "a")}},
		"index too large":      {{Key: testkit.Pack(t, "q", uint64(math.MaxUint64), make([]byte, 20))}},
		"index a big one":      {{Key: testkit.Pack(t, "q", new(big.Int).Lsh(big.NewInt(1), 100), make([]byte, 20))}},
		"random a string":      {{Key: testkit.Pack(t, "q", 1, "random")}},
	}
	for name, pairs := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, testkit.NewMemory(t, small), nil)
			testkit.Write(t, f.db, pairs...)
			stays(t, f, "q", fmt.Sprintf("%x", pairs[0].Key))
		})
	}
}

// stays checks that all verbs of the queue fail with an ErrDecode that says both
// texts, and change nothing, even when the caller commits.
func stays(t *testing.T, f fixture, texts ...string) {
	t.Helper()
	before := testkit.Everything(t, f.db)
	first := func(seq func(func(string, error) bool)) error {
		for _, err := range seq {
			return err
		}
		return nil
	}
	verbs := map[string]func(kv.Tx) error{
		"Dequeue":     func(kv.Tx) error { return drop(f.q.Dequeue(f.ctx)) },
		"DequeueN":    func(kv.Tx) error { return drop(f.q.DequeueN(f.ctx, 2)) },
		"Peek":        func(kv.Tx) error { return drop(f.q.Peek(f.ctx)) },
		"All":         func(kv.Tx) error { return first(f.q.All(f.ctx)) },
		"In Dequeue":  func(tx kv.Tx) error { return drop(f.q.In(tx).Dequeue()) },
		"In DequeueN": func(tx kv.Tx) error { return drop(f.q.In(tx).DequeueN(2)) },
		"In Peek":     func(tx kv.Tx) error { return drop(f.q.In(tx).Peek()) },
		"In All":      func(tx kv.Tx) error { return first(f.q.In(tx).All()) },
	}
	for name, verb := range verbs {
		testkit.NoError(t, f.db.Transact(f.ctx, func(tx kv.Tx) error {
			err := verb(tx)
			if !errors.Is(err, conq.ErrDecode) {
				t.Errorf("%s: error %v, want an ErrDecode", name, err)
				return nil
			}
			testkit.WantError(t, err, conq.ErrDecode, texts...)
			return nil
		}))
	}
	testkit.EqualPairs(t, testkit.Everything(t, f.db), before)
}

// A batch ends before an item that does not decode.
func TestBatchEndsBeforeBrokenItem(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, small), nil)
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, []string{"a", "b"}))
	raw := newQueue(t, f.db, conq.Bytes())
	testkit.NoError(t, raw.Enqueue(f.ctx, []byte{0xff}))
	testkit.NoError(t, f.q.Enqueue(f.ctx, "c"))
	wantItems(t, "batch", f.q.DequeueN, 10, "a", "b")
	testkit.WantError(t, drop(f.q.DequeueN(f.ctx, 10)), conq.ErrDecode)
	b, err := raw.Dequeue(f.ctx)
	testkit.NoError(t, err)
	testkit.Equal(t, "the item", string(b), "\xff")
	testkit.Equal(t, "the next", first(t, f), "c")
}

// So does one before a key that is not an item's, whatever the order, and no other of the batch is told that
// the queue is empty.
func TestBatchEndsBeforeBrokenKey(t *testing.T) {
	for engine, open := range engines.All(t) {
		f := newFixture(t, open(kv.Limits{}), nil)
		testkit.NoError(t, f.q.EnqueueAll(f.ctx, []string{"a", "b"}))
		testkit.NoError(t, f.p.PushAll(f.ctx, []conq.Prioritized[string]{{Value: "b", Priority: -1}, {Value: "a", Priority: 0}}))
		testkit.Write(t, f.db, kv.KeyValue{Key: testkit.Packed(t, testkit.Laid("q").Prefix(), 9, "x")}, kv.KeyValue{Key: testkit.Packed(t, testkit.Laid("p").Prefix(), "x")})
		endsBefore(t, engine+" Dequeue", f.q.DequeueN)
		endsBefore(t, engine+" PopMax", valuesOf(f.p.PopN, conq.Max))
		testkit.NoError(t, f.p.PushAll(f.ctx, []conq.Prioritized[string]{{Value: "b", Priority: -1}, {Value: "a", Priority: 0}}))
		endsBefore(t, engine+" PopMax first pushed", valuesOf(f.pf.PopN, conq.Max))
	}
}

func endsBefore[V any](t *testing.T, what string, take func(context.Context, int) ([]V, error)) {
	t.Helper()
	got, err := take(t.Context(), 10)
	testkit.NoError(t, err)
	testkit.Equal(t, what+": items", len(got), 2)
	testkit.WantError(t, drop(take(t.Context(), 10)), conq.ErrDecode)
}

// An engine may count more than a batch knows of. Then fewer items are taken, in order, as if no more had
// been tried.
func TestBatchLargerThanKnown(t *testing.T) {
	for _, shared := range []bool{false, true} {
		for _, waits := range []bool{false, true} {
			db := testkit.NewMemory(t, kv.Limits{Transaction: 2000})
			if shared {
				db = faulty.New(db, 1, faulty.Options{Limits: kv.Limits{Shared: true}})
			}
			var taken []conq.Event
			v := openFront(t, &testkit.Hooked{DB: db, Bounds: kv.Limits{Transaction: 1 << 20}}, conq.Options{Observe: func(e conq.Event) {
				if e.Kind == conq.Taken || e.Kind == conq.Requested {
					taken = append(taken, e)
				}
			}})
			var want, got []string
			for i := range 100 {
				want = append(want, fmt.Sprint(i))
				testkit.NoError(t, v.add(t.Context(), want[i]))
			}
			take := v.take
			if waits {
				take = v.wait
			}
			for len(got) < 100 {
				items, err := take(t.Context(), 100)
				testkit.NoError(t, err)
				got = append(got, items...)
				if len(items) < min(10, 100-len(got)) {
					t.Fatalf("shared %v, waits %v: only %d items", shared, waits, len(items))
				}
			}
			testkit.EqualSlices(t, "items", got, want)
			told := 0
			for _, e := range taken {
				told += e.Items
				testkit.Equal(t, fmt.Sprintf("shared %v, waits %v: what has taken", shared, waits), e,
					conq.Event{Queue: "q", Kind: conq.Taken, Calls: 1, Items: e.Items, Attempts: 1})
			}
			testkit.Equal(t, fmt.Sprintf("shared %v, waits %v: items that were told", shared, waits), told, len(want))
			testkit.NoError(t, v.close())
		}
	}
}

func first(t *testing.T, f fixture) string {
	t.Helper()
	v, err := f.q.Dequeue(f.ctx)
	testkit.NoError(t, err)
	return v
}

// A batch takes what the limits allow, but at least one item, in order, and goes
// on where it ended.
func TestBatchLimits(t *testing.T) {
	v := func(i, size int) string { return fmt.Sprint(i, strings.Repeat(".", size-1)) }
	key := len("\x02q\x00") + 2 + 22 + 20 // about: index, random with some escaped bytes
	cases := []struct {
		what         string
		limits       kv.Limits
		size, items  int
		atLeast, max int // in the first batch of 10, or of items
	}{
		{"all fit", kv.Limits{}, 10, 8, 8, 8},
		{"no more than asked for", kv.Limits{}, 10, 15, 10, 10},
		{"bytes", kv.Limits{Transaction: 2 * 4 * (100 + key)}, 100, 8, 4, 5},
		{"one item is the whole budget", kv.Limits{Transaction: 400}, 200, 4, 1, 1},
		{"bytes of split payloads", kv.Limits{Value: 50, Transaction: 8 * (100 + 2*key)}, 100, 8, 4, 5},
		{"operations", kv.Limits{Operations: 12}, 10, 10, 6, 6},
		{"nearly all operations", kv.Limits{Operations: 40}, 10, 30, 24, 24},
		{"operations of split payloads", kv.Limits{Value: 5, Operations: 40}, 10, 10, 10, 10},
		{"hardly any operations", kv.Limits{Operations: 3}, 10, 3, 1, 1},
	}
	for engine, open := range engines.All(t) {
		for _, c := range cases {
			t.Run(engine+" "+c.what, func(t *testing.T) {
				wanted := 10
				if c.atLeast > wanted {
					wanted = c.items
				}
				f := newFixture(t, &testkit.Hooked{DB: open(kv.Limits{}), Bounds: c.limits}, nil)
				var want []string
				for i := range c.items {
					want = append(want, v(i, c.size))
					testkit.NoError(t, f.q.Enqueue(f.ctx, want[i]))
					testkit.NoError(t, f.p.Push(f.ctx, want[i], int64(i)))
				}
				undone := errors.New("undone")
				var within []string
				err := f.db.Transact(f.ctx, func(tx kv.Tx) (err error) {
					within, err = f.q.In(tx).DequeueN(wanted)
					testkit.NoError(t, err)
					return undone
				})
				testkit.WantError(t, err, undone)
				if n := c.limits.Operations; n > 0 && len(within) > max(1, n/2) {
					t.Errorf("%d items in a transaction of the caller's, which has %d operations", len(within), n)
				}
				got, err := f.q.DequeueN(f.ctx, wanted)
				testkit.NoError(t, err)
				if len(got) < c.atLeast || len(got) > c.max {
					t.Fatalf("first batch has %d items, want %d to %d", len(got), c.atLeast, c.max)
				}
				popped, err := f.p.PopN(f.ctx, conq.Min, wanted)
				testkit.NoError(t, err)
				testkit.Equal(t, "at most as many by priority, whose keys are longer", len(popped) <= len(got), true)
				for len(got) < c.items {
					more, err := f.q.DequeueN(f.ctx, wanted)
					testkit.NoError(t, err)
					got = append(got, more...)
				}
				testkit.EqualSlices(t, "items", got, want)
			})
		}
	}
}

// A batch of staged items is bounded with all pieces of their payloads.
func TestStagedBatchLimits(t *testing.T) {
	for _, c := range []struct{ size, want int }{{100, 10}, {350, 3}, {1500, 1}} {
		db := testkit.NewMemory(t, kv.Limits{Value: 50, Transaction: 8000, Shared: true})
		q := newQueue(t, db, conq.Bytes(), conq.Options{Staging: conq.StagingAlways})
		for range 30 {
			testkit.NoError(t, q.Enqueue(t.Context(), make([]byte, c.size)))
		}
		got, err := q.DequeueN(t.Context(), 30)
		testkit.NoError(t, err)
		testkit.Equal(t, fmt.Sprintf("items of %d bytes", c.size), len(got), c.want)
	}
}

// A batch of many small items is bounded as documented.
func TestBatchItems(t *testing.T) {
	f := newFixture(t, testkit.NewMemory(t, kv.Limits{}), nil)
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, make([]string, 10_000+1)))
	got, err := f.q.DequeueN(f.ctx, math.MaxInt)
	testkit.NoError(t, err)
	testkit.Equal(t, "items", len(got), 10_000)
	wantLen(t, "items left", f.q.Len, 1)
}

// A batch reads its last key once, and once for each priority.
func TestBatchReadsOnce(t *testing.T) {
	ranges := 0
	db := &testkit.Hooked{DB: testkit.NewMemory(t, kv.Limits{})}
	f := newFixture(t, db, nil)
	testkit.NoError(t, f.q.Enqueue(f.ctx, "")) // the first transaction looks whether the queue is there
	testkit.NoError(t, f.p.Push(f.ctx, "", 0))
	db.Attempt = func(tx kv.Tx) kv.Tx {
		return countingTx{tx, &ranges}
	}
	testkit.NoError(t, f.q.EnqueueAll(f.ctx, make([]string, 100)))
	testkit.Equal(t, "reads of EnqueueAll", ranges, 1)
	ranges = 0
	testkit.NoError(t, f.p.PushAll(f.ctx, []conq.Prioritized[string]{{Value: "a", Priority: 1}, {Value: "b", Priority: 2}, {Value: "c", Priority: 1}, {Value: "d", Priority: 2}, {Value: "e", Priority: 2}}))
	testkit.Equal(t, "reads of PushAll", ranges, 2)
	ranges = 0
	testkit.NoError(t, drop(f.q.DequeueN(f.ctx, 50)))
	testkit.Equal(t, "reads of DequeueN", ranges, 1)
	ranges = 0
	testkit.NoError(t, drop(f.p.PopN(f.ctx, conq.Max, 50)))
	testkit.Equal(t, "reads of PopN", ranges, 1)
}

// countingTx counts the ranges that are read.
type countingTx struct {
	kv.Tx
	ranges *int
}

func (c countingTx) Range(r kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	*c.ranges++
	return c.Tx.Range(r, o)
}

func (c countingTx) Snapshot() kv.Reader { return countingReader{c.Tx.Snapshot(), c.ranges} }

type countingReader struct {
	kv.Reader
	ranges *int
}

func (c countingReader) Range(r kv.Range, o kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	*c.ranges++
	return c.Reader.Range(r, o)
}
