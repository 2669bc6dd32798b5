package conq

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

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
	"pgregory.net/rapid"
)

// dumped returns a dump of a store.
func dumped(t tb, db kv.DB, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := Dump(context.Background(), db, &b, DumpOptions{Queues: names})
	noError(t, err)
	return b.Bytes()
}

func loadAll(t tb, db kv.DB, dump []byte, o LoadOptions) LoadReport {
	t.Helper()
	report, err := Load(context.Background(), db, bytes.NewReader(dump), o)
	noError(t, err)
	for _, q := range report.Queues {
		equal(t, q.Name+" is whole", q.Whole, true)
	}
	return report
}

// holding is what the queues of a store hold, by name: for each item its priority, if it
// has one, and its payload.
type holding map[string][]string

func holds(t tb, db kv.DB) holding {
	t.Helper()
	ctx := context.Background()
	infos, err := Queues(ctx, db)
	noError(t, err)
	all := holding{}
	for _, info := range infos {
		items := []string{string(info.Kind)}
		if info.Kind == KindQueue {
			q, err := OpenQueue(db, info.Name, Bytes())
			noError(t, err)
			for _, v := range list(t, q.All(ctx)) {
				items = append(items, string(v))
			}
		} else {
			p, err := OpenPriorityQueue(db, info.Name, Bytes())
			noError(t, err)
			for _, v := range list(t, p.All(ctx)) {
				items = append(items, fmt.Sprint(v.Priority, " ", string(v.Value)))
			}
		}
		all[info.Name] = items
	}
	return all
}

func (h holding) equal(t tb, what string, want holding) {
	t.Helper()
	equal(t, what+": queues", len(h), len(want))
	for name, items := range want {
		equalSlices(t, fmt.Sprintf("%s: queue %q", what, name), h[name], items)
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
var longName = strings.Repeat("ÿ", MaxName/2)

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
	items := make([][]Prioritized[[]byte], len(names))
	prioritized := make([]bool, len(names))
	for i := range names {
		prioritized[i] = rapid.Bool().Draw(t, "prioritized")
		for range rapid.IntRange(0, 12).Draw(t, "items") {
			items[i] = append(items[i], Prioritized[[]byte]{[]byte(values.Draw(t, "value")), priorities.Draw(t, "priority")})
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
func fillQueue(t tb, db kv.DB, name string, items []Prioritized[[]byte], prioritized bool) []string {
	t.Helper()
	ctx := context.Background()
	if !prioritized {
		q, err := OpenQueue(db, name, Bytes())
		noError(t, err)
		want := []string{string(KindQueue)}
		for _, it := range items {
			noError(t, q.Enqueue(ctx, it.Value))
			want = append(want, string(it.Value))
		}
		return want
	}
	p, err := OpenPriorityQueue(db, name, Bytes())
	noError(t, err)
	for some := range slices.Chunk(items, 20) {
		noError(t, p.PushAll(ctx, some))
	}
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b Prioritized[[]byte]) int {
		switch {
		case a.Priority < b.Priority:
			return -1
		case a.Priority > b.Priority:
			return 1
		}
		return 0
	})
	want := []string{string(KindPriorityQueue)}
	for _, it := range sorted {
		want = append(want, fmt.Sprint(it.Priority, " ", string(it.Value)))
	}
	return want
}

// emptied removes all that is in a store.
func emptied(t tb, db kv.DB) kv.DB {
	t.Helper()
	noError(t, db.Transact(context.Background(), func(tx kv.Tx) error {
		tx.ClearRange(kv.Range{})
		return nil
	}))
	return db
}

// From memory to the embedded engine and back, with other sizes of pieces: the same
// queues, and the same dump.
func TestDumpLoadModel(t *testing.T) {
	with := func(db kv.DB, value, operations int) kv.DB {
		return &hooked{DB: db, Bounds: kv.Limits{Value: value, Transaction: 20_000, Operations: operations}}
	}
	first := with(newMemory(t, kv.Limits{}), 7, 0)
	second := with(newEmbedded(t), 16, 0)
	third := with(newMemory(t, kv.Limits{}), 100, 20)
	rapid.Check(t, func(rt *rapid.T) {
		names, fill := drawStore(rt)
		want := fill(emptied(rt, first))
		items := 0
		dump := dumped(rt, first)
		for name, db := range map[string]kv.DB{"embedded": second, "memory": third} {
			report := loadAll(rt, emptied(rt, db), dump, LoadOptions{})
			holds(rt, db).equal(rt, name, want)
			items = report.Items
			equal(rt, "dump of "+name, string(dumped(rt, db)), string(dump))
		}
		total := 0
		for _, items := range want {
			total += len(items) - 1
		}
		equal(rt, "items in the report", items, total)
		if len(names) > 1 { // some of them, in another order
			slices.Reverse(names)
			names = names[1:]
			loadAll(rt, emptied(rt, third), dumped(rt, second, names...), LoadOptions{})
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
	from, to := newEmbedded(t), newMemory(t, kv.Limits{})
	q, err := OpenQueue(from, "large", Bytes())
	noError(t, err)
	var want []string
	for i, size := range []int{5_000_000, 0, 4_999_999, 100_000, 100_001, 1} {
		want = append(want, strings.Repeat(string(rune('a'+i)), size))
		noError(t, q.Enqueue(t.Context(), []byte(want[i])))
	}
	report := loadAll(t, to, dumped(t, from), LoadOptions{})
	equal(t, "items", report.Items, len(want))
	holds(t, to).equal(t, "loaded", holding{"large": append([]string{string(KindQueue)}, want...)})

	// One that is too large for the other engine: those before it are in.
	noError(t, q.Enqueue(t.Context(), make([]byte, 5_000_001)))
	noError(t, q.Enqueue(t.Context(), []byte("behind")))
	dump := dumped(t, from)
	report, err = Load(t.Context(), emptied(t, to), bytes.NewReader(dump))
	wantError(t, err, kv.ErrTooLarge, `queue "large": item 7 of the dump: kv: item of 5000001 bytes is over the limit of 5000000`)
	equal(t, "items of the report", report.Items, len(want))
	holds(t, to).equal(t, "loaded", holding{"large": append([]string{string(KindQueue)}, want...)})
}

// A thousand queues, of which most are empty.
func TestDumpManyQueues(t *testing.T) {
	from, to := newMemory(t, kv.Limits{}), newEmbedded(t)
	for i := range 1000 {
		name := fmt.Sprintf("queue %d", i)
		var items []Prioritized[[]byte]
		if i%3 == 0 {
			items = []Prioritized[[]byte]{{[]byte(name), int64(-i)}, {[]byte("second"), int64(i)}}
		}
		fillQueue(t, from, name, items, i%2 == 0)
	}
	report := loadAll(t, to, dumped(t, from), LoadOptions{})
	equal(t, "queues", len(report.Queues), 1000)
	equal(t, "items", report.Items, 668)
	holds(t, to).equal(t, "loaded", holds(t, from))
}

// A dump changes nothing, and tells what it has written.
func TestDumpReports(t *testing.T) {
	db := newMemory(t, small)
	fillQueue(t, db, "a", []Prioritized[[]byte]{{[]byte("one"), 0}, {make([]byte, 300), 0}}, false)
	fillQueue(t, db, "b", []Prioritized[[]byte]{{[]byte("x"), 3}}, true)
	fillQueue(t, db, "c", nil, true)
	before := fmt.Sprint(everything(t, db))
	var told []Progress
	report, err := Dump(t.Context(), db, io.Discard, DumpOptions{Progress: func(p Progress) { told = append(told, p) }})
	noError(t, err)
	equal(t, "report", fmt.Sprintf("%+v", report), fmt.Sprintf("%+v", DumpReport{
		Queues: []QueueReport{
			{Name: "a", Kind: KindQueue, Items: 2, Bytes: 303, Whole: true}, {Name: "b", Kind: KindPriorityQueue, Items: 1, Bytes: 1, Whole: true}, {Name: "c", Kind: KindPriorityQueue, Items: 0, Bytes: 0, Whole: true},
		},
		Items: 3, Bytes: 304, Snapshots: 1,
	}))
	equalSlices(t, "progress", told, []Progress{{Queue: "a", Items: 2, Bytes: 303}, {Queue: "b", Items: 3, Bytes: 304}, {Queue: "c", Items: 3, Bytes: 304}})
	equal(t, "the store", fmt.Sprint(everything(t, db)), before)
	fillQueue(t, db, "c", slices.Repeat([]Prioritized[[]byte]{{[]byte("x"), 3}}, 2500), true)
	fillQueue(t, db, "d", []Prioritized[[]byte]{{make([]byte, 5000), 0}}, false)
	told = nil
	noError(t, drop(Dump(t.Context(), db, io.Discard, DumpOptions{
		Queues: []string{"c", "d"}, Progress: func(p Progress) { told = append(told, p) },
	})))
	equalSlices(t, "progress", told, []Progress{{Queue: "c", Items: 1000, Bytes: 1000}, {Queue: "c", Items: 2000, Bytes: 2000}, {Queue: "c", Items: 2500, Bytes: 2500}, {Queue: "d", Items: 2501, Bytes: 7500}})
}

// On one snapshot a dump sees nothing of what happens meanwhile, over all queues. When
// that takes too long it goes on behind what it has written, in order, nothing twice.
func TestDumpWhileChanging(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, 3 * time.Second, time.Minute} {
		t.Run(pause.String(), func(t *testing.T) {
			f, clock := newClocked(t)
			noError(t, f.q.EnqueueAll(f.ctx, letters('a', 'k')))
			for i, v := range letters('a', 'k') {
				noError(t, f.p.Push(f.ctx, v, int64(i/3)))
			}
			changed := false
			f.db.(*hooked).Reader = func(r kv.Reader) kv.Reader {
				return slowReader{r, func() {
					clock.pass(pause)
					if !changed && pause == 0 {
						changed = true
						noError(t, drop(f.q.Dequeue(f.ctx)))
						noError(t, drop(f.p.PopMax(f.ctx)))
						noError(t, f.q.Enqueue(f.ctx, "later"))
					}
				}}
			}
			var b bytes.Buffer
			report, err := Dump(f.ctx, f.db, &b)
			if pause == time.Minute { // pieces can't be read in time
				wantError(t, err, kv.ErrTooOld)
				return
			}
			noError(t, err)
			equal(t, "one snapshot", report.Snapshots == 1, pause == 0)
			to := newFixture(t, newMemory(t, small), nil)
			loadAll(t, to.db, b.Bytes(), LoadOptions{})
			q, p := contents(t, to)
			equalSlices(t, "queue", q, letters('a', 'k'))
			for i, v := range letters('a', 'k') {
				equal(t, "priority queue", p[i], Prioritized[string]{v, int64(i / 3)})
			}
		})
	}
}

// stage does to items of a queue what serving a staged request does: it moves them to a
// result that nobody has collected.
func stage(t tb, db kv.DB, name string, which ...int) {
	t.Helper()
	items := subspaceOf(t, db, name)
	noError(t, db.Transact(context.Background(), func(tx kv.Tx) error {
		op := bytes.Repeat([]byte{byte(which[0]) + 1}, 16)
		result := tuple.AppendBytes(tuple.AppendInt(layout.Stage(name).Bytes(), 2), op)
		tx.Set(result, tuple.AppendInt(tuple.AppendInt(nil, int64(len(which))), math.MaxInt64))
		for i, n := range which {
			tx.Clear(items[n].Key)
			tx.Set(tuple.AppendBytes(tuple.AppendInt(bytes.Clone(result), int64(i)), items[n].Key), items[n].Value)
		}
		return nil
	}))
}

func subspaceOf(t tb, db kv.DB, name string) []kv.KeyValue {
	t.Helper()
	var items []kv.KeyValue
	for _, pair := range everything(t, db) {
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
		noError(t, f.q.EnqueueAll(f.ctx, letters('a', 'k')))
		for i, v := range letters('a', 'e') {
			noError(t, f.p.Push(f.ctx, v, int64(i/2)))
		}
		stage(t, f.db, "q", 0, 4, 5)
		stage(t, f.db, "q", 1, 7) // b, k
		stage(t, f.db, "p", 0, 1, 2, 3, 4)
		f.db.(*hooked).Reader = func(r kv.Reader) kv.Reader {
			return slowReader{r, func() { clock.pass(pause / 4) }}
		}
		dump := dumped(t, f.db)
		to := newFixture(t, newMemory(t, small), nil)
		loadAll(t, to.db, dump, LoadOptions{})
		q, p := contents(t, to)
		equalSlices(t, "queue", q, letters('a', 'k'))
		for i, v := range letters('a', 'e') {
			equal(t, "priority queue", p[i], Prioritized[string]{v, int64(i / 2)})
		}
	}
}

// Queues that only another program has used are dumped by name.
func TestDumpForeign(t *testing.T) {
	db, to := newMemory(t, small), newMemory(t, small)
	random := bytes.Repeat([]byte{7}, 20)
	write(t, db,
		kv.KeyValue{Key: pack(t, "q", 1, random), Value: []byte("one")},
		kv.KeyValue{Key: pack(t, "p", -3, 0, random), Value: []byte("low")},
	)
	var b bytes.Buffer
	report, err := Dump(t.Context(), db, &b)
	noError(t, err)
	equal(t, "queues in the catalogue", len(report.Queues), 0)
	loadAll(t, to, dumped(t, db, "p", "q"), LoadOptions{})
	holds(t, to).equal(t, "loaded", holding{"p": {"priority queue", "-3 low"}, "q": {"queue", "one"}})

	// There, too, they count: for the kind, and as items.
	_, err = Load(t.Context(), db, bytes.NewReader(dumped(t, to)))
	wantError(t, err, ErrNotEmpty, `"p" has items`)
	write(t, emptied(t, db), kv.KeyValue{Key: pack(t, "q", 1, 1, random), Value: nil})
	_, err = Load(t.Context(), db, bytes.NewReader(dumped(t, to)), LoadOptions{Existing: ExistingAppend})
	wantError(t, err, ErrKind, `"q" is a priority queue, not a queue`)
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
	db := newMemory(t, small)
	fillQueue(t, db, "q", []Prioritized[[]byte]{{[]byte("one"), 0}, {make([]byte, 300), 0}}, false)
	none := &fullAfter{}
	dump := func(names ...string) error {
		return drop(Dump(t.Context(), db, none, DumpOptions{Queues: names}))
	}
	wantError(t, dump("q", "nix"), ErrNoQueue, `"nix"`)
	wantError(t, dump("q", "a\x00b"), ErrName)
	if err := dump("q", "q"); err == nil || !strings.Contains(err.Error(), `queue "q" is named twice`) {
		t.Fatal(err)
	}
	wantError(t, drop(Dump(t.Context(), nil, none)), reads.ErrNoDB)
	wantError(t, drop(Dump(noContext, db, none)), reads.ErrContext)
	if drop(Dump(t.Context(), db, nil)) == nil || drop(Dump(t.Context(), db, none, DumpOptions{}, DumpOptions{})) == nil {
		t.Fatal("no error")
	}
	size := len(dumped(t, db))
	for n := range size {
		wantError(t, drop(Dump(t.Context(), db, &fullAfter{n})), errDiskFull)
	}
	noError(t, drop(Dump(t.Context(), db, &fullAfter{size})))

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	wantError(t, drop(Dump(ctx, db, io.Discard)), errCancelled)

	for _, c := range []struct {
		key, value []byte
		want       error
		text       string
	}{
		{pack(t, "q", 2.5, make([]byte, 20)), nil, ErrDecode, `queue "q", key`},
		{pack(t, "q", 9, []byte{7}, 3), nil, ErrDecode, "piece 2 of 3 is missing"},
		{layout.EntryKey("z"), pack(t, "queue", 2), ErrFormat, `queue "z" has format 2`},
		{layout.EntryKey("z"), pack(t, "bag", 1), ErrFormat, `queue "z" is a "bag"`},
		{layout.EntryKey("z"), []byte("?"), ErrCorrupt, ""},
		{layout.FormatKey(), pack(t, 2), ErrFormat, "store has format 2"},
	} {
		bad := newMemory(t, small)
		loadAll(t, bad, dumped(t, db), LoadOptions{})
		write(t, bad, kv.KeyValue{Key: c.key, Value: c.value})
		var b bytes.Buffer
		report, err := Dump(t.Context(), bad, &b)
		wantError(t, err, c.want, c.text)
		if c.want == ErrDecode {
			equal(t, "whole", report.Queues[0].Whole, false)
			wantError(t, drop(Load(t.Context(), newMemory(t, small), &b)), ErrDump)
		} else {
			equal(t, "bytes written", b.Len(), 0)
		}
	}
}

// What a dump holds at one time does not grow with the queue.
func TestDumpMemory(t *testing.T) {
	db := memory.New(memory.Options{})
	defer db.Close()
	q, err := OpenQueue(db, "q", Bytes())
	noError(t, err)
	values := slices.Repeat([][]byte{make([]byte, 1000)}, 2000)
	for range 5 {
		noError(t, q.EnqueueAll(t.Context(), values))
	}
	r, w := io.Pipe()
	var largest int
	go func() {
		_, err := Dump(t.Context(), db, w)
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
		noError(t, err)
	}
	if largest > 70_000 || total < 10_000_000 {
		t.Fatalf("%d bytes in writes of up to %d", total, largest)
	}
}
