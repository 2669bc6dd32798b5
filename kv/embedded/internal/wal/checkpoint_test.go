package wal

import (
	"fmt"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// A segment that is missing or cut is not taken for one that was released, or never was: also not the
// last, once the log was closed, and after segments were released.
func TestMissingSegments(t *testing.T) {
	for _, times := range []int{1, 5, 9} {
		fs := closedLog(t, times)
		if times == 9 {
			l, _ := mustOpen(t, fs, usual)
			testkit.NoError(t, l.Release(l.Ended()[4]))
			testkit.NoError(t, l.Close())
		}
		segments := segmentsOf(t, fs)
		for _, number := range segments {
			name := segmentName(number)
			refused(t, copyWithout(t, fs, name), fmt.Sprintf("%d openings, without %s of %d", times, name, segments), name)
			_, records, err := readSegment(fs, fs.PathJoin(dir, name), number)
			testkit.NoError(t, err)
			for _, n := range []int64{0, recordAlign, records.end} {
				spoilt := copyOf(fs)
				rewrite(t, spoilt, name, func(data []byte) []byte { return data[:n] })
				refused(t, spoilt, fmt.Sprintf("%d openings, %d bytes of %s of %d", times, n, name, segments), name)
			}
		}
	}
}

// Also where the log was not closed, what must have been before the last segment is missed.
func TestMissingSegmentsAfterCrash(t *testing.T) {
	fs := closedLog(t, 2)
	l, _ := mustOpen(t, fs, usual)
	commit(t, l, "more")
	for _, number := range segmentsOf(t, fs)[:2] {
		name := segmentName(number)
		refused(t, copyWithout(t, fs, name), "without "+name, name)
	}
	testkit.NoError(t, l.Close())
	c, err := readCheckpoint(fs, dir)
	testkit.NoError(t, err)
	c.last = 0 // as after a crash
	testkit.NoError(t, c.write(fs, dir))
	middle := segmentName(segmentsOf(t, fs)[1])
	refused(t, copyWithout(t, fs, middle), "without the second of three segments", middle)

	fs = killed(t, 2)
	first := onlySegment(t, fs)
	writeFile(t, fs, segmentName(first+1), nil)
	refused(t, copyWithout(t, fs, segmentName(first)), "a new store without its first segment", segmentName(first))
}

// Whatever becomes of the checkpoint's file, a segment that must be there is not given up.
func TestCheckpointFile(t *testing.T) {
	fs := closedLog(t, 3)
	refused(t, copyWithout(t, fs, File), "without the file", File)
	text := readFile(t, fs, File)
	for i := range text {
		spoilt := copyOf(fs)
		rewrite(t, spoilt, File, func(data []byte) []byte { data[i] ^= 1; return data })
		refused(t, spoilt, fmt.Sprintf("byte %d of %q changed", i, text), File)
	}
}

// A log of the time before there were checkpoints can be read, also where a segment that was released
// has come back.
func TestCreateLater(t *testing.T) {
	fs := copyWithout(t, closedLog(t, 3), File)
	writeFile(t, fs, segmentName(segmentsOf(t, fs)[0]-2), []byte("anything"))
	testkit.NoError(t, Create(fs, dir))
	if _, batches := mustOpen(t, fs, usual); len(batches) != 3 {
		t.Errorf("batches are %q, want 3", batches)
	}
}
