package wal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
)

// Batches come back in order, whatever is durable when the power fails: with Sync what was committed,
// else what was synced, and nothing that has one missing before it.
func TestReplay(t *testing.T) {
	for _, durability := range []Durability{OnDisk, Written, Appended} {
		fs := newDir(t)
		l, _ := mustOpen(t, fs, Options{SegmentSize: 1000, Durability: durability})
		var want []string
		for i := range 30 {
			if l.Full() {
				l.Rotate()
			}
			want = append(want, fmt.Sprintf("batch %03d %s", i, strings.Repeat("x", 10*i)))
			commit(t, l, want[i])
			if i == 20 {
				testkit.NoError(t, l.Sync())
			}
		}
		least := 21
		if durability == OnDisk {
			least = 30
		}
		_, batches := mustOpen(t, fs.CrashClone(vfs.CrashCloneCfg{}), usual)
		if len(batches) < least || !slices.Equal(batches, want[:len(batches)]) {
			t.Errorf("durability %d: %d batches after a power failure, want the first %d or more", durability, len(batches), least)
		}
		testkit.NoError(t, l.Close())
		if _, batches := mustOpen(t, fs, usual); !slices.Equal(batches, want) {
			t.Errorf("durability %d: %d batches after Close, want %d", durability, len(batches), len(want))
		}
	}
}

// What need only be appended is in memory until it is too much for that.
func TestBuffered(t *testing.T) {
	fs := newDir(t)
	l, _ := mustOpen(t, fs, Options{SegmentSize: 1 << 20, Durability: Appended})
	for _, c := range []struct{ bytes, buffered, written int }{
		{8, 8 + headerSize, 0}, {maxBuffered, 0, 2}, {16, 16 + headerSize, 2},
	} {
		commit(t, l, strings.Repeat("x", c.bytes))
		if _, batches := mustOpen(t, copyOf(fs), usual); l.buffered() != c.buffered || len(batches) != c.written {
			t.Errorf("after one of %d bytes, %d are buffered, and %d batches written: want %d, %d",
				c.bytes, l.buffered(), len(batches), c.buffered, c.written)
		}
	}
}

// Each segment has something in it, so that none is missing between two others whenever the power fails.
func TestRotateEmpty(t *testing.T) {
	fs := closedLog(t, 2)
	l, _ := mustOpen(t, fs, usual)
	ended := l.Ended()
	if last := l.Rotate(); last != ended[1] {
		t.Errorf("nothing was appended, and the segment before is %d, not %d", last, ended[1])
	}
	commit(t, l, "batch")
	if n := l.Rotate(); n != ended[1]+1 || n != l.Rotate() {
		t.Errorf("the segment before is %d, want one behind %d", n, ended[1])
	}
	commit(t, l, "batch")
	if _, batches := mustOpen(t, copyOf(fs), usual); len(batches) != 4 {
		t.Errorf("batches are %q, want 4", batches)
	}
}

// Of what was released, nothing is replayed, the rest is; a file is kept to be used again, and what
// was in it before is not taken for what is in it now.
func TestRelease(t *testing.T) {
	fs := newDir(t)
	l, _ := mustOpen(t, fs, Options{SegmentSize: usual.SegmentSize, Durability: Written})
	for i := range 10 {
		commit(t, l, fmt.Sprintf("released %d %s", i, strings.Repeat("x", 500)))
		last := l.Rotate()
		commit(t, l, fmt.Sprintf("kept %d", i))
		testkit.NoError(t, l.Release(last))
		testkit.NoError(t, l.Release(last)) // again
		_, batches := mustOpen(t, copyOf(fs), usual)
		if want := []string{fmt.Sprintf("kept %d", i)}; !slices.Equal(batches, want) {
			t.Fatalf("batches are %.30q, want %q", batches, want)
		}
		if used := bytes.Contains(readFile(t, fs, segmentName(onlySegment(t, fs))), []byte("xxx")); used != (i > 0) {
			t.Fatalf("round %d: a file is used again: %v", i, used)
		}
	}
}

// The file of a segment that one long batch has made larger than segments are is not kept.
func TestReleaseLarge(t *testing.T) {
	fs := newDir(t)
	l, _ := mustOpen(t, fs, Options{SegmentSize: 100, Durability: Written})
	commit(t, l, strings.Repeat("x", 1000))
	testkit.NoError(t, l.Release(l.Rotate()))
	if _, err := fs.Stat(fs.PathJoin(dir, Spare)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is kept to be used again (%v)", err)
	}
}

// A segment that was released, and came back, is not read.
func TestGap(t *testing.T) {
	fs := closedLog(t, 5)
	name := segmentName(segmentsOf(t, fs)[0])
	old := readFile(t, fs, name)
	l, _ := mustOpen(t, fs, usual)
	testkit.NoError(t, l.Release(l.Ended()[2]))
	commit(t, l, "more")
	testkit.NoError(t, l.Close())
	writeFile(t, fs, name, old)
	_, batches := mustOpen(t, fs, usual)
	if want := []string{"batch 03", "batch 04", "more"}; !slices.Equal(batches, want) {
		t.Errorf("batches are %q, want %q", batches, want)
	}
	if slices.Contains(segmentsOf(t, fs), segmentsOf(t, copyOf(fs))[0]-1) {
		t.Errorf("%s is still there", name)
	}
}

// Opening and closing writes no segment.
func TestNothingWritten(t *testing.T) {
	fs := closedLog(t, 0)
	l, _ := mustOpen(t, fs, usual)
	l.Append(nil, 0, 1)
	testkit.NoError(t, l.Commit(1))
	testkit.NoError(t, l.Close())
	if segments := segmentsOf(t, fs); len(segments) > 0 {
		t.Errorf("segments %d", segments)
	}
}

// No number of a segment comes again, though all that is in the log is released when it is opened,
// and nothing is written then: a file that is used again may still have records of an earlier
// segment, which would count if that had the same number.
func TestNumbers(t *testing.T) {
	fs := newDir(t)
	before := uint64(0)
	for round := range 8 {
		l, _ := mustOpen(t, fs, usual)
		if ended := l.Ended(); len(ended) > 0 {
			testkit.NoError(t, l.Release(ended[len(ended)-1]))
		}
		if round%3 == 0 {
			commit(t, l, "batch")
		}
		testkit.NoError(t, l.Close())
		segments := segmentsOf(t, fs)
		if n := segments[len(segments)-1]; n <= before {
			t.Fatalf("round %d: the latest segment is %d, after %d", round, n, before)
		} else {
			before = n
		}
	}
}
