package wal

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv/embedded/internal/atomicfile"
)

// checkpoint is what must be in a store's directory: the first segment that has what may be in no
// table, the last one that was ended, if one was, and how much of Pebble's manifest was on disk when
// segments before the first were released. Without it, a segment that is missing could not be told
// from one that was released; and where a manifest is damaged Pebble takes what is before for all of
// it, and removes the tables of which it does not know.
//
// What a manifest has beyond that is of no account: what is in tables that are lost with it is in the
// log, too.
type checkpoint struct {
	first, last uint64
	manifest    uint64
	end         int64
}

const (
	// File has the checkpoint. A directory with a store has it.
	File = "NEEDED"

	checkpointLine = "segments %d %d, manifest %d up to %d"
)

// text returns what the file has: with a check, as with a number too high segments would be given up
// that are needed.
func (c checkpoint) text() string {
	line := fmt.Sprintf(checkpointLine, c.first, c.last, c.manifest, c.end)
	return fmt.Sprintf("%s, check %08x\n", line, crc32.Checksum([]byte(line), castagnoli))
}

func (c checkpoint) write(fs vfs.FS, dir string) error {
	return atomicfile.Write(fs, dir, File, c.text())
}

func readCheckpoint(fs vfs.FS, dir string) (c checkpoint, err error) {
	text, err := atomicfile.Read(fs, fs.PathJoin(dir, File))
	if err != nil {
		return c, fmt.Errorf("without its file %s, what is missing can't be told: %w", File, err)
	}
	if _, err := fmt.Sscanf(text, checkpointLine, &c.first, &c.last, &c.manifest, &c.end); err != nil || c.text() != text {
		return c, fmt.Errorf("its file %s is damaged: it holds %.100q", File, text)
	}
	return c, nil
}

// Create writes the first checkpoint of a store: a new one, or one of a format that had none, whose
// segments before a gap were released.
//
// The number of a new store's first segment is random. Checks of records begin with it, and a
// segment's file mostly has what others have had, so also what clients have put there as values. If
// the number could be guessed, a value could have what would be a record after a crash.
func Create(fs vfs.FS, dir string) error {
	segments, err := segmentsIn(fs, dir)
	if err != nil {
		return err
	}
	c := checkpoint{first: 1 + rand.Uint64N(1<<48)}
	for i, number := range segments {
		if i == 0 || number != segments[i-1]+1 {
			c.first = number
		}
	}
	return c.write(fs, dir)
}

// segments returns those of the log, in order. It removes those before the first that must be there:
// they were released, and are there because they could not be removed, or have come back in a crash.
func (c checkpoint) segments(fs vfs.FS, dir string) ([]uint64, error) {
	all, err := segmentsIn(fs, dir)
	if err != nil {
		return nil, err
	}
	for len(all) > 0 && all[0] < c.first {
		if err := fs.Remove(fs.PathJoin(dir, segmentName(all[0]))); err != nil {
			return nil, err
		}
		all = all[1:]
	}
	if len(all) == 0 && c.last == 0 { // nothing was written yet
		return nil, nil
	}
	next := c.first
	for _, number := range all {
		if number != next {
			break
		}
		next++
	}
	if there := next - c.first; there < uint64(len(all)) || there == 0 || next <= c.last {
		return nil, fmt.Errorf("its file %s is missing, which has commits that may be nowhere else", segmentName(next))
	}
	return all, nil
}
