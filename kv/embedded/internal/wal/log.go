package wal

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
)

// Durability tells when a commit is durable: when Commit returns.
type Durability int

const (
	OnDisk   Durability = iota // it is on disk
	Written                    // the operating system has it
	Appended                   // it is in memory, of which Commit does not keep more than 64 KiB
)

// Options say how a log is kept.
type Options struct {
	// SegmentSize is about how many bytes a segment has, with what its batches take in a memtable: one
	// memtable should have room for all of it.
	SegmentSize int64

	// Durability tells when a commit is durable.
	Durability Durability

	// Version is that of what is in the store when the log is opened.
	Version uint64
}

// Log is an open log. See the documentation of the package.
type Log struct {
	fs  *guardfs.FS
	dir string
	o   Options

	group *group

	writing    sync.Mutex // of the file
	file       *segment   // that is written to, or nil
	ended      []uint64   // segments before it that were not released
	checkpoint checkpoint
	idle       []byte // memory for what will be appended

	appending sync.Mutex // after writing
	chunks    []chunk    // appended and not yet written; the last of the segment that is appended to
	version   uint64     // of the last commit that was appended
	room      int64      // what still goes into that segment
	synced    int64      // up to where that segment is on disk

	written atomic.Uint64 // the version up to which the operating system has all

	syncs syncs
}

// chunk is records for one segment.
type chunk struct {
	segment uint64
	records []byte
}

const (
	// perOperation is about what a write takes in a memtable beside its key and value.
	perOperation = 64

	// maxIdle bounds the memory that is kept for what will be appended.
	maxIdle = 4 << 20

	// maxBuffered is how many bytes Commit leaves in memory.
	maxBuffered = 64 << 10
)

// Open opens the log of a directory that has a checkpoint. An error names what is missing there, or
// damaged. Nothing is written until something is appended, or replayed.
func Open(fs *guardfs.FS, dir string, o Options) (*Log, error) {
	c, err := readCheckpoint(fs, dir)
	if err != nil {
		return nil, err
	}
	segments, err := c.segments(fs, dir)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.checkBegun(fs, dir), c.checkManifest(fs, dir)); err != nil {
		return nil, err
	}
	next := c.first
	if n := len(segments); n > 0 {
		next = segments[n-1] + 1
	}
	l := &Log{
		fs: fs, dir: dir, o: o,
		ended:      segments,
		checkpoint: c,
		chunks:     []chunk{{segment: next}},
		version:    o.Version,
		room:       o.SegmentSize,
	}
	l.group = newGroup(o.Version, func() uint64 { return l.flush(true) }, fs.Err)
	return l, nil
}

// Append adds a commit: a batch of so many operations, or nothing, if there are none. The batch is
// copied.
func (l *Log) Append(batch []byte, operations int, version uint64) {
	l.appending.Lock()
	defer l.appending.Unlock()
	l.version = version
	if operations == 0 {
		return
	}
	last := &l.chunks[len(l.chunks)-1]
	last.records = appendRecord(last.records, last.segment, l.synced, batch)
	l.room -= int64(len(batch)) + int64(operations)*perOperation
}

// Full tells whether the next batch should have a segment of its own.
func (l *Log) Full() bool {
	l.appending.Lock()
	defer l.appending.Unlock()
	return l.room <= 0
}

// Rotate begins a new segment, unless there is an empty one, and returns the number of the one before it.
func (l *Log) Rotate() (last uint64) {
	l.appending.Lock()
	defer l.appending.Unlock()
	n := l.appended()
	if l.room == l.o.SegmentSize {
		return n - 1
	}
	l.chunks = append(l.chunks, chunk{segment: n + 1})
	l.room, l.synced = l.o.SegmentSize, 0
	return n
}

// appended returns the segment that is appended to. The lock for that is held.
func (l *Log) appended() uint64 { return l.chunks[len(l.chunks)-1].segment }

// buffered returns how many bytes were appended and not written.
func (l *Log) buffered() (n int) {
	l.appending.Lock()
	defer l.appending.Unlock()
	for _, c := range l.chunks {
		n += len(c.records)
	}
	return n
}

// Commit returns when all that was appended up to a version is durable, or the log has failed. It is
// for a caller that has appended that version, or has seen it.
func (l *Log) Commit(version uint64) error {
	switch {
	case version <= l.Durable():
	case l.o.Durability == OnDisk:
		l.group.commit(version)
	case l.o.Durability == Written || l.buffered() > maxBuffered:
		l.group.advance(l.flush(false)) // a write takes less than to wait for that of another caller
	}
	return l.fs.Err()
}

// Write returns when the operating system has all that was appended up to a version, where that is not durable, or the log has failed.
func (l *Log) Write(version uint64) error {
	if l.o.Durability != OnDisk {
		return l.Commit(version)
	}
	if l.written.Load() < version {
		l.flush(false)
	}
	return l.fs.Err()
}

// Written returns the version up to which the operating system has all.
func (l *Log) Written() uint64 { return l.written.Load() }

// Durable returns the version up to which commits are.
func (l *Log) Durable() uint64 { return l.group.durable.Load() }

// Wake has all callers that wait see that the file system has failed.
func (l *Log) Wake() { l.group.advance(0) }

// Sync has what was appended on disk.
func (l *Log) Sync() error {
	l.flush(true)
	return l.fs.Err()
}

// flush writes what was appended, and with sync set has it on disk. It returns up to which version that
// is, or 0 if the log has failed.
func (l *Log) flush(sync bool) uint64 {
	l.writing.Lock()
	defer l.writing.Unlock()
	version, err := l.write()
	if err == nil && sync {
		err = l.sync()
	}
	if err != nil {
		l.fs.Fail(err)
	}
	if l.fs.Err() != nil {
		return 0
	}
	return version
}

// write writes what was appended. The file is locked.
func (l *Log) write() (version uint64, err error) {
	chunks, version := l.take()
	for _, c := range chunks {
		if len(c.records) == 0 {
			continue
		}
		if err := l.begin(c.segment); err != nil {
			return 0, err
		}
		if err := l.file.write(c.records); err != nil {
			return 0, err
		}
		if err := l.name(); err != nil {
			return 0, err
		}
	}
	if last := chunks[len(chunks)-1].records; cap(last) <= maxIdle {
		l.idle = last[:0]
	}
	l.written.Store(version)
	return version, nil
}

// name has the checkpoint name the segment that is written to, with what it holds and more room, if it has outgrown what the checkpoint
// tells: what is missing of it later is missed. That takes three syncs once a segment, and up to three times more for one whose file
// is new. The file is locked.
func (l *Log) name() error {
	s := l.file
	if s.offset <= s.named {
		return nil
	}
	if err := s.grow(l.o.SegmentSize); err != nil {
		return err
	}
	at, began := s.offset, time.Now()
	if err := s.SyncData(); err != nil {
		return err
	}
	l.syncs.add(time.Since(began))
	l.onDisk(s, at)
	c := l.checkpoint
	c.last, c.begun, c.size, c.records = max(c.last, s.number-1), s.number, s.size, at
	if err := c.write(l.fs, l.dir); err != nil {
		return err
	}
	l.checkpoint, s.named = c, s.size
	return nil
}

// take returns what is to be written, and leaves an empty chunk to append to. The file is locked.
func (l *Log) take() (chunks []chunk, version uint64) {
	l.appending.Lock()
	defer l.appending.Unlock()
	chunks = l.chunks
	l.chunks = []chunk{{l.appended(), l.idle}}
	l.idle = nil
	return chunks, l.version
}

// sync has what was written on disk. The file is locked, but not while the disk is at it: then others
// write, if not to be on disk is enough for them.
func (l *Log) sync() error {
	s := l.file
	if s == nil || s.synced == s.offset {
		return nil
	}
	if l.o.Durability == OnDisk {
		if err := s.extend(l.o.SegmentSize / 4); err != nil {
			return err
		}
	}
	at := s.offset
	if err := l.syncUnlocked(s); err != nil {
		return err
	}
	l.onDisk(s, at)
	return nil
}

// onDisk takes in up to where a segment is on disk.
func (l *Log) onDisk(s *segment, at int64) {
	s.synced = max(s.synced, at)
	l.appending.Lock()
	defer l.appending.Unlock()
	if s.number == l.appended() {
		l.synced = s.synced
	}
}

func (l *Log) syncUnlocked(s *segment) error {
	s.syncing.Lock()
	l.writing.Unlock()
	defer l.writing.Lock()
	defer s.syncing.Unlock()
	began := time.Now()
	err := s.SyncData()
	l.syncs.add(time.Since(began))
	return err
}

// begin has the file of a segment be the one that is written to.
func (l *Log) begin(number uint64) (err error) {
	if l.file != nil && l.file.number == number {
		return nil
	}
	if err := l.end(); err != nil {
		return err
	}
	l.file, err = createSegment(l.fs, l.dir, number)
	return err
}

// end ends the segment that is written to, if there is one. The file is locked.
func (l *Log) end() error {
	if l.file == nil {
		return nil
	}
	if err := l.file.finish(); err != nil {
		return err
	}
	l.ended = append(l.ended, l.file.number)
	l.file = nil
	return nil
}

// Ended returns the segments that were ended and not released, in order.
func (l *Log) Ended() []uint64 {
	l.writing.Lock()
	defer l.writing.Unlock()
	return slices.Clone(l.ended)
}

// Release gives up the segments up to a number: all that is in them is in tables. It leaves one: of
// that it can be told later that it is missing.
func (l *Log) Release(last uint64) error {
	name, manifest, end, err := manifestNow(l.fs, l.dir)
	if err != nil {
		return err
	}
	var sum uint32
	if name != "" {
		if sum, err = manifestSum(l.fs, l.fs.PathJoin(l.dir, name), end); err != nil {
			return err
		}
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.beginBehind(last); err != nil {
		return err
	}
	gone, _ := slices.BinarySearch(l.ended, last+1)
	if gone == 0 { // another caller was faster
		return nil
	}
	rest := l.ended[gone:]
	first := l.file.number
	if len(rest) > 0 {
		first = rest[0]
	}
	c := l.checkpoint
	c.first, c.last, c.manifest, c.end, c.sum = first, max(c.last, first-1), manifest, end, sum
	if err := c.write(l.fs, l.dir); err != nil {
		return err
	}
	l.checkpoint = c
	for _, n := range l.ended[:gone] {
		if err := discard(l.fs, l.dir, n, 2*l.o.SegmentSize); err != nil {
			return err
		}
	}
	l.ended = rest
	return nil
}

// beginBehind writes what was appended, and has the segment that is written to be behind a number. The
// file is locked.
func (l *Log) beginBehind(last uint64) error {
	if _, err := l.write(); err != nil {
		return err
	}
	if l.file != nil && l.file.number > last {
		return nil
	}
	l.appending.Lock()
	number := l.appended()
	l.appending.Unlock()
	return l.begin(number)
}

// Close writes what was appended, and ends the log.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if _, err := l.write(); err != nil {
		return err
	}
	if err := l.end(); err != nil {
		return err
	}
	c := l.checkpoint
	if n := len(l.ended); n > 0 && l.ended[n-1] > c.last {
		c.last = l.ended[n-1]
		return c.write(l.fs, l.dir)
	}
	return nil
}
