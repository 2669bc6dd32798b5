package wal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
)

const segmentSuffix = ".journal"

// Spare is the name of a file that holds nothing: a segment that was released, to be used again.
const Spare = "spare" + segmentSuffix

func segmentName(number uint64) string { return fmt.Sprintf("%06d%s", number, segmentSuffix) }

// segmentNumber returns the number of the segment in a file.
func segmentNumber(name string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false
	}
	if _, err := fmt.Sscanf(digits, "%d", &number); err != nil || segmentName(number) != name {
		return 0, false
	}
	return number, true
}

// segmentsIn returns the segments of a directory, in order.
func segmentsIn(fs vfs.FS, dir string) (segments []uint64, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if n, ok := segmentNumber(name); ok {
			segments = append(segments, n)
		}
	}
	slices.Sort(segments)
	return segments, nil
}

// segment is the one that is written to.
type segment struct {
	vfs.File
	number uint64
	offset int64 // where the next record goes
	synced int64 // up to where it is on disk
	size   int64 // of the file
	filled int64 // up to where that takes space on the disk
	named  int64 // how large it is as the checkpoint says

	syncing sync.Mutex // while the disk is at it
}

// createSegment begins a segment, in the spare file if there is one. Its name is on disk before
// anything is written: otherwise a power failure could leave the file under its old name.
func createSegment(fs vfs.FS, dir string, number uint64) (*segment, error) {
	name, spare := fs.PathJoin(dir, segmentName(number)), fs.PathJoin(dir, Spare)
	s := &segment{number: number}
	info, err := fs.Stat(spare)
	switch {
	case err == nil:
		s.size, s.filled = info.Size(), info.Size()
		if err = fs.Rename(spare, name); err == nil {
			s.File, err = fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		}
	case errors.Is(err, os.ErrNotExist):
		s.File, err = fs.Create(name, vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return nil, err
	}
	return s, guardfs.SyncDir(fs, dir)
}

func (s *segment) write(records []byte) error {
	_, err := s.WriteAt(records, s.offset)
	s.offset += int64(len(records))
	s.filled = max(s.filled, s.offset)
	s.size = max(s.size, s.offset)
	return err
}

// firstSize is how long the file of a segment is at first, if that is new.
const firstSize = 1 << 20

// grow makes the file longer, unless it has room: to four times what it was, up to what a segment may have. That takes no space on disk.
func (s *segment) grow(largest int64) error {
	size := max(s.size, min(firstSize, largest))
	for size < s.offset || size == s.offset && size < largest {
		size = min(4*size, max(largest, s.offset))
	}
	if size == s.size {
		return nil
	}
	_, err := s.WriteAt(zeros[:1], size-1)
	s.size = size
	return err
}

var zeros [1 << 20]byte

// extend fills n bytes more of the file with zeros, up to 1 MiB, if what was written has come to where it takes space.
func (s *segment) extend(n int64) error {
	if s.offset < s.filled {
		return nil
	}
	n = min(n, int64(len(zeros)))
	_, err := s.WriteAt(zeros[:n], s.filled)
	s.filled += n
	s.size = max(s.size, s.filled)
	return err
}

// finish ends the segment with the record that says so, on disk. What is before it is synced first, so
// that the record tells of all of it: what has changed later is damage then, and not taken for what
// a crash has torn.
func (s *segment) finish() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if s.synced < s.offset {
		if err := s.SyncData(); err != nil {
			return err
		}
	}
	if err := s.write(appendRecord(nil, s.number, s.offset, nil)); err != nil {
		return err
	}
	return errors.Join(s.SyncData(), s.Close())
}

// discard gives a segment up: its file becomes the spare one, or is removed if a large transaction has
// made it larger than segments are. If that fails it is given up all the same (see
// checkpoint.segments).
func discard(fs vfs.FS, dir string, number uint64, largest int64) error {
	name := fs.PathJoin(dir, segmentName(number))
	if info, err := fs.Stat(name); err != nil || info.Size() > largest {
		_ = fs.Remove(name)
		return nil
	}
	return fs.Rename(name, fs.PathJoin(dir, Spare))
}
