package wal

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
)

// What a crash has torn off, at any byte, is given up, and the log goes on behind what is left, also
// after a second crash. A file that is cut there is not what a crash leaves.
func TestTorn(t *testing.T) {
	const commits = 5
	was := killed(t, commits)
	number := onlySegment(t, was)
	data := readFile(t, was, segmentName(number))
	var ends []int64 // of each commit
	for at := int64(0); ; {
		r, ok := readRecord(number, data[at:])
		if !ok {
			break
		}
		at += r.size
		ends = append(ends, at)
	}
	if len(ends) != commits {
		t.Fatalf("the segment has %d records, want %d", len(ends), commits)
	}
	torn := map[string]func(data []byte, at int64) []byte{
		"zeros": func(data []byte, at int64) []byte { clear(data[at:]); return data },
		"others": func(data []byte, at int64) []byte {
			for i := range data[at:] {
				data[int(at)+i] ^= 0x5a
			}
			return data
		},
	}
	for at := ends[2]; at <= ends[4]; at++ { // what was synced before is another matter
		cut := copyOf(was)
		rewrite(t, cut, segmentName(number), func(data []byte) []byte { return data[:at] })
		refused(t, cut, fmt.Sprintf("cut at %d", at), segmentName(number), "has been cut")
		for how, tear := range torn {
			fs := copyOf(was)
			rewrite(t, fs, segmentName(number), func(data []byte) []byte { return tear(data, at) })
			whole := slices.IndexFunc(ends, func(end int64) bool { return end > at })
			if whole < 0 {
				whole = commits
			}
			for round := range 2 {
				l, batches := mustOpen(t, fs, usual)
				if len(batches) != whole+round {
					t.Errorf("%s at %d, opening %d: %d commits, want %d", how, at, round+1, len(batches), whole+round)
				}
				commit(t, l, "more")
				fs = fs.CrashClone(vfs.CrashCloneCfg{})
				testkit.NoError(t, l.Close())
			}
		}
	}
}

// A segment that is not the last one has an end, or something was lost.
func TestWithoutEnd(t *testing.T) {
	fs := killed(t, 3)
	first := onlySegment(t, fs)
	writeFile(t, fs, segmentName(first+1), nil)
	refused(t, fs, "a log whose first segment has no end", segmentName(first))
}

// What was on disk and is not what was written is damage, and no torn end.
func TestDamaged(t *testing.T) {
	fs := killed(t, 5)
	name := segmentName(onlySegment(t, fs))
	rewrite(t, fs, name, func(data []byte) []byte { data[headerSize] ^= 1; return data })
	refused(t, fs, "a bit of what was synced has changed", name, "damaged at byte 0")
}

// So is what has changed since a log was closed, or since a crash was mended: all of that was on disk,
// with Sync and without.
func TestDamagedLater(t *testing.T) {
	for _, durability := range []Durability{OnDisk, Written, Appended} {
		for _, crashed := range []bool{false, true} {
			o := Options{SegmentSize: usual.SegmentSize, Durability: durability}
			fs := newDir(t)
			if crashed {
				fs = killed(t, 5)
			}
			l, _ := mustOpen(t, fs, o)
			if !crashed {
				commit(t, l, "a batch")
			}
			testkit.NoError(t, l.Close())
			name := segmentName(segmentsOf(t, fs)[0])
			rewrite(t, fs, name, func(data []byte) []byte { data[headerSize] ^= 1; return data })
			refused(t, fs, fmt.Sprintf("durability %d, crashed %v", durability, crashed), name, "damaged at byte 0")
		}
	}
}

// A segment is read up to its end, and no further than it takes to find that: behind it is
// what the file had when it was another segment.
func TestReadSegment(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	another := appendRecord(nil, 1, 0, make([]byte, 4*firstRead))
	for _, size := range []int{0, 100, firstRead - 100, firstRead, 5 * firstRead, 8 * firstRead, 20 * firstRead} {
		for _, finished := range []bool{true, false} {
			var written []byte
			var want [][]byte
			for len(written) < size {
				batch := bytes.Repeat([]byte{byte(len(want))}, 1+random.IntN(min(size, firstRead/3)))
				want = append(want, batch)
				written = appendRecord(written, 2, 0, batch)
			}
			end := len(written)
			if finished {
				written = appendRecord(written, 2, 0, nil)
			}
			for len(written) < 100*firstRead {
				written = append(written, another...)
			}
			fs := newDir(t)
			writeFile(t, fs, "segment", written)
			data, got, err := readSegment(fs, fs.PathJoin(dir, "segment"), 2)
			testkit.NoError(t, err)
			if got.end != int64(end) || got.finished != finished || !slices.EqualFunc(got.batches, want, bytes.Equal) {
				t.Errorf("of %d records up to %d, finished %v: read %d up to %d, finished %v",
					len(want), end, finished, len(got.batches), got.end, got.finished)
			}
			if most := max(firstRead, 8*(end+headerSize)); finished && len(data) > most || !finished && len(data) != len(written) {
				t.Errorf("finished %v at %d of %d bytes: read %d", finished, end, len(written), len(data))
			}
		}
	}
}
