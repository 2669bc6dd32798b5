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
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/testkit/engines"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
	"pgregory.net/rapid"
)

// dumped returns a dump of a store.
func dumped(t testkit.TB, db kv.DB, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := conq.Dump(context.Background(), db, &b, conq.DumpOptions{Queues: names})
	testkit.NoError(t, err)
	return b.Bytes()
}

func loadAll(t testkit.TB, db kv.DB, dump []byte, o conq.LoadOptions) conq.LoadReport {
	t.Helper()
	report, err := conq.Load(context.Background(), db, bytes.NewReader(dump), o)
	testkit.NoError(t, err)
	for _, q := range report.Queues {
		testkit.Equal(t, q.Name+" is whole", q.Whole, true)
	}
	return report
}

// holding is what the queues of a store hold, by name: for each item its priority, if it
// has one, and its payload.
type holding map[string][]string

func holds(t testkit.TB, db kv.DB) holding {
	t.Helper()
	ctx := context.Background()
	infos, err := conq.Queues(ctx, db)
	testkit.NoError(t, err)
	all := holding{}
	for _, info := range infos {
		items := []string{string(info.Kind)}
		if info.Kind == conq.KindQueue {
			q, err := conq.OpenQueue(ctx, db, info.Name, conq.Bytes())
			testkit.NoError(t, err)
			for _, v := range testkit.List(t, q.All(ctx)) {
				items = append(items, string(v))
			}
		} else {
			p, err := conq.OpenPriorityQueue(ctx, db, info.Name, conq.Bytes())
			testkit.NoError(t, err)
			for _, v := range testkit.List(t, p.All(ctx)) {
				items = append(items, fmt.Sprint(v.Priority, " ", string(v.Value)))
			}
		}
		all[info.Name] = items
	}
	return all
}

func (h holding) equal(t testkit.TB, what string, want holding) {
	t.Helper()
	testkit.Equal(t, what+": queues", len(h), len(want))
	for name, items := range want {
		testkit.EqualSlices(t, fmt.Sprintf("%s: queue %q", what, name), h[name], items)
	}
}

// among tells whether what h holds is the first part of what other holds.
func (h holding) among(other holding) bool {
	for name, items := range h {
		all := other[name]
		if len(items) > len(all) || !slices.Equal(items, all[:len(items)]) {
			return false
		}
	}
	return true
}

// longName is the longest one, of bytes that are not ASCII.
var longName = strings.Repeat("ÿ", conq.MaxName/2)

// drawStore draws what is put into a store: names of all forms, queues of both kinds,
// empty ones too, priorities at both ends of their range.
func drawStore(t *rapid.T) (names []string, fill func(kv.DB) holding) {
	names = rapid.SliceOfNDistinct(rapid.OneOf(
		rapid.SampledFrom([]string{"q", "q ", "\x01", "\n\t\"", "é", longName, "\U0010ffff", "conq"}),
		rapid.StringMatching(`[a-z]{1,3}`),
	), 0, 5, rapid.ID[string]).Draw(t, "names")
	values := rapid.OneOf(
		rapid.SampledFrom([]string{"", "\x00", "\xff\xfe", "a", "a"}),
		rapid.Map(rapid.IntRange(0, 60), func(n int) string { return strings.Repeat("x", n) }),
	)
	priorities := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-2, 2),
		rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 0, -1, 255, 256, -256, 1 << 32}))
	items := make([][]conq.Prioritized[[]byte], len(names))
	prioritized := make([]bool, len(names))
	for i := range names {
		prioritized[i] = rapid.Bool().Draw(t, "prioritized")
		for range rapid.IntRange(0, 12).Draw(t, "items") {
			items[i] = append(items[i], conq.Prioritized[[]byte]{Value: []byte(values.Draw(t, "value")), Priority: priorities.Draw(t, "priority")})
		}
	}
	return names, func(db kv.DB) holding {
		want := holding{}
		for i, name := range names {
			want[name] = fillQueue(t, db, name, items[i], prioritized[i])
		}
		return want
	}
}

// fillQueue puts items in and returns what the queue should hold then.
func fillQueue(t testkit.TB, db kv.DB, name string, items []conq.Prioritized[[]byte], prioritized bool) []string {
	t.Helper()
	ctx := context.Background()
	if !prioritized {
		q, err := conq.OpenQueue(ctx, db, name, conq.Bytes())
		testkit.NoError(t, err)
		want := []string{string(conq.KindQueue)}
		for _, it := range items {
			testkit.NoError(t, q.Enqueue(ctx, it.Value))
			want = append(want, string(it.Value))
		}
		return want
	}
	p, err := conq.OpenPriorityQueue(ctx, db, name, conq.Bytes())
	testkit.NoError(t, err)
	for some := range slices.Chunk(items, 20) {
		testkit.NoError(t, p.PushAll(ctx, some))
	}
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b conq.Prioritized[[]byte]) int {
		switch {
		case a.Priority < b.Priority:
			return -1
		case a.Priority > b.Priority:
			return 1
		}
		return 0
	})
	want := []string{string(conq.KindPriorityQueue)}
	for _, it := range sorted {
		want = append(want, fmt.Sprint(it.Priority, " ", string(it.Value)))
	}
	return want
}

// emptied removes all that is in a store.
func emptied(t testkit.TB, db kv.DB) kv.DB {
	t.Helper()
	testkit.Remove(t, db, kv.Range{})
	return db
}

// From memory to the embedded engine and back, with other sizes of pieces: the same
// queues, and the same dump.
func TestDumpLoadModel(t *testing.T) {
	with := func(db kv.DB, value, operations int) kv.DB {
		return &testkit.Hooked{DB: db, Bounds: kv.Limits{Value: value, Transaction: 20_000, Operations: operations}}
	}
	first := with(testkit.NewMemory(t, kv.Limits{}), 7, 0)
	second := with(engines.Embedded(t), 16, 0)
	third := with(testkit.NewMemory(t, kv.Limits{}), 100, 20)
	rapid.Check(t, func(rt *rapid.T) {
		names, fill := drawStore(rt)
		want := fill(emptied(rt, first))
		items := 0
		dump := dumped(rt, first)
		for name, db := range map[string]kv.DB{"embedded": second, "memory": third} {
			report := loadAll(rt, emptied(rt, db), dump, conq.LoadOptions{})
			holds(rt, db).equal(rt, name, want)
			items = report.Items
			testkit.Equal(rt, "dump of "+name, string(dumped(rt, db)), string(dump))
		}
		total := 0
		for _, items := range want {
			total += len(items) - 1
		}
		testkit.Equal(rt, "items in the report", items, total)
		if len(names) > 1 { // some of them, in another order
			slices.Reverse(names)
			names = names[1:]
			loadAll(rt, emptied(rt, third), dumped(rt, second, names...), conq.LoadOptions{})
			some := holding{}
			for _, name := range names {
				some[name] = want[name]
			}
			holds(rt, third).equal(rt, "some", some)
		}
	})
}

// Payloads of several MiB, over many blocks of the dump and, on one side, many keys.
func TestDumpLargePayloads(t *testing.T) {
	from, to := engines.Embedded(t), testkit.NewMemory(t, kv.Limits{})
	q, err := conq.OpenQueue(t.Context(), from, "large", conq.Bytes())
	testkit.NoError(t, err)
	var want []string
	for i, size := range []int{5_000_000, 0, 4_999_999, 100_000, 100_001, 1} {
		want = append(want, strings.Repeat(string(rune('a'+i)), size))
		testkit.NoError(t, q.Enqueue(t.Context(), []byte(want[i])))
	}
	report := loadAll(t, to, dumped(t, from), conq.LoadOptions{})
	testkit.Equal(t, "items", report.Items, len(want))
	holds(t, to).equal(t, "loaded", holding{"large": append([]string{string(conq.KindQueue)}, want...)})

	// One that is too large for the other engine: those before it are in.
	testkit.NoError(t, q.Enqueue(t.Context(), make([]byte, 5_000_001)))
	testkit.NoError(t, q.Enqueue(t.Context(), []byte("behind")))
	dump := dumped(t, from)
	report, err = conq.Load(t.Context(), emptied(t, to), bytes.NewReader(dump))
	testkit.WantError(t, err, kv.ErrTooLarge, `queue "large": item 7 of the dump: kv: item of 5000001 bytes is over the limit of 5000000`)
	testkit.Equal(t, "items of the report", report.Items, len(want))
	holds(t, to).equal(t, "loaded", holding{"large": append([]string{string(conq.KindQueue)}, want...)})
}

// A thousand queues, of which most are empty.
func TestDumpManyQueues(t *testing.T) {
	from, to := testkit.NewMemory(t, kv.Limits{}), engines.Embedded(t)
	for i := range 1000 {
		name := fmt.Sprintf("queue %d", i)
		var items []conq.Prioritized[[]byte]
		if i%3 == 0 {
			items = []conq.Prioritized[[]byte]{{Value: []byte(name), Priority: int64(-i)}, {Value: []byte("second"), Priority: int64(i)}}
		}
		fillQueue(t, from, name, items, i%2 == 0)
	}
	report := loadAll(t, to, dumped(t, from), conq.LoadOptions{})
	testkit.Equal(t, "queues", len(report.Queues), 1000)
	testkit.Equal(t, "items", report.Items, 668)
	holds(t, to).equal(t, "loaded", holds(t, from))
}

// A dump changes nothing, and tells what it has written.
func TestDumpReports(t *testing.T) {
	db := testkit.NewMemory(t, small)
	fillQueue(t, db, "a", []conq.Prioritized[[]byte]{{Value: []byte("one"), Priority: 0}, {Value: make([]byte, 300), Priority: 0}}, false)
	fillQueue(t, db, "b", []conq.Prioritized[[]byte]{{Value: []byte("x"), Priority: 3}}, true)
	fillQueue(t, db, "c", nil, true)
	before := fmt.Sprint(testkit.Everything(t, db))
	var told []conq.Progress
	report, err := conq.Dump(t.Context(), db, io.Discard, conq.DumpOptions{Progress: func(p conq.Progress) { told = append(told, p) }})
	testkit.NoError(t, err)
	testkit.Equal(t, "report", fmt.Sprintf("%+v", report), fmt.Sprintf("%+v", conq.DumpReport{
		Queues: []conq.QueueReport{
			{Name: "a", Kind: conq.KindQueue, Items: 2, Bytes: 303, Whole: true}, {Name: "b", Kind: conq.KindPriorityQueue, Items: 1, Bytes: 1, Whole: true}, {Name: "c", Kind: conq.KindPriorityQueue, Items: 0, Bytes: 0, Whole: true},
		},
		Items: 3, Bytes: 304, Snapshots: 1,
	}))
	testkit.EqualSlices(t, "progress", told, []conq.Progress{{Queue: "a", Items: 2, Bytes: 303}, {Queue: "b", Items: 3, Bytes: 304}, {Queue: "c", Items: 3, Bytes: 304}})
	testkit.Equal(t, "the store", fmt.Sprint(testkit.Everything(t, db)), before)
	fillQueue(t, db, "c", slices.Repeat([]conq.Prioritized[[]byte]{{Value: []byte("x"), Priority: 3}}, 2500), true)
	fillQueue(t, db, "d", []conq.Prioritized[[]byte]{{Value: make([]byte, 5000), Priority: 0}}, false)
	told = nil
	testkit.NoError(t, testkit.Drop(conq.Dump(t.Context(), db, io.Discard, conq.DumpOptions{
		Queues: []string{"c", "d"}, Progress: func(p conq.Progress) { told = append(told, p) },
	})))
	testkit.EqualSlices(t, "progress", told, []conq.Progress{{Queue: "c", Items: 1000, Bytes: 1000}, {Queue: "c", Items: 2000, Bytes: 2000}, {Queue: "c", Items: 2500, Bytes: 2500}, {Queue: "d", Items: 2501, Bytes: 7500}})
}

// On one snapshot a dump sees nothing of what happens meanwhile, over all queues. When
// that takes too long it goes on behind what it has written, in order, nothing twice.
func TestDumpWhileChanging(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, 3 * time.Second, time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			f, clock := newClocked(t)
			testkit.NoError(t, f.q.EnqueueAll(t.Context(), testkit.SplitValues('a', 'k')))
			for i, v := range testkit.SplitValues('a', 'k') {
				testkit.NoError(t, f.p.Push(t.Context(), v, int64(i/3)))
			}
			changed := false
			f.db.(*testkit.Hooked).Reader = func(r kv.Reader) kv.Reader {
				return testkit.SlowReader{Reader: r, Pass: func() {
					clock.Pass(pause)
					if !changed && pause == 0 {
						changed = true
						testkit.NoError(t, testkit.Drop(f.q.Dequeue(t.Context())))
						testkit.NoError(t, testkit.Drop(f.p.PopMax(t.Context())))
						testkit.NoError(t, f.q.Enqueue(t.Context(), "later"))
					}
				}}
			}
			var b bytes.Buffer
			report, err := conq.Dump(t.Context(), f.db, &b)
			if pause == time.Minute { // pieces can't be read in time
				testkit.WantError(t, err, kv.ErrTooOld)
				return
			}
			testkit.NoError(t, err)
			testkit.Equal(t, "one snapshot", report.Snapshots == 1, pause == 0)
			to := newFixture(t, testkit.NewMemory(t, small))
			loadAll(t, to.db, b.Bytes(), conq.LoadOptions{})
			q, p := contents(t, to)
			testkit.EqualSlices(t, "queue", q, testkit.SplitValues('a', 'k'))
			for i, v := range testkit.SplitValues('a', 'k') {
				testkit.Equal(t, "priority queue", p[i], conq.Prioritized[string]{Value: v, Priority: int64(i / 3)})
			}
		})
	}
}

// stage does to items of a queue what serving a staged request does: it moves them to a
// result that nobody has collected.
func stage(t testkit.TB, db kv.DB, name string, which ...int) {
	t.Helper()
	items := subspaceOf(t, db, name)
	testkit.NoError(t, db.Transact(context.Background(), func(tx kv.Tx) error {
		op := bytes.Repeat([]byte{byte(which[0]) + 1}, 16)
		result := tuple.AppendBytes(tuple.AppendInt(tuple.AppendInt(layout.Stage(name).Bytes(), 2), math.MaxInt64), op)
		for i, n := range which {
			tx.Clear(items[n].Key)
			tx.Set(tuple.AppendBytes(tuple.AppendInt(bytes.Clone(result), int64(i)), items[n].Key), items[n].Value)
		}
		return nil
	}))
}

func subspaceOf(t testkit.TB, db kv.DB, name string) []kv.KeyValue {
	t.Helper()
	var items []kv.KeyValue
	for _, pair := range testkit.Everything(t, db) {
		if subspace.Named(name).Contains(pair.Key) {
			items = append(items, pair)
		}
	}
	return items
}

// Items that are staged are in a dump, where they were, also such of several pieces, and
// however the snapshots fall.
func TestDumpStaged(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, 2 * time.Second} {
		f, clock := newClocked(t)
		testkit.NoError(t, f.q.EnqueueAll(t.Context(), testkit.SplitValues('a', 'k')))
		for i, v := range testkit.SplitValues('a', 'e') {
			testkit.NoError(t, f.p.Push(t.Context(), v, int64(i/2)))
		}
		stage(t, f.db, "q", 0, 4, 5)
		stage(t, f.db, "q", 1, 7) // b, k
		stage(t, f.db, "p", 0, 1, 2, 3, 4)
		f.db.(*testkit.Hooked).Reader = func(r kv.Reader) kv.Reader {
			return testkit.SlowReader{Reader: r, Pass: func() { clock.Pass(pause / 4) }}
		}
		dump := dumped(t, f.db)
		to := newFixture(t, testkit.NewMemory(t, small))
		loadAll(t, to.db, dump, conq.LoadOptions{})
		q, p := contents(t, to)
		testkit.EqualSlices(t, "queue", q, testkit.SplitValues('a', 'k'))
		for i, v := range testkit.SplitValues('a', 'e') {
			testkit.Equal(t, "priority queue", p[i], conq.Prioritized[string]{Value: v, Priority: int64(i / 2)})
		}
	}
}

// Queues that only another program has used are dumped by name.
func TestDumpForeign(t *testing.T) {
	db, to := testkit.NewMemory(t, small), testkit.NewMemory(t, small)
	random := bytes.Repeat([]byte{7}, 20)
	testkit.Write(t, db,
		kv.KeyValue{Key: testkit.Pack(t, "q", 1, random), Value: []byte("one")},
		kv.KeyValue{Key: testkit.Pack(t, "p", -3, 0, random), Value: []byte("low")},
	)
	var b bytes.Buffer
	report, err := conq.Dump(t.Context(), db, &b)
	testkit.NoError(t, err)
	testkit.Equal(t, "queues in the catalogue", len(report.Queues), 0)
	loadAll(t, to, dumped(t, db, "p", "q"), conq.LoadOptions{})
	holds(t, to).equal(t, "loaded", holding{"p": {"priority queue", "-3 low"}, "q": {"queue", "one"}})

	// There, too, they count: for the kind, and as items.
	_, err = conq.Load(t.Context(), db, bytes.NewReader(dumped(t, to)))
	testkit.WantError(t, err, conq.ErrNotEmpty, `"p" has items`)
	testkit.Write(t, emptied(t, db), kv.KeyValue{Key: testkit.Pack(t, "q", 1, 1, random), Value: nil})
	_, err = conq.Load(t.Context(), db, bytes.NewReader(dumped(t, to)), conq.LoadOptions{Existing: conq.ExistingAppend})
	testkit.WantError(t, err, conq.ErrKind, `"q" is a priority queue, not a queue`)
}

// fullAfter fails when so many bytes are written.
type fullAfter struct{ left int }

var errDiskFull = errors.New("disk is full")

func (f *fullAfter) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errDiskFull
	}
	return len(b), nil
}

var noContext context.Context

func TestDumpErrors(t *testing.T) {
	db := testkit.NewMemory(t, small)
	fillQueue(t, db, "q", []conq.Prioritized[[]byte]{{Value: []byte("one"), Priority: 0}, {Value: make([]byte, 300), Priority: 0}}, false)
	none := &fullAfter{}
	dump := func(names ...string) error {
		return testkit.Drop(conq.Dump(t.Context(), db, none, conq.DumpOptions{Queues: names}))
	}
	testkit.WantError(t, dump("q", "nix"), conq.ErrNoQueue, `"nix"`)
	testkit.WantError(t, dump("q", "a\x00b"), conq.ErrName)
	if err := dump("q", "q"); err == nil || !strings.Contains(err.Error(), `queue "q" is named twice`) {
		t.Fatal(err)
	}
	testkit.WantError(t, testkit.Drop(conq.Dump(t.Context(), nil, none)), reads.ErrNoDB)
	testkit.WantError(t, testkit.Drop(conq.Dump(noContext, db, none)), reads.ErrContext)
	if testkit.Drop(conq.Dump(t.Context(), db, nil)) == nil || testkit.Drop(conq.Dump(t.Context(), db, none, conq.DumpOptions{}, conq.DumpOptions{})) == nil {
		t.Fatal("no error")
	}
	size := len(dumped(t, db))
	for n := range size {
		testkit.WantError(t, testkit.Drop(conq.Dump(t.Context(), db, &fullAfter{n})), errDiskFull)
	}
	testkit.NoError(t, testkit.Drop(conq.Dump(t.Context(), db, &fullAfter{size})))

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	testkit.WantError(t, testkit.Drop(conq.Dump(ctx, db, io.Discard)), errCancelled)
}

// What a dump holds at one time does not grow with the queue.
func TestDumpMemory(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	q, err := conq.OpenQueue(t.Context(), db, "q", conq.Bytes())
	testkit.NoError(t, err)
	values := slices.Repeat([][]byte{make([]byte, 1000)}, 2000)
	for range 5 {
		testkit.NoError(t, q.EnqueueAll(t.Context(), values))
	}
	r, w := io.Pipe()
	var largest int
	go func() {
		_, err := conq.Dump(t.Context(), db, w)
		w.CloseWithError(err)
	}()
	buf := make([]byte, 1<<20)
	total := 0
	for {
		n, err := r.Read(buf)
		largest, total = max(largest, n), total+n
		if err == io.EOF {
			break
		}
		testkit.NoError(t, err)
	}
	if largest > 70_000 || total < 10_000_000 {
		t.Fatalf("%d bytes in writes of up to %d", total, largest)
	}
}
