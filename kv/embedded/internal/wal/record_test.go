package wal

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// Records are what they were in builds before: what these have written would otherwise be taken for
// what a crash has torn.
func TestRecordsStay(t *testing.T) {
	records := appendRecord(nil, 1<<40+7, 0, []byte("a batch"))
	records = appendRecord(records, 1<<40+7, 24, nil)
	const want = "2b78dbf68cccfef80700000000000000" + "6120626174636800" + // header and batch
		"866740340e9dc0000000000018000000"
	if got := fmt.Sprintf("%x", records); got != want {
		t.Errorf("records are %s, were %s", got, want)
	}
}

// A segment can hold any bytes: it has the records that were written, up to its first
// fault, and nothing else.
func FuzzSegment(f *testing.F) {
	whole := appendRecord(nil, 7, 0, []byte("first"))
	whole = appendRecord(whole, 7, int64(len(whole)), []byte("the second one"))
	f.Add(whole, uint64(7))
	f.Add(appendRecord(whole, 7, 0, nil), uint64(7))
	f.Add(make([]byte, 100), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, number uint64) {
		read := readRecords(number, data)
		batches, end, finished := read.batches, read.end, read.finished
		var again []byte
		for at := int64(0); at < end; {
			r, ok := readRecord(number, data[at:])
			if !ok {
				t.Fatalf("no record at %d of %d", at, end)
			}
			again = appendRecord(again, number, r.synced, r.batch)
			at += r.size
		}
		if int64(len(again)) != end {
			t.Fatalf("%d batches take %d bytes, and end at %d", len(batches), len(again), end)
		}
		lost(number, data, end)
		behind := appendRecord(slices.Clone(data[:end]), number, end, []byte("more"))
		if more := readRecords(number, behind).batches; len(more) != len(batches)+1 {
			t.Fatalf("%d batches, and with one more %d (finished %v)", len(batches), len(more), finished)
		}
	})
}

// A batch may have what is a record of another segment, and be in a file that is that later. It
// can't be meant for it, as the client that has put it there does not know the number.
func TestForged(t *testing.T) {
	for shift := range recordAlign { // where in a segment a value begins is up to its key
		forge(t, shift)
	}
}

func forge(t *testing.T, shift int) {
	batch := make([]byte, shift)
	for len(batch) < 3_000 {
		for n := uint64(1); n < 20; n++ {
			batch = appendRecord(batch, n, 1<<20, []byte("forged"))
		}
	}
	fs := newDir(t)
	l, _ := mustOpen(t, fs, Options{SegmentSize: usual.SegmentSize, Durability: Written})
	for i := range 10 {
		for range 3 {
			commit(t, l, string(batch))
		}
		testkit.NoError(t, l.Release(l.Rotate())) // the next segment has the file of this one, and is shorter
		commit(t, l, strings.Repeat("x", 8*i+8))
		if used := bytes.Contains(readFile(t, fs, segmentName(onlySegment(t, fs))), []byte("forged")); used != (i > 0) {
			t.Fatalf("round %d: a file is used again: %v", i, used)
		}
		_, batches := mustOpen(t, copyOf(fs), usual)
		if len(batches) != 1 || batches[0][0] != 'x' {
			t.Fatalf("round %d: batches are %.40q, want one of x", i, batches)
		}
	}
}
