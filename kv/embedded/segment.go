package embedded

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	segmentSuffix = ".journal"
	spareSegment  = "spare" + segmentSuffix // one that was given up, to be used again
)

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

func isSegment(name string) bool { return strings.HasSuffix(name, segmentSuffix) }

// segment is the file of a journal that is written to, and what is known of the others.
type segment struct {
	sync.Mutex
	vfs.File // nil if there is none
	number   uint64
	offset   int64 // where the next record goes
	synced   int64
	size     int64 // of the file

	inUse sync.Mutex // while the disk is at it

	closed []uint64 // segments before this one that are still needed
}

// create begins a segment, in a file that was used before if there is one. Its name is on
// disk before anything is written: otherwise a power failure could leave the file under
// its old name.
func (s *segment) create(fs vfs.FS, dir string, number uint64) (err error) {
	name, spare := fs.PathJoin(dir, segmentName(number)), fs.PathJoin(dir, spareSegment)
	s.number, s.offset, s.synced, s.size = number, 0, 0, 0
	info, err := fs.Stat(spare)
	switch {
	case err == nil:
		s.size = info.Size()
		if err = fs.Rename(spare, name); err == nil {
			s.File, err = fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
		}
	case errors.Is(err, os.ErrNotExist):
		s.File, err = fs.Create(name, vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return err
	}
	return syncDir(fs, dir)
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (s *segment) write(records []byte) error {
	_, err := s.WriteAt(records, s.offset)
	s.offset += int64(len(records))
	s.size = max(s.size, s.offset)
	return err
}

// zeroChunk is how much is written ahead at once.
const zeroChunk = 1 << 20

var zeros [zeroChunk]byte

// zeroAhead makes the file longer when what was written has come to its end, by a part of
// what it may grow to.
func (s *segment) zeroAhead(most int64) error {
	if s.offset < s.size {
		return nil
	}
	n := min(zeroChunk, most/4)
	_, err := s.WriteAt(zeros[:n], s.size)
	s.size += n
	return err
}

// syncUnlocked syncs the file, and gives the lock back for as long as that takes.
func (s *segment) syncUnlocked() error {
	s.inUse.Lock()
	f := s.File
	s.Unlock()
	defer s.Lock()
	defer s.inUse.Unlock()
	return f.SyncData()
}

// finish ends the segment, if there is one, with the record that says so, on disk. What is before
// it is synced first, so that the record tells of all of it: what has changed later is damage then,
// and not taken for what a crash has torn.
func (s *segment) finish() error {
	if s.File == nil {
		return nil
	}
	s.inUse.Lock()
	defer s.inUse.Unlock()
	if s.synced < s.offset {
		if err := s.SyncData(); err != nil {
			return err
		}
		s.synced = s.offset
	}
	if err := s.write(appendRecord(nil, s.number, s.synced, nil)); err != nil {
		return err
	}
	if err := s.SyncData(); err != nil {
		return err
	}
	s.closed = append(s.closed, s.number)
	err := s.File.Close()
	s.File = nil
	return err
}

// discard gives a segment up: its file is kept to be used again, or removed if there is
// one already, or a large transaction has made it larger than segments are. If that fails
// it is given up all the same (see segmentsIn).
func discard(fs vfs.FS, dir string, number uint64, most int64) error {
	name, spare := fs.PathJoin(dir, segmentName(number)), fs.PathJoin(dir, spareSegment)
	_, err := fs.Stat(spare)
	info, failed := fs.Stat(name)
	if err == nil || failed != nil || info.Size() > 2*most {
		_ = fs.Remove(name)
		return nil
	}
	return fs.Rename(name, spare)
}
