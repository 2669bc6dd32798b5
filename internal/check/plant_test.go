package check_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/tuple"
)

var plantedKeys = []planted{
	{name: "nothing", plant: func(*testing.T, *plot) {}, note: true},
	{
		name:  "a format that does not decode",
		plant: func(_ *testing.T, p *plot) { p.set(layout.FormatKey(), []byte("x")) },
		want:  "format",
	},
	{
		name: "a queue that is being deleted, and a key that is no item's",
		plant: func(t *testing.T, p *plot) {
			testkit.NoError(t, p.db.Transact(t.Context(), func(tx kv.Tx) error {
				layout.MarkDeleting(tx, layout.Info{Name: "q", Kind: queue.KindQueue})
				return nil
			}))
			p.set(layout.New("q", queue.KindQueue, kv.Limits{}).Key([]byte("x")), nil)
		},
		want: "deleting q~",
		note: true,
	},
	{
		name: "no format, and something to repair",
		plant: func(t *testing.T, p *plot) {
			p.clear(layout.FormatKey())
			p.set(p.stage(3, 1, 1, opID(1)), nil)
		},
		want: "format, place without result q+", then: "format, place without result q*", after: "format",
	},
	{
		name: "a format that does not decode, and something that could be repaired",
		plant: func(t *testing.T, p *plot) {
			p.set(layout.FormatKey(), []byte("x"))
			p.set(p.stage(3, 1, 1, opID(1)), nil)
		},
		want: "format, place without result q",
	},
	{
		name:  "an entry that does not decode",
		plant: func(t *testing.T, p *plot) { p.set(layout.EntryKey("q"), testkit.Packed(t, nil, 1)) },
		want:  "catalogue entry q",
	},
	{
		name: "an entry without a name",
		plant: func(t *testing.T, p *plot) {
			p.set(testkit.Packed(t, layout.Entries().Bytes(), 1), testkit.Packed(t, nil, "queue", 1))
		},
		want: "catalogue entry",
	},
	{
		name: "a queue of a newer format, in which nothing is judged",
		plant: func(t *testing.T, p *plot) {
			p.set(layout.EntryKey("q"), testkit.Packed(t, nil, "queue", layout.QueueFormat+1, "more"))
			p.set(p.stage("new"), nil)
			p.set(testkit.Packed(t, layout.Pieces("q").Bytes(), "new"), nil)
			p.set(testkit.Packed(t, testkit.Laid("q").Prefix(), "new"), nil)
		},
		want: "newer queue q",
	},
	{
		name: "a queue of an unknown kind",
		plant: func(t *testing.T, p *plot) {
			p.set(layout.EntryKey("new"), testkit.Packed(t, nil, "ring", 1))
			p.set(testkit.Packed(t, nil, "new", "x"), nil) // in which nothing is judged
			p.set(testkit.Packed(t, layout.Stage("new").Bytes(), "x"), nil)
		},
		want: "newer queue new",
	},
	{
		name:  "no entry",
		plant: func(_ *testing.T, p *plot) { p.clear(layout.EntryKey("q")) },
		want:  "no entry q",
	},
	{
		name:  "an entry of a queue without keys",
		plant: func(t *testing.T, p *plot) { p.set(layout.EntryKey("empty"), testkit.Packed(t, nil, "queue", 1)) },
		note:  true,
	},
	{
		name: "unknown keys beside the queues, in two places",
		plant: func(t *testing.T, p *plot) {
			for _, name := range []string{"a", "b", "c"} {
				p.set(layout.System("zoo", name), nil)
			}
			p.set(layout.System("bar"), nil)
			p.set(append(layout.System("zoo"), 0xfe), nil)
		},
		want: "unknown key, unknown key 4",
	},
	{
		name: "keys of no tuple, of a bad name, and a signal of several elements",
		plant: func(t *testing.T, p *plot) {
			p.set(append(layout.System(), 0xfe), nil)
			p.set(layout.System("outcome", ""), nil)
			p.set(layout.System("signal", "q", "more"), nil)
			p.set(tuple.AppendInt(layout.SignalKey("q"), 0), nil)
		},
		want: "unknown key, unknown key 2, unknown key",
	},
	{
		name: "keys of other programs",
		plant: func(t *testing.T, p *plot) {
			p.set([]byte{0}, nil)                                   // in front of all
			p.set([]byte{0, 1}, nil)                                //
			p.set(testkit.Packed(t, nil, "other", 1), nil)          // not of a queue's form
			p.set(testkit.Packed(t, nil, "other", 1, opID(1)), nil) // of that form, too late
			p.set(testkit.Packed(t, nil, "other1", "x"), nil)       //
			p.set(testkit.Packed(t, nil, "other2", 1, 1, 1, opID(1)), nil)
			p.set(testkit.Packed(t, nil, ""), nil) // no name
			p.set(testkit.Packed(t, nil, "", 1, opID(1)), nil)
			p.set(testkit.Packed(t, nil, strings.Repeat("x", conq.MaxName+1), 1, opID(1)), nil)
			p.set([]byte("zzz"), nil) // behind all
		},
		want: "other keys 2~, other keys 6~, other keys 2~", note: true,
	},
	{
		name: "queues of the recipes",
		plant: func(t *testing.T, p *plot) {
			for i := range 3 {
				p.set(testkit.Packed(t, nil, "f", i, opID(1)), nil)
				p.set(testkit.Packed(t, nil, "g", i, i, opID(1)), nil)
			}
		},
		want: "foreign queue f 3~, foreign queue g 3~", note: true,
	},
	{
		name: "a queue of the recipes with a key that is none",
		plant: func(t *testing.T, p *plot) {
			for i := range 3 {
				p.set(testkit.Packed(t, nil, "f", i, opID(1)), nil)
			}
			p.set(testkit.Packed(t, nil, "f", 0, 1, opID(1)), nil) // behind the first, which decides
			p.set(testkit.Packed(t, nil, "f", 1, 1, opID(1)), nil)
		},
		want: "item key f, item key f, foreign queue f 5~",
	},
	{
		name: "items whose keys are none",
		plant: func(t *testing.T, p *plot) {
			for _, key := range [][]byte{
				testkit.Packed(t, testkit.Laid("q").Prefix(), 1),
				testkit.Packed(t, testkit.Laid("q").Prefix(), 1, "x"),
				testkit.Packed(t, testkit.Laid("q").Prefix(), 1, 1, opID(1)), // a priority queue's
				testkit.Packed(t, testkit.Laid("q").Prefix(), 1, opID(1), 1),
				testkit.Packed(t, testkit.Laid("q").Prefix(), 1, opID(1), 2, 2),
				testkit.Packed(t, testkit.Laid("q").Prefix(), 1, opID(1), int64(math.MaxInt32)+1),
				testkit.Packed(t, testkit.Laid("q").Prefix(), uint64(1<<63), opID(1)),
				append(bytes.Clone(testkit.Laid("q").Prefix()), 0xfe),
				append(bytes.Clone(testkit.Laid("q").Prefix()), 0x16, 0, 1), // 1 in two bytes
				testkit.Laid("q").Prefix(),
				testkit.Packed(t, testkit.Laid("p").Prefix(), 1, opID(1)), // a queue's
			} {
				p.set(key, []byte("x"))
			}
		},
		want: "item key p" + strings.Repeat(", item key q", 10),
	},
	{
		name: "outcomes: an old one, and others that do not decode",
		plant: func(t *testing.T, p *plot) {
			p.set(testkit.Packed(t, layout.Outcomes("q").Bytes(), opID(1)), bytes.Repeat([]byte{1}, 29))
			p.set(testkit.Packed(t, layout.Outcomes("q").Bytes(), opID(2)), bytes.Repeat([]byte{2}, 29))
			p.set(testkit.Packed(t, layout.Outcomes("q").Bytes(), opID(3)), bytes.Repeat([]byte{1}, 28))
			p.set(testkit.Packed(t, layout.Outcomes("q").Bytes(), 4), bytes.Repeat([]byte{1}, 29))
			p.set(layout.Outcomes("q").Bytes(), nil)
		},
		want: "outcome q, outcome q, outcome q, outcome q",
	},
}

var plantedPieces = []planted{
	{
		name:  "an item without its first further piece",
		plant: func(_ *testing.T, p *plot) { p.clear(p.piece(p.split(), 1)) },
		want:  "pieces q",
	},
	{
		name:  "an item without its last piece",
		plant: func(_ *testing.T, p *plot) { p.clear(p.piece(p.split(), 2)) },
		want:  "pieces q",
	},
	{
		name: "an item without any further piece",
		plant: func(_ *testing.T, p *plot) {
			item := p.split()
			p.clear(p.piece(item, 1))
			p.clear(p.piece(item, 2))
		},
		want: "pieces q",
	},
	{
		name: "pieces of wrong sizes",
		plant: func(_ *testing.T, p *plot) {
			p.set(p.piece(p.split(), 1), make([]byte, 99))
			p.set(p.piece(p.split(), 2), nil)
		},
		want: "pieces q, pieces q",
	},
	{
		name:  "a last piece that is too long",
		plant: func(_ *testing.T, p *plot) { p.set(p.split(), make([]byte, 10)) },
		want:  "pieces q, pieces q",
	},
	{
		name:  "pieces without their item",
		plant: func(_ *testing.T, p *plot) { p.clear(p.split()) },
		want:  "orphans q 2+", then: "orphans q 2*",
	},
	{
		name: "pieces without their item, of a number that there can't be",
		plant: func(t *testing.T, p *plot) {
			p.set(testkit.Packed(t, layout.Pieces("p").Bytes(), 5, 5, opID(1), math.MaxInt32, math.MaxInt32-1), []byte("x"))
			p.set(testkit.Packed(t, layout.Pieces("p").Bytes(), 5, 5, opID(1), math.MaxInt32, math.MaxInt32), []byte("x"))
		},
		want: "orphans p 2+", then: "orphans p 2*",
	},
	{
		name: "pieces without their item, and something else among them",
		plant: func(t *testing.T, p *plot) {
			item := p.split()
			p.clear(item)
			p.set(testkit.Packed(t, testkit.Laid("q").Beside(item), 1, "x"), nil)
		},
		want: "piece key q, orphans q 2",
	},
	{
		name: "pieces behind and in front of those of an item",
		plant: func(_ *testing.T, p *plot) {
			for _, i := range []int64{-1, 0, 3, 4, 5} {
				p.set(p.piece(p.split(), i), []byte("x"))
			}
		},
		want: "orphans q 2+, orphans q 3+", then: "orphans q 2*, orphans q 3*",
	},
	{
		name: "pieces behind those of an item only",
		plant: func(_ *testing.T, p *plot) {
			for _, i := range []int64{3, 4} {
				p.set(p.piece(p.split(), i), []byte("x"))
			}
		},
		want: "orphans q 2+", then: "orphans q 2*",
	},
	{
		name: "a piece of a wrong size, and one behind, which can be mended",
		plant: func(_ *testing.T, p *plot) {
			p.set(p.piece(p.split(), 1), make([]byte, 99))
			p.set(p.piece(p.split(), 3), []byte("x"))
		},
		want: "pieces q, orphans q+", then: "pieces q, orphans q*", after: "pieces q",
	},
	{
		name: "keys of pieces that are none",
		plant: func(t *testing.T, p *plot) {
			p.set(append(layout.Pieces("q").Bytes(), 0xfe), nil)
			p.set(layout.Pieces("q").Bytes(), nil)
			p.set(testkit.Packed(t, layout.Pieces("q").Bytes(), 1, 1, opID(1), 2, 1), nil) // a priority queue's
			p.set(testkit.Packed(t, layout.Pieces("q").Bytes(), 1, opID(1), 1, 1), nil)
			p.set(testkit.Packed(t, layout.Pieces("q").Bytes(), 1, opID(1), 1), nil) // of an item that has no further pieces
			p.set(testkit.Packed(t, testkit.Laid("q").Beside(p.split()), "x"), nil)
		},
		want: strings.Repeat("piece key q, ", 5) + "piece key q",
	},
	{
		name: "a staged item without a piece",
		plant: func(_ *testing.T, p *plot) {
			p.put(4, inTime)
			for _, staged := range p.staged() {
				if n, err := testkit.Laid("q").Check(p.original(staged)); err == nil && n > 1 {
					p.clear(p.piece(p.original(staged), 2))
				}
			}
		},
		want: "pieces q",
	},
	{
		name: "a staged item without any piece",
		plant: func(_ *testing.T, p *plot) {
			p.put(4, inTime)
			for _, staged := range p.staged() {
				if n, err := testkit.Laid("q").Check(p.original(staged)); err == nil && n > 1 {
					p.clear(p.piece(p.original(staged), 1))
					p.clear(p.piece(p.original(staged), 2))
				}
			}
		},
		want: "pieces q",
	},
	{
		name: "staged items of two pieces",
		plant: func(_ *testing.T, p *plot) {
			stageItems(p.t, p.db, testkit.Laid("p"), opID(7), 4, checkTime.Add(inTime))
		},
		note: true,
	},
}
