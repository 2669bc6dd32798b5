package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
)

// checkpoint is what must be in a store's directory: the first segment that has what may be in no
// table, the last one that was ended, if one was; the last one that was begun, of which a commit may be durable, with how large its
// file is at least, and up to where it has records at least; and how much of Pebble's manifest was on disk when
// segments before the first were released, and its check. Without it, a segment that is missing could not be told
// from one that was released, nor one that is cut from one that a crash has torn; and where a manifest is damaged Pebble takes what
// is before for all of it, and removes the tables of which it does not know.
//
// What a manifest has beyond that is of no account: what is in tables that are lost with it is in the
// log, too.
type checkpoint struct {
	first, last uint64

	begun   uint64 // or 0
	size    int64
	records int64

	manifest uint64
	end      int64
	sum      uint32
}

const (
	// File has the checkpoint. A directory with a store has it.
	File = "NEEDED"

	checkpointLine = "segments %d %d, begun %d of %d with %d, manifest %d up to %d sum %08x"

	// formerLine is that of format 3.
	formerLine = "segments %d %d, manifest %d up to %d"
)

// text returns what the file has: with a check, as with a number too high segments would be given up
// that are needed.
func (c checkpoint) text() string {
	return checked(fmt.Sprintf(checkpointLine, c.first, c.last, c.begun, c.size, c.records, c.manifest, c.end, c.sum))
}

func checked(line string) string {
	return fmt.Sprintf("%s, check %08x\n", line, crc32.Checksum([]byte(line), castagnoli))
}

func (c checkpoint) write(fs vfs.FS, dir string) error {
	return guardfs.WriteWhole(fs, dir, File, c.text())
}

func readCheckpoint(fs vfs.FS, dir string) (c checkpoint, err error) {
	text, err := guardfs.ReadWhole(fs, fs.PathJoin(dir, File))
	if err != nil {
		return c, fmt.Errorf("without its file %s, what is missing can't be told: %w", File, err)
	}
	if _, err := fmt.Sscanf(text, checkpointLine, &c.first, &c.last, &c.begun, &c.size, &c.records, &c.manifest, &c.end, &c.sum); err != nil || c.text() != text {
		return c, fmt.Errorf("its file %s is damaged: it holds %.100q", File, text)
	}
	return c, nil
}

// Create writes the first checkpoint of a store: a new one, one of format 3, or one of a format that had none, whose
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
	if c, ok, err := former(fs, dir); ok || err != nil {
		return errors.Join(err, c.write(fs, dir))
	}
	c := checkpoint{first: 1 + rand.Uint64N(1<<48)}
	for i, number := range segments {
		if i == 0 || number != segments[i-1]+1 {
			c.first = number
		}
	}
	return c.write(fs, dir)
}

// former returns the checkpoint of a store of format 3, if it is one.
func former(fs vfs.FS, dir string) (c checkpoint, ok bool, err error) {
	text, err := guardfs.ReadWhole(fs, fs.PathJoin(dir, File))
	if err != nil {
		return c, false, nil
	}
	if _, err := fmt.Sscanf(text, formerLine, &c.first, &c.last, &c.manifest, &c.end); err != nil ||
		text != checked(fmt.Sprintf(formerLine, c.first, c.last, c.manifest, c.end)) {
		return c, false, nil
	}
	name, number, _, err := manifestNow(fs, dir)
	if err == nil && number == c.manifest && name != "" {
		c.sum, err = manifestSum(fs, fs.PathJoin(dir, name), c.end)
	}
	return c, err == nil, err
}

// checkBegun refuses a segment that is shorter than it was.
func (c checkpoint) checkBegun(fs vfs.FS, dir string) error {
	if c.begun < c.first {
		return nil
	}
	name := segmentName(c.begun)
	info, err := fs.Stat(fs.PathJoin(dir, name))
	if err == nil && info.Size() < c.size {
		err = fmt.Errorf("its file %s has been cut: it is %d bytes long, and had %d", name, info.Size(), c.size)
	}
	return err
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
	if len(all) == 0 && c.last == 0 && c.begun == 0 { // nothing was written yet
		return nil, nil
	}
	next := c.first
	for _, number := range all {
		if number != next {
			break
		}
		next++
	}
	if there := next - c.first; there < uint64(len(all)) || there == 0 || next <= max(c.last, c.begun) {
		return nil, fmt.Errorf("its file %s is missing, which has commits that may be nowhere else", segmentName(next))
	}
	return all, nil
}
