package dump_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/dump/stream"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/faulty"
)

// sampleStore returns a store with both kinds of queues, split payloads, and an empty
// one; and what it holds.
func sampleStore(t *testing.T, items int) (kv.DB, holding) {
	t.Helper()
	db := testkit.NewMemory(t, small)
	var all []conq.Prioritized[[]byte]
	for i := range items {
		value := fmt.Sprint(i, strings.Repeat(".", i*37%300))
		all = append(all, conq.Prioritized[[]byte]{Value: []byte(value), Priority: int64(i%5) - 2})
	}
	return db, holding{
		"a": fillQueue(t, db, "a", all, false),
		"b": fillQueue(t, db, "b", nil, false),
		"c": fillQueue(t, db, "c", all, true),
	}
}

// A dump that was cut off at any byte, or has any byte changed, is an error that says
// so; nothing panics, and no wrong item gets in.
func TestLoadDamaged(t *testing.T) {
	from := testkit.NewMemory(t, small)
	want := holding{
		"a": fillQueue(t, from, "a", []conq.Prioritized[[]byte]{{Value: []byte("one"), Priority: 0}, {Value: []byte("two"), Priority: 0}}, false),
		"p": fillQueue(t, from, "p", []conq.Prioritized[[]byte]{{Value: []byte("low"), Priority: -7}, {Value: []byte("high"), Priority: 300}}, true),
	}
	dump := dumped(t, from)
	db := testkit.NewMemory(t, small)
	try := func(what string, damaged []byte) {
		_, err := conq.Load(t.Context(), emptied(t, db), bytes.NewReader(damaged))
		if !errors.Is(err, conq.ErrDump) && !errors.Is(err, conq.ErrFormat) {
			t.Fatalf("%s: error %v", what, err)
		}
		if got := holds(t, db); !got.among(want) {
			t.Fatalf("%s: loaded %v", what, got)
		}
	}
	for n := range dump {
		try(fmt.Sprintf("cut off at %d", n), dump[:n])
		for bit := range 8 {
			damaged := bytes.Clone(dump)
			damaged[n] ^= 1 << bit
			try(fmt.Sprintf("bit %d of byte %d", bit, n), damaged)
		}
	}
	try("more behind", append(bytes.Clone(dump), '\n'))
	try("twice", append(bytes.Clone(dump), dump...))
	loadAll(t, emptied(t, db), dump, conq.LoadOptions{})
	holds(t, db).equal(t, "undamaged", want)
}

// Of a dump that is broken further on, all that comes before is in, and the report says
// what.
func TestLoadBrokenFurtherOn(t *testing.T) {
	from, want := sampleStore(t, 3000)
	dump := dumped(t, from)
	for _, at := range []int{len(dump) / 3, len(dump) - 1, 200_000, 70_000} {
		for name, damaged := range map[string][]byte{
			"cut off": dump[:at],
			"changed": append(append(bytes.Clone(dump[:at]), dump[at]^1), dump[at+1:]...),
		} {
			db := testkit.NewMemory(t, small)
			report, err := conq.Load(t.Context(), db, bytes.NewReader(damaged))
			testkit.WantError(t, err, conq.ErrDump, "dump is broken: at byte ")
			got := holds(t, db)
			for _, q := range report.Queues[:len(got)] {
				testkit.Equal(t, name+": items of "+q.Name, len(got[q.Name])-1, q.Items)
				testkit.Equal(t, name+": "+q.Name+" is whole", q.Whole, q != report.Queues[len(got)-1])
				testkit.Equal(t, name+": all of "+q.Name, q.Items == len(want[q.Name])-1, q.Whole)
			}
			if report.Items < at/400 || !got.among(want) {
				t.Fatalf("%s at %d: %+v", name, at, report)
			}
		}
	}
}

// What is in the way is an error before anything has changed.
func TestLoadRefuses(t *testing.T) {
	from, want := sampleStore(t, 5)
	dump := dumped(t, from)
	newer := bytes.Clone(dump)
	newer[12] = 2
	one := []conq.Prioritized[[]byte]{{Value: []byte("mine"), Priority: 0}}
	infos, err := conq.Queues(t.Context(), from)
	testkit.NoError(t, err)
	var queues []conq.QueueReport // as they are told when none was loaded
	for _, q := range infos {
		queues = append(queues, conq.QueueReport{Name: q.Name, Kind: q.Kind})
	}
	for name, c := range map[string]struct {
		prepare func(kv.DB)
		dump    []byte
		want    error
		text    string
	}{
		"items":          {func(db kv.DB) { fillQueue(t, db, "c", one, true) }, dump, conq.ErrNotEmpty, `"c" has items`},
		"staged items":   {func(db kv.DB) { fillQueue(t, db, "a", one, false); stage(t, db, "a", 0) }, dump, conq.ErrNotEmpty, `"a" has items`},
		"kind":           {func(db kv.DB) { fillQueue(t, db, "c", nil, false) }, dump, conq.ErrKind, `"c" is a queue, not a priority queue`},
		"format":         {func(db kv.DB) { testkit.Write(t, db, kv.KeyValue{Key: layout.FormatKey(), Value: testkit.Pack(t, 2)}) }, dump, conq.ErrFormat, "store has format 2"},
		"version":        {func(kv.DB) {}, newer, conq.ErrFormat, "the stream has version 2, this program reads up to 1"},
		"no dump":        {func(kv.DB) {}, []byte("hello, world"), conq.ErrDump, "it does not begin as a dump of conq does"},
		"nothing":        {func(kv.DB) {}, nil, conq.ErrDump, "it is empty"},
		"kind of later":  {func(kv.DB) {}, streamOf(t, stream.Queue{Kind: "bag", Name: "x"}), conq.ErrFormat, `queue "x" is a "bag"`},
		"name":           {func(kv.DB) {}, streamOf(t, stream.Queue{Kind: "queue", Name: "x\x00"}), conq.ErrDump, "NUL"},
		"closed context": {nil, dump, errCancelled, ""},
	} {
		t.Run(name, func(t *testing.T) {
			db := testkit.NewMemory(t, small)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if c.prepare != nil {
				c.prepare(db)
			} else {
				cancel(errCancelled)
			}
			before := fmt.Sprint(testkit.Everything(t, db))
			for _, dry := range []bool{true, false} {
				report, err := conq.Load(ctx, db, bytes.NewReader(c.dump), conq.LoadOptions{DryRun: dry})
				testkit.WantError(t, err, c.want, c.text)
				testkit.Equal(t, "items", report.Items, 0)
				if bytes.Equal(c.dump, dump) {
					testkit.Equal(t, "queues", fmt.Sprint(report.Queues), fmt.Sprint(queues))
				}
				testkit.Equal(t, "the store", fmt.Sprint(testkit.Everything(t, db)), before)
			}
		})
	}
	db := testkit.NewMemory(t, small)
	testkit.WantError(t, testkit.Drop(conq.Load(t.Context(), nil, bytes.NewReader(dump))), reads.ErrNoDB)
	testkit.WantError(t, testkit.Drop(conq.Load(noContext, db, bytes.NewReader(dump))), reads.ErrContext)
	if testkit.Drop(conq.Load(t.Context(), db, nil)) == nil || testkit.Drop(conq.Load(t.Context(), db, bytes.NewReader(dump), conq.LoadOptions{Existing: 3})) == nil ||
		testkit.Drop(conq.Load(t.Context(), db, bytes.NewReader(dump), conq.LoadOptions{Existing: -1})) == nil ||
		testkit.Drop(conq.Load(t.Context(), db, bytes.NewReader(dump), conq.LoadOptions{}, conq.LoadOptions{})) == nil {
		t.Fatal("no error")
	}
	report := loadAll(t, db, dump, conq.LoadOptions{DryRun: true})
	testkit.Equal(t, "items of a dry run", report.Items, 10)
	testkit.Equal(t, "keys after a dry run", len(testkit.Everything(t, db)), 0)
	loadAll(t, db, dump, conq.LoadOptions{})
	holds(t, db).equal(t, "loaded", want)
}

// streamOf returns a dump of a queue, with the given items.
func streamOf(t *testing.T, q stream.Queue, items ...stream.Item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := stream.NewWriter(&b, []stream.Queue{q})
	for _, it := range items {
		testkit.NoError(t, w.Item(it))
	}
	testkit.NoError(t, w.EndQueue())
	testkit.NoError(t, w.End())
	return b.Bytes()
}

// Items that can't be are an error that names them; those before them are in. The order
// of a priority queue's items need not be that of conq's own dumps.
func TestLoadForeignDumps(t *testing.T) {
	ok := stream.Item{Payload: []byte("ok")}
	low, high := stream.Item{Priority: testkit.Pack(t, -9), Payload: []byte("low")}, stream.Item{Priority: testkit.Pack(t, 9), Payload: []byte("high")}
	for _, priority := range [][]byte{nil, testkit.Pack(t, 2.5), testkit.Pack(t, "x"), testkit.Pack(t, 1, 1), testkit.Pack(t, tuple1), testkit.Pack(t, uint64(1<<63)), {0xfe}} {
		db := testkit.NewMemory(t, small)
		dump := streamOf(t, stream.Queue{Kind: "priority queue", Name: "p"}, high, stream.Item{Priority: priority})
		report, err := conq.Load(t.Context(), db, bytes.NewReader(dump))
		testkit.WantError(t, err, conq.ErrDump, `item 2 of queue "p": priority`, "is not a packed integer of 64 bits")
		testkit.Equal(t, "items", report.Items, 1)
		holds(t, db).equal(t, "loaded", holding{"p": {"priority queue", "9 high"}})
	}
	db := testkit.NewMemory(t, small)
	_, err := conq.Load(t.Context(), db, bytes.NewReader(streamOf(t, stream.Queue{Kind: "queue", Name: "q"}, ok, low)))
	testkit.WantError(t, err, conq.ErrDump, `item 2 of queue "q": an item of a queue has a priority`)
	holds(t, db).equal(t, "loaded", holding{"q": {"queue", "ok"}})
	loadAll(t, db, streamOf(t, stream.Queue{Kind: "priority queue", Name: "p"}, high, low, high), conq.LoadOptions{})
	testkit.EqualSlices(t, "loaded", holds(t, db)["p"], []string{"priority queue", "-9 low", "9 high", "9 high"})
}

var tuple1 = []byte{1}

// What is there stays in front, or goes, as it was asked for.
func TestLoadExisting(t *testing.T) {
	from, want := sampleStore(t, 10)
	dump := dumped(t, from)
	prepare := func() kv.DB {
		db := testkit.NewMemory(t, small)
		fillQueue(t, db, "a", []conq.Prioritized[[]byte]{{Value: []byte("mine"), Priority: 0}, {Value: make([]byte, 300), Priority: 0}}, false)
		fillQueue(t, db, "c", []conq.Prioritized[[]byte]{{Value: []byte("mine"), Priority: -2}, {Value: []byte("last"), Priority: 9}}, true)
		fillQueue(t, db, "z", []conq.Prioritized[[]byte]{{Value: []byte("other"), Priority: 0}}, false)
		return db
	}
	db := prepare()
	testkit.WantError(t, testkit.Drop(conq.Load(t.Context(), db, bytes.NewReader(dump))), conq.ErrNotEmpty, `"a" has items`)
	loadAll(t, db, dump, conq.LoadOptions{Existing: conq.ExistingAppend})
	holds(t, db).equal(t, "appended", holding{
		"a": append([]string{"queue", "mine", string(make([]byte, 300))}, want["a"][1:]...),
		"b": want["b"],
		"c": append(append([]string{"priority queue", "-2 mine"}, want["c"][1:]...), "9 last"),
		"z": {"queue", "other"},
	})
	db = prepare()
	loadAll(t, db, dump, conq.LoadOptions{Existing: conq.ExistingReplace})
	want["z"] = []string{"queue", "other"}
	holds(t, db).equal(t, "replaced", want)
	for _, pair := range testkit.Stored(t, db) {
		if bytes.HasPrefix(pair.Key, layout.Pieces("z").Bytes()) {
			t.Fatalf("a piece is left: %x", pair.Key)
		}
	}
}

// Whatever becomes of commits, each item gets in once, under small limits too. Nothing
// that is late comes after it.
func TestLoadFaults(t *testing.T) {
	from, want := sampleStore(t, 150)
	dump := dumped(t, from)
	for storm, faults := range testkit.Storms {
		t.Run(storm, func(t *testing.T) {
			for seed := range uint64(6) {
				synctest.Test(t, func(t *testing.T) {
					inner := testkit.NewMemory(t, kv.Limits{})
					faults.Limits = kv.Limits{Value: 100, Transaction: 4000, Operations: 60}
					db := faulty.New(inner, seed, faults)
					report, err := conq.Load(t.Context(), db, bytes.NewReader(dump))
					testkit.NoError(t, err)
					db.Flush()
					testkit.Equal(t, "items", report.Items, 300)
					holds(t, &testkit.Hooked{DB: inner, Bounds: kv.Limits{Value: 100}}).equal(t, fmt.Sprint("seed ", seed), want)
					testkit.Equal(t, "attempts are more than needed", db.Stats().Attempts > 20, true)
				})
			}
		})
	}
}

// countingTx counts what is set.
type countingTx struct {
	kv.Tx
	sets *int
}

func (c countingTx) Set(key, value []byte) {
	*c.sets++
	c.Tx.Set(key, value)
}

// A transaction has up to 1,000 items, and not fewer without a reason. The report counts items and
// bytes.
func TestLoadBatches(t *testing.T) {
	from := testkit.NewMemory(t, kv.Limits{})
	q, err := conq.OpenQueue(t.Context(), from, "q", conq.String())
	testkit.NoError(t, err)
	const items = 2500
	testkit.NoError(t, q.EnqueueAll(t.Context(), slices.Repeat([]string{"three"}, items)))
	var sets []int
	db := &testkit.Hooked{DB: testkit.NewMemory(t, kv.Limits{}), Attempt: func(tx kv.Tx) kv.Tx {
		sets = append(sets, 0)
		return countingTx{tx, &sets[len(sets)-1]}
	}}
	report, err := conq.Load(t.Context(), db, bytes.NewReader(dumped(t, from)))
	testkit.NoError(t, err)
	testkit.Equal(t, "items", report.Items, items)
	testkit.Equal(t, "bytes", report.Bytes, 5*items)
	testkit.Equal(t, "of the queue", report.Queues[0], conq.QueueReport{Name: "q", Kind: conq.KindQueue, Items: items, Bytes: 5 * items, Whole: true})
	full := 0
	for _, n := range sets {
		if n == 1000 {
			full++
		}
		if n > 1000 {
			t.Errorf("%d items in a transaction", n)
		}
	}
	testkit.Equal(t, "full transactions", full, 2)
}

// A context that ends stops it between two transactions. The report is what is in, a
// repetition is refused, and one that replaces is whole.
func TestLoadCanceled(t *testing.T) {
	from, want := sampleStore(t, 2500)
	dump := dumped(t, from)
	for _, stop := range []int{1, 2, 4, 5} {
		db := testkit.NewMemory(t, small)
		ctx, cancel := context.WithCancelCause(t.Context())
		n := 0
		report, err := conq.Load(ctx, db, bytes.NewReader(dump), conq.LoadOptions{Progress: func(p conq.Progress) {
			if n++; n == stop {
				cancel(errCancelled)
			}
		}})
		testkit.WantError(t, err, errCancelled)
		got, items := holds(t, db), 0
		for _, q := range got {
			items += len(q) - 1
		}
		testkit.Equal(t, "items in the store", items, report.Items)
		if !got.among(want) || items == 0 || items == 5000 {
			t.Fatalf("after %d: %+v", stop, report)
		}
		testkit.WantError(t, testkit.Drop(conq.Load(t.Context(), db, bytes.NewReader(dump))), conq.ErrNotEmpty)
		loadAll(t, db, dump, conq.LoadOptions{Existing: conq.ExistingReplace})
		holds(t, db).equal(t, "repeated", want)
	}
}

// A reader that goes on to return nothing is given up, and one that does so for a while is not.
func TestLoadNoProgress(t *testing.T) {
	from, want := sampleStore(t, 3000)
	dump := dumped(t, from)
	for _, first := range []int{0, 20, 200_000} {
		db := testkit.NewMemory(t, small)
		ends := &testkit.Halting{Reader: strings.NewReader(""), Left: math.MaxInt}
		_, err := conq.Load(t.Context(), db, io.MultiReader(bytes.NewReader(dump[:first]), ends))
		testkit.WantError(t, err, io.ErrNoProgress, fmt.Sprintf("reading at byte %d", first))
		if errors.Is(err, conq.ErrDump) || !holds(t, db).among(want) {
			t.Error(err)
		}
	}
	db := testkit.NewMemory(t, small)
	if _, err := conq.Load(t.Context(), db, &testkit.Halting{Reader: bytes.NewReader(dump), Empty: 50}); err != nil {
		t.Fatal(err)
	}
	holds(t, db).equal(t, "after pauses", want)
}

// Who waits for items gets what is loaded.
func TestLoadWakes(t *testing.T) {
	from, _ := sampleStore(t, 1)
	db := testkit.NewMemory(t, small)
	q, err := conq.OpenQueue(t.Context(), db, "a", conq.String())
	testkit.NoError(t, err)
	got := make(chan string, 1)
	go func() {
		v, err := q.DequeueWait(t.Context())
		testkit.Check(t, err)
		got <- v
	}()
	loadAll(t, db, dumped(t, from), conq.LoadOptions{})
	testkit.Equal(t, "item", <-got, "0")
}
