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
		q, err := conq.OpenQueue(db, "q", conq.String())
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
	q, err := conq.OpenQueue(db, "q", conq.String())
	testkit.NoError(t, err)
	testkit.NoError(t, q.EnqueueAll(t.Context(), slices.Repeat([]string{strings.Repeat("x", 90_000)}, 10)))
	var told []int
	testkit.NoError(t, testkit.Drop(conq.Dump(t.Context(), db, io.Discard, conq.DumpOptions{Progress: func(p conq.Progress) { told = append(told, p.Items) }})))
	testkit.EqualSlices(t, "items when it was told", told, []int{3, 6, 9, 10})
}

// What can't be read as an item of the queue, or what is staged of it, is an error; so is a queue by
// name that can't be dumped, and then nothing is written.
func TestDumpBroken(t *testing.T) {
	result := tuple.AppendInt(layout.Stage("q").Bytes(), 2)
	for _, c := range []struct {
		plant func(db kv.DB)
		names []string
		want  error
		text  string
	}{
		{func(db kv.DB) { testkit.Write(t, db, kv.KeyValue{Key: testkit.Pack(t, "f", "x")}) }, []string{"q", "f"}, conq.ErrDecode, `queue "f"`},
		{func(db kv.DB) {
			testkit.Write(t, db, kv.KeyValue{Key: layout.EntryKey("z"), Value: testkit.Pack(t, "queue", 2)})
		}, []string{"q", "z"}, conq.ErrFormat, `queue "z" has format 2`},
		{func(db kv.DB) { testkit.Write(t, db, kv.KeyValue{Key: append(result, 0xfe)}) }, nil, conq.ErrDecode, "tuple: "},
		{func(db kv.DB) {
			testkit.Write(t, db, kv.KeyValue{Key: testkit.Packed(t, result, 1, bytes.Repeat([]byte{1}, 16), 0, "x")})
		}, nil, conq.ErrDecode, "does not hold the item's own"},
		{func(db kv.DB) {
			testkit.Write(t, db, kv.KeyValue{Key: testkit.Packed(t, result, 1, bytes.Repeat([]byte{1}, 16), 0, testkit.Pack(t, "p", 1, bytes.Repeat([]byte{1}, 16)))})
		}, nil, conq.ErrDecode, "does not hold the item's own"},
		{func(db kv.DB) {
			stage(t, db, "q", 0, 1)
			testkit.Remove(t, db, layout.Pieces("q").Range())
		}, nil, conq.ErrDecode, "piece 2 of 4 is missing"},
		{func(db kv.DB) {
			stage(t, db, "q", 1)
			testkit.Remove(t, db, layout.Pieces("q").Range())
		}, nil, conq.ErrDecode, "piece 2 of 4 is missing"},
	} {
		db := testkit.NewMemory(t, small)
		fillQueue(t, db, "q", []conq.Prioritized[[]byte]{{Value: []byte("one"), Priority: 0}, {Value: make([]byte, 310), Priority: 0}, {Value: []byte("three"), Priority: 0}}, false)
		c.plant(db)
		var b bytes.Buffer
		report, err := conq.Dump(t.Context(), db, &b, conq.DumpOptions{Queues: c.names})
		testkit.WantError(t, err, c.want, c.text)
		testkit.Equal(t, fmt.Sprint(c.text, ": something was written"), b.Len() > 0, c.names == nil)
		for _, q := range report.Queues {
			testkit.Equal(t, "whole", q.Whole, false)
		}
	}
}
