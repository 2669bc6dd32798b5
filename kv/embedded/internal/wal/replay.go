package wal

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Replay calls apply with the batches that were in the log when it was opened, in order. A crash may have
// torn the last segment, unless that is known to be ended: it ends where its records do, and is
// finished there, on disk, before any of it is applied. What is damaged otherwise is an error.
func (l *Log) Replay(apply func(batch []byte) error) error {
	for i, n := range l.ended {
		last := i == len(l.ended)-1 && n > l.checkpoint.last
		least := int64(0) // up to where it has records
		if n == l.checkpoint.begun {
			least = l.checkpoint.records
		}
		batches, err := recoverSegment(l.fs, l.dir, n, last, least)
		if err != nil {
			return err
		}
		for _, batch := range batches {
			if err := apply(batch); err != nil {
				return err
			}
		}
	}
	return nil
}

// recoverSegment returns the batches of a segment, whose records end at least there. The last one may be torn, and is finished.
func recoverSegment(fs vfs.FS, dir string, number uint64, last bool, least int64) (batches [][]byte, err error) {
	name := fs.PathJoin(dir, segmentName(number))
	data, r, err := readSegment(fs, name, number)
	switch {
	case err != nil:
		return nil, err
	case r.end < least:
		return nil, fmt.Errorf("%s is damaged at byte %d: it had records up to byte %d", name, r.end, least)
	case !last && r.finished:
		return r.batches, nil
	case !last:
		return nil, fmt.Errorf("%s is damaged at byte %d: it had been ended, and what is behind is missing", name, r.end)
	case !r.finished && lost(number, data, r.end):
		return nil, fmt.Errorf("%s is damaged at byte %d: what was on disk there is not what was written", name, r.end)
	}
	return r.batches, finishSegment(fs, name, number, data[:r.end], r.synced)
}

// firstRead is how much of a segment is read at first. One that is empty, as the only one often is, may
// have the file of a long one.
const firstRead = 64 << 10

// readSegment reads a segment: the whole file, unless it ends before.
func readSegment(fs vfs.FS, name string, number uint64) (data []byte, r records, err error) {
	f, err := fs.Open(name)
	if err != nil {
		return nil, r, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, r, err
	}
	size := info.Size()
	for n := min(firstRead, size); ; n = min(8*n, size) {
		data = make([]byte, n)
		if _, err := io.ReadFull(io.NewSectionReader(f, 0, n), data); err != nil {
			return nil, r, err
		}
		if r = readRecords(number, data); r.finished || n == size {
			return data, r, nil
		}
	}
}

// records is what a segment holds.
type records struct {
	batches  [][]byte
	end      int64 // where they end
	synced   int64 // up to where they were on disk, as they say
	finished bool  // there is the record that says so
}

func readRecords(number uint64, data []byte) (all records) {
	for {
		r, ok := readRecord(number, data[all.end:])
		if !ok {
			return all
		}
		all.synced = max(all.synced, min(r.synced, all.end))
		if len(r.batch) == 0 {
			all.finished = true
			return all
		}
		all.batches = append(all.batches, r.batch)
		all.end += r.size
	}
}

// lost tells whether a segment, whose records end, had more that was on disk: a later record says so.
// A crash tears only what was not on disk.
func lost(number uint64, data []byte, end int64) bool {
	for at := end + recordAlign; at < int64(len(data)); at += recordAlign {
		if r, ok := readRecord(number, data[at:]); ok && r.synced > end {
			return true
		}
	}
	return false
}

// finishSegment writes the end of a segment that has none, or one that may not be on disk. What may not
// be there of its records is written again before: when a write fails, the system goes on to
// show what was to be written, and takes it for written. So it is here, no sync brings it to
// disk, and the next crash would leave a gap.
func finishSegment(fs vfs.FS, name string, number uint64, records []byte, synced int64) error {
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	s := segment{File: f, number: number, offset: synced}
	if err := s.write(records[synced:]); err != nil {
		return errors.Join(err, f.Close())
	}
	return s.finish()
}
