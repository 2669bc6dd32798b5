package check_test

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
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
		name: "no format, and something to repair",
		plant: func(t *testing.T, p *plot) {
			p.clear(layout.FormatKey())
			p.set(p.stage(0, 1, opID(1)), nil)
		},
		want: "format, due without result q+", then: "format, due without result q*", after: "format",
	},
	{
		name: "a format that does not decode, and something that could be repaired",
		plant: func(t *testing.T, p *plot) {
			p.set(layout.FormatKey(), []byte("x"))
			p.set(p.stage(0, 1, opID(1)), nil)
		},
		want: "format, due without result q",
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
			p.set(testkit.Packed(t, laid("q").Prefix(), "new"), nil)
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
				testkit.Packed(t, laid("q").Prefix(), 1),
				testkit.Packed(t, laid("q").Prefix(), 1, "x"),
				testkit.Packed(t, laid("q").Prefix(), 1, 1, opID(1)), // a priority queue's
				testkit.Packed(t, laid("q").Prefix(), 1, opID(1), 1),
				testkit.Packed(t, laid("q").Prefix(), 1, opID(1), 2, 2),
				testkit.Packed(t, laid("q").Prefix(), 1, opID(1), int64(math.MaxInt32)+1),
				testkit.Packed(t, laid("q").Prefix(), uint64(1<<63), opID(1)),
				append(bytes.Clone(laid("q").Prefix()), 0xfe),
				append(bytes.Clone(laid("q").Prefix()), 0x16, 0, 1), // 1 in two bytes
				laid("q").Prefix(),
				testkit.Packed(t, laid("p").Prefix(), 1, opID(1)), // a queue's
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
			p.set(testkit.Packed(t, laid("q").Beside(item), 1, "x"), nil)
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
			p.set(testkit.Packed(t, laid("q").Beside(p.split()), "x"), nil)
		},
		want: strings.Repeat("piece key q, ", 5) + "piece key q",
	},
	{
		name: "a staged item without a piece",
		plant: func(_ *testing.T, p *plot) {
			p.put(4, inTime)
			for _, staged := range p.staged() {
				if n, err := laid("q").Check(p.original(staged)); err == nil && n > 1 {
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
				if n, err := laid("q").Check(p.original(staged)); err == nil && n > 1 {
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
			stageItems(p.t, p.db, laid("p"), opID(7), 4, checkTime.Add(inTime))
		},
		note: true,
	},
}

var plantedStaging = []planted{
	{
		name: "keys and values that do not decode",
		plant: func(t *testing.T, p *plot) {
			later := p.at(inTime)
			for _, key := range [][]byte{
				p.stage(), p.stage("x"), p.stage(5), append(p.stage(), 0xfe), p.stage(0, opID(1)), p.stage(0, "x", opID(1)),
				p.stage(2), p.stage(2, 1), p.stage(3, opID(1)), p.stage(3, 1, 1, opID(1)), p.stage(3, 1, "x"), p.stage(4, 1),
			} {
				p.set(key, nil)
			}
			p.set(p.stage(1, 1, opID(1)), p.state(1, inTime))
			p.set(p.stage(1, 1, 3, opID(1)), p.state(1, inTime))
			p.set(p.stage(1, 1, 0, opID(1)), testkit.Packed(t, nil, -1, later))
			p.set(p.stage(4, 1, opID(2)), testkit.Packed(t, nil, later))
		},
		want: strings.Repeat("staging key q, ", 15) + "staging key q",
	},
	{
		name: "a result whose value does not decode",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			p.set(p.stage(2, opID(7)), testkit.Packed(t, nil, 2))
		},
		want: "staging key q",
	},
	{
		name: "a result with a key that is not an item's",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			p.set(p.stage(2, opID(7), 5), nil)
		},
		want: "staging key q",
	},
	{
		name: "a result with an item of no number",
		plant: func(t *testing.T, p *plot) {
			p.put(1, tooLateBy)
			item := p.staged()[0]
			p.set(p.stage(2, opID(7), "x", p.original(item)), p.value(item))
			p.clear(item)
		},
		want: "staging key q, incomplete result q",
	},
	{
		name:  "a key of no result that is not an item's",
		plant: func(t *testing.T, p *plot) { p.set(p.stage(2, opID(1), 5), nil) },
		want:  "staging key q",
	},
	{
		name:  "a request that was served",
		plant: func(t *testing.T, p *plot) { p.set(p.stage(1, 5, 0, opID(8)), p.state(1, inTime)) },
		want:  "served request q+", then: "served request q*",
	},
	{
		name: "deadlines of no result, and of another time",
		plant: func(t *testing.T, p *plot) {
			p.set(p.stage(0, p.at(tooLateBy), opID(1)), nil)
			p.set(p.stage(0, p.at(time.Minute), opID(8)), nil)
		},
		want: "due without result q+, due without result q+", then: "due without result q*, due without result q*",
	},
	{
		name: "a result without its deadline",
		plant: func(t *testing.T, p *plot) {
			p.put(2, inTime)
			p.clear(p.stage(0, p.at(inTime), opID(7)))
		},
		want: "result without due q+", then: "result without due q*",
	},
	{
		name: "a result without its deadline, which is over",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			p.clear(p.stage(0, p.at(tooLateBy), opID(7)))
		},
		want: "result without due q+", then: "result without due q*",
	},
	{
		name: "a result without its place",
		plant: func(t *testing.T, p *plot) {
			p.put(2, inTime)
			for _, key := range p.keys(kv.PrefixRange(p.stage(3))) {
				if bytes.HasSuffix(key, testkit.Packed(t, nil, opID(7))) {
					p.clear(key)
				}
			}
		},
		want: "result without place q+", then: "result without place q*",
	},
	{
		name:  "a place of no result",
		plant: func(t *testing.T, p *plot) { p.set(p.stage(3, 99, opID(1)), nil) },
		want:  "place without result q+", then: "place without result q*",
	},
	{
		name: "a result that lacks an item",
		plant: func(t *testing.T, p *plot) {
			p.put(2, inTime)
			p.set(p.stage(2, opID(7)), p.state(3, inTime))
		},
		want: "incomplete result q",
	},
	{
		name: "a result that lacks an item, too old",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			p.set(p.stage(2, opID(7)), p.state(3, tooLateBy))
		},
		want: "incomplete result q+", then: "incomplete result q*",
	},
	{
		name: "a result with an item too many, and no deadline",
		plant: func(t *testing.T, p *plot) {
			p.put(2, inTime)
			p.set(p.stage(2, opID(7)), p.state(1, inTime))
			p.clear(p.stage(0, p.at(inTime), opID(7)))
		},
		want: "incomplete result q, result without due q",
	},
	{
		name: "a result whose items have other numbers, too old",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			last := p.staged()[1]
			p.set(p.stage(2, opID(7), 5, p.original(last)), p.value(last))
			p.clear(last)
		},
		want: "incomplete result q+", then: "incomplete result q*",
	},
	{
		name: "items of no result",
		plant: func(t *testing.T, p *plot) {
			p.put(2, inTime)
			p.clear(p.stage(2, opID(7)))
		},
		want: "due without result q+, item without result q+, item without result q+, place without result q+",
		then: "due without result q*, item without result q*, item without result q*, place without result q*",
	},
	{
		name: "an item of no result that is not of this queue",
		plant: func(t *testing.T, p *plot) {
			p.set(p.stage(2, opID(7), 0, []byte("x")), nil)
			p.set(p.stage(2, opID(7), 1, testkit.Packed(t, nil, 1, opID(1))), nil) // as behind the name
		},
		want: "staged key q, staged key q, item without result q, item without result q",
	},
	{
		name: "an item of another queue, which would go there",
		plant: func(t *testing.T, p *plot) {
			p.put(1, tooLateBy)
			p.set(p.stage(2, opID(7)), p.state(2, tooLateBy))
			p.set(p.stage(2, opID(7), 1, testkit.Packed(t, nil, "p", 1, 1, opID(1))), nil)
		},
		want: "staged key q",
	},
	{
		name: "an item that is in the queue, too",
		plant: func(t *testing.T, p *plot) {
			p.put(2, inTime)
			p.set(p.original(p.staged()[0]), p.value(p.staged()[0]))
		},
		want: "item twice q",
	},
	{
		name: "an item that is in the queue, too, and goes back over itself",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			p.set(p.original(p.staged()[0]), p.value(p.staged()[0]))
		},
		want: "item twice q+", then: "item twice q*",
	},
	{
		name: "an item that is in the queue, too, with another value, and would go back",
		plant: func(t *testing.T, p *plot) {
			p.put(2, tooLateBy)
			p.set(p.original(p.staged()[0]), []byte("other"))
		},
		want: "item twice q",
	},
	{
		name:  "an item in two results",
		plant: func(t *testing.T, p *plot) { p.putTwice(t, tooLateBy, inTime) },
		// What is too old goes back, and then the item is in the queue and in the other result.
		want: "item twice q", then: "item twice q", after: "item twice q",
	},
	{
		name:  "an item in two results, the second of which is too old",
		plant: func(t *testing.T, p *plot) { p.putTwice(t, inTime, tooLateBy) },
		want:  "item twice q",
	},
	{
		name:  "an item without any piece goes back, and is told once",
		plant: func(_ *testing.T, p *plot) { p.putWithoutPieces() },
		want:  "pieces q", then: "pieces q", after: "pieces q",
	},
	{
		name: "an item without any piece that would go back, and a format that does not decode",
		plant: func(_ *testing.T, p *plot) {
			p.putWithoutPieces()
			p.set(layout.FormatKey(), []byte("x"))
		},
		want: "format, pieces q",
	},
}
