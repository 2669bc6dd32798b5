package conq

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/layout"
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
		db := newMemory(t, kv.Limits{})
		q, err := OpenQueue(db, "q", String())
		noError(t, err)
		noError(t, q.EnqueueAll(t.Context(), letters('a', 'j')))
		snapshots := 0
		report, err := Dump(t.Context(), &hooked{DB: db, Reader: func(r kv.Reader) kv.Reader {
			left := 0
			if snapshots%(inVain+1) == 0 {
				left = 1
			}
			snapshots++
			return oldReader{r, &left}
		}}, io.Discard)
		if inVain > kv.MaxTooOld {
			wantError(t, err, kv.ErrTooOld)
			equal(t, "snapshots", report.Snapshots, 1+inVain)
			continue
		}
		noError(t, err)
		equal(t, "items", report.Items, 10)
	}
}

// Progress is told after so many bytes since it was told last.
func TestDumpTellsBytes(t *testing.T) {
	db := newMemory(t, kv.Limits{})
	q, err := OpenQueue(db, "q", String())
	noError(t, err)
	noError(t, q.EnqueueAll(t.Context(), slices.Repeat([]string{strings.Repeat("x", 90_000)}, 10)))
	var told []int
	noError(t, drop(Dump(t.Context(), db, io.Discard, DumpOptions{Progress: func(p Progress) { told = append(told, p.Items) }})))
	equalSlices(t, "items when it was told", told, []int{3, 6, 9, 10})
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
		{func(db kv.DB) { write(t, db, kv.KeyValue{Key: pack(t, "f", "x")}) }, []string{"q", "f"}, ErrDecode, `queue "f"`},
		{func(db kv.DB) {
			write(t, db, kv.KeyValue{Key: layout.EntryKey("z"), Value: pack(t, "queue", 2)})
		}, []string{"q", "z"}, ErrFormat, `queue "z" has format 2`},
		{func(db kv.DB) { write(t, db, kv.KeyValue{Key: append(result, 0xfe)}) }, nil, ErrDecode, "tuple: "},
		{func(db kv.DB) {
			write(t, db, kv.KeyValue{Key: packed(t, result, opID(1), 0, "x")})
		}, nil, ErrDecode, "does not hold the item's own"},
		{func(db kv.DB) {
			write(t, db, kv.KeyValue{Key: packed(t, result, opID(1), 0, pack(t, "p", 1, opID(1)))})
		}, nil, ErrDecode, "does not hold the item's own"},
		{func(db kv.DB) {
			stage(t, db, "q", 0, 1)
			noPieces(t, db, "q")
		}, nil, ErrDecode, "piece 2 of 4 is missing"},
		{func(db kv.DB) {
			stage(t, db, "q", 1)
			noPieces(t, db, "q")
		}, nil, ErrDecode, "piece 2 of 4 is missing"},
	} {
		db := newMemory(t, small)
		fillQueue(t, db, "q", []Prioritized[[]byte]{{[]byte("one"), 0}, {make([]byte, 310), 0}, {[]byte("three"), 0}}, false)
		c.plant(db)
		var b bytes.Buffer
		report, err := Dump(t.Context(), db, &b, DumpOptions{Queues: c.names})
		wantError(t, err, c.want, c.text)
		equal(t, fmt.Sprint(c.text, ": something was written"), b.Len() > 0, c.names == nil)
		for _, q := range report.Queues {
			equal(t, "whole", q.Whole, false)
		}
	}
}

func noPieces(t *testing.T, db kv.DB, name string) {
	t.Helper()
	noError(t, db.Transact(t.Context(), func(tx kv.Tx) error {
		tx.ClearRange(layout.Pieces(name).Range())
		return nil
	}))
}
