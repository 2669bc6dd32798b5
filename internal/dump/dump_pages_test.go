package dump_test

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// oldReader is a reader that is too old after some pairs.
type oldReader struct {
	kv.Reader
	left *int
}

func (o oldReader) Snapshot() kv.Reader { return oldReader{o.Reader.Snapshot(), o.left} }

func (o oldReader) Range(r kv.Range, opts kv.RangeOptions) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for pair, err := range o.Reader.Range(r, opts) {
			if *o.left--; *o.left < 0 {
				yield(kv.KeyValue{}, kv.ErrTooOld)
				return
			}
			if !yield(pair, err) {
				return
			}
		}
	}
}

// A dump goes on while some snapshots are read in time, however many are not; and gives up when none is
// any more.
func TestDumpTooOld(t *testing.T) {
	for _, inVain := range []int{kv.MaxTooOld, kv.MaxTooOld + 1} {
		db := testkit.NewMemory(t, kv.Limits{})
		q, err := conq.OpenQueue(t.Context(), db, "q", conq.String())
		testkit.NoError(t, err)
		testkit.NoError(t, q.EnqueueAll(t.Context(), testkit.SplitValues('a', 'j')))
		snapshots := 0
		report, err := conq.Dump(t.Context(), &testkit.Hooked{DB: db, Reader: func(r kv.Reader) kv.Reader {
			left := 0
			if snapshots%(inVain+1) == 0 {
				left = 1
			}
			snapshots++
			return oldReader{r, &left}
		}}, io.Discard)
		if inVain > kv.MaxTooOld {
			testkit.WantError(t, err, kv.ErrTooOld)
			testkit.Equal(t, "snapshots", report.Snapshots, 1+inVain)
			continue
		}
		testkit.NoError(t, err)
		testkit.Equal(t, "items", report.Items, 10)
	}
}

// Progress is told after so many bytes since it was told last.
func TestDumpTellsBytes(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	q, err := conq.OpenQueue(t.Context(), db, "q", conq.String())
	testkit.NoError(t, err)
	testkit.NoError(t, q.EnqueueAll(t.Context(), slices.Repeat([]string{strings.Repeat("x", 90_000)}, 10)))
	var told []int
	testkit.NoError(t, testkit.Drop(conq.Dump(t.Context(), db, io.Discard, conq.DumpOptions{Progress: func(p conq.Progress) { told = append(told, p.Items) }})))
	testkit.EqualSlices(t, "items when it was told", told, []int{3, 6, 9, 10})
}

// What can't be read as an item of the queue, or what is staged of it, is an error, and what was written of it
// is not a whole dump. So is a queue, or a store, that this version does not read, and then nothing is written.
func TestDumpBroken(t *testing.T) {
	result := tuple.AppendInt(layout.Stage("q").Bytes(), 2)
	plant := func(key, value []byte) func(db kv.DB) {
		return func(db kv.DB) { testkit.Write(t, db, kv.KeyValue{Key: key, Value: value}) }
	}
	withoutPieces := func(staged ...int) func(db kv.DB) {
		return func(db kv.DB) {
			stage(t, db, "q", staged...)
			testkit.Remove(t, db, layout.Pieces("q").Range())
		}
	}
	op := bytes.Repeat([]byte{1}, 16)
	for _, c := range []struct {
		plant func(db kv.DB)
		names []string
		want  error
		text  string
	}{
		{plant(testkit.Pack(t, "f", "x"), nil), []string{"q", "f"}, conq.ErrDecode, `queue "f"`},
		{plant(layout.EntryKey("z"), testkit.Pack(t, "queue", 2)), []string{"q", "z"}, conq.ErrFormat, `queue "z" has format 2`},
		{plant(append(result, 0xfe), nil), nil, conq.ErrDecode, "tuple: "},
		{plant(testkit.Packed(t, result, 1, op, 0, "x"), nil), nil, conq.ErrDecode, "does not hold the item's own"},
		{plant(testkit.Packed(t, result, 1, op, 0, testkit.Pack(t, "p", 1, op)), nil), nil, conq.ErrDecode, "does not hold the item's own"},
		{withoutPieces(0, 1), nil, conq.ErrDecode, "piece 2 of 4 is missing"},
		{withoutPieces(1), nil, conq.ErrDecode, "piece 2 of 4 is missing"},
		{plant(testkit.Pack(t, "q", 2.5, make([]byte, 20)), nil), nil, conq.ErrDecode, `queue "q", key`},
		{plant(testkit.Pack(t, "q", 9, []byte{7}, 3), nil), nil, conq.ErrDecode, "piece 2 of 3 is missing"},
		{plant(layout.EntryKey("z"), testkit.Pack(t, "queue", 2)), nil, conq.ErrFormat, `queue "z" has format 2`},
		{plant(layout.EntryKey("z"), testkit.Pack(t, "bag", 1)), nil, conq.ErrFormat, `queue "z" is a "bag"`},
		{plant(layout.EntryKey("z"), []byte("?")), nil, conq.ErrCorrupt, ""},
		{plant(layout.FormatKey(), testkit.Pack(t, 2)), nil, conq.ErrFormat, "store has format 2"},
	} {
		db := testkit.NewMemory(t, small)
		fillQueue(t, db, "q", []conq.Prioritized[[]byte]{{Value: []byte("one"), Priority: 0}, {Value: make([]byte, 310), Priority: 0}, {Value: []byte("three"), Priority: 0}}, false)
		c.plant(db)
		var b bytes.Buffer
		report, err := conq.Dump(t.Context(), db, &b, conq.DumpOptions{Queues: c.names})
		testkit.WantError(t, err, c.want, c.text)
		begun := c.want == conq.ErrDecode && c.names == nil
		testkit.Equal(t, fmt.Sprint(c.text, ": something was written"), b.Len() > 0, begun)
		for _, q := range report.Queues {
			testkit.Equal(t, "whole", q.Whole, false)
		}
		if begun {
			testkit.WantError(t, testkit.Drop(conq.Load(t.Context(), testkit.NewMemory(t, small), &b)), conq.ErrDump)
		}
	}
}
