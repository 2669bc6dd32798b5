package embedded

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// journal is the store's write-ahead log, in place of Pebble's. A commit is appended to
// it in memory, under the store's lock and before it is applied. flush writes what was
// appended, and has it synced, in the goroutine of one of those who wait for it.
//
// It makes two things cheaper than a log of Pebble's, which hands each write to a
// goroutine of its own and makes its files grow as it goes:
//
//   - a lone caller with Interval need not switch to another goroutine and back;
//   - a sync of what overwrites a part of a file need not have the file system's own
//     journal written, and took 0.65 of the time. So segments are used again, and a new
//     one has zeros written ahead (see zeroAhead).
//
// It is a row of segments, each a file of records (see record.go). What keeps the journal
// and Pebble's tables together right:
//
//   - The journal on disk is never behind the tables: a flush writes no table before
//     what is in the journal has been synced (TableCreated, in open.go). So to apply all
//     records that are there, from any of them on that is not behind the tables, leads to
//     the state after the last one.
//   - A segment is given up only when all that is in it is in tables (see DB.turn), and
//     before those behind it. So the segments that are needed are a row without a gap, of
//     which the store notes where it begins (see needed).
//   - A segment begins only when the one before it is on disk, with a record behind which
//     there is nothing.
type journal struct {
	fs     vfs.FS
	dir    string
	zeroed bool  // new segments have zeros written ahead
	most   int64 // bytes of a segment, about

	mu      sync.Mutex // after file.Mutex
	chunks  []chunk    // appended, not yet written; the last of the segment that is appended to
	version uint64     // of the last commit that was appended
	room    int64      // what still goes into that segment
	synced  position   // up to where segments are on disk

	file   segment
	needed needed  // after file.Mutex
	idle   []chunk // memory for chunks, with that of its first one; while the file is locked
}

// position is a place in a segment.
type position struct {
	segment uint64
	offset  int64
}

// chunk is records for one segment.
type chunk struct {
	segment uint64
	records []byte
}

// perOperation is about what an entry of a memtable takes beside its key and value.
const perOperation = 64

// openJournal returns the journal of a directory, of which nothing is written until
// something is appended. memTable is the size in bytes of the memtables: a segment holds no
// more than fits in one.
func openJournal(fs vfs.FS, dir string, memTable int64, zeroed bool) (*journal, error) {
	needed, err := readNeeded(fs, dir)
	if err != nil {
		return nil, err
	}
	segments, err := needed.segments(fs, dir)
	if err != nil {
		return nil, err
	}
	j := &journal{fs: fs, dir: dir, zeroed: zeroed, most: memTable - memTable/8, needed: needed}
	j.room = j.most
	j.file.closed = segments
	first := needed.first
	if n := len(segments); n > 0 {
		first = segments[n-1] + 1
	} else if err := fs.Remove(fs.PathJoin(dir, spareSegment)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err // it may hold records of a number that comes again
	}
	j.chunks = []chunk{{segment: first}}
	return j, nil
}

// firstSegment returns the number of a new store's first segment. The checks of records begin with
// that of their segment, and a segment's file mostly has what others have had, so also what clients
// have put there as values. If the number could be guessed, a value could have what would be a
// record after a crash.
func firstSegment() uint64 { return 1 + rand.Uint64N(1<<48) }

// append adds a commit: the representation of its batch, with so many operations, or
// nothing, if there are no writes. It returns whether a new segment should begin then.
func (j *journal) append(batch []byte, operations int, version uint64) (full bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.version = version
	if operations == 0 {
		return j.room <= 0
	}
	last := &j.chunks[len(j.chunks)-1]
	var synced int64
	if j.synced.segment == last.segment {
		synced = j.synced.offset
	}
	last.records = appendRecord(last.records, last.segment, synced, batch)
	j.room -= int64(len(batch)) + int64(operations)*perOperation
	return j.room <= 0
}

// turn begins a new segment, and returns the number of the one before it.
func (j *journal) turn() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.chunks[len(j.chunks)-1].segment
	j.chunks = append(j.chunks, chunk{segment: n + 1})
	j.room = j.most
	return n
}

// buffered returns how many bytes were appended and not written.
func (j *journal) buffered() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.chunks {
		n += len(c.records)
	}
	return n
}

// flush writes what was appended, and with sync set has it on disk. It returns up to
// which version that is.
func (j *journal) flush(sync bool) (uint64, error) {
	j.file.Lock()
	version, err := j.write()
	if err == nil && sync {
		err = j.sync()
	}
	j.file.Unlock()
	return version, err
}

// write writes what was appended. The file is locked.
func (j *journal) write() (uint64, error) {
	chunks, version := j.take()
	defer j.giveBack(chunks)
	for _, c := range chunks {
		if len(c.records) == 0 {
			continue
		}
		if err := j.begin(c.segment); err != nil {
			return 0, err
		}
		if err := j.file.write(c.records); err != nil {
			return 0, err
		}
	}
	return version, nil
}

// take returns what is to be written, and leaves an empty chunk to append to. The file is locked.
func (j *journal) take() ([]chunk, uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	chunks := j.chunks
	next := chunk{segment: chunks[len(chunks)-1].segment}
	if len(j.idle) > 0 {
		next.records = j.idle[0].records[:0]
	}
	j.chunks, j.idle = append(j.idle[:0], next), nil
	return chunks, j.version
}

// maxIdle bounds the memory that is kept for what will be appended.
const maxIdle = 4 << 20

// giveBack keeps the memory of chunks that were written. The file is locked.
func (j *journal) giveBack(chunks []chunk) {
	if len(chunks) == 1 && cap(chunks[0].records) <= maxIdle {
		j.idle = chunks
	}
}

// sync has what was written on disk. The file is locked, but not while the disk is at it:
// with Interval others write meanwhile.
func (j *journal) sync() error {
	if j.file.File == nil || j.file.synced == j.file.offset {
		return nil
	}
	if j.zeroed {
		if err := j.file.zeroAhead(j.most); err != nil {
			return err
		}
	}
	at := position{j.file.number, j.file.offset}
	if err := j.file.syncUnlocked(); err != nil {
		return err
	}
	if j.file.number != at.segment || j.file.synced >= at.offset {
		return nil
	}
	j.file.synced = at.offset
	j.mu.Lock()
	defer j.mu.Unlock()
	j.synced = at
	return nil
}

// begin makes the file of a segment the one that is written to.
func (j *journal) begin(number uint64) error {
	if j.file.File != nil && j.file.number == number {
		return nil
	}
	if err := j.file.finish(); err != nil {
		return err
	}
	return j.file.create(j.fs, j.dir, number)
}

// release gives up the segments up to a number: all that is in them is in tables. It leaves
// one, from whose number that of the next is known: if a number came again, records that a used
// file still has of it would count.
func (j *journal) release(number uint64) error {
	listed, err := j.listed()
	if err != nil {
		return err
	}
	j.file.Lock()
	defer j.file.Unlock()
	if _, err := j.write(); err != nil {
		return err
	}
	if j.file.File != nil && j.file.number <= number {
		if err := j.file.finish(); err != nil {
			return err
		}
	}
	if j.file.File == nil {
		if err := j.begin(j.latest()); err != nil {
			return err
		}
	}
	rest := slices.DeleteFunc(slices.Clone(j.file.closed), func(n uint64) bool { return n <= number })
	gone := j.file.closed[:len(j.file.closed)-len(rest)]
	if len(gone) == 0 { // somebody was faster
		return nil
	}
	listed.first = append(rest, j.file.number)[0]
	listed.last = max(j.needed.last, listed.first-1)
	if err := j.note(listed); err != nil {
		return err
	}
	for _, n := range gone {
		if err := discard(j.fs, j.dir, n, j.most); err != nil {
			return err
		}
	}
	j.file.closed = rest
	return nil
}

// listed returns what is needed, with as much of the manifest as there is by now.
func (j *journal) listed() (needed, error) {
	j.file.Lock()
	n := j.needed
	j.file.Unlock()
	return n, n.list(j.fs, j.dir)
}

// note has on disk what is needed. The file is locked.
func (j *journal) note(n needed) error {
	j.needed = n
	return n.write(j.fs, j.dir)
}

// latest returns the number of the segment that is appended to.
func (j *journal) latest() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.chunks[len(j.chunks)-1].segment
}

// close writes what was appended, and ends the journal.
func (j *journal) close() error {
	j.file.Lock()
	defer j.file.Unlock()
	if _, err := j.write(); err != nil {
		return err
	}
	if err := j.file.finish(); err != nil {
		return err
	}
	n := j.needed
	if closed := j.file.closed; len(closed) > 0 && closed[len(closed)-1] > n.last {
		n.last = closed[len(closed)-1]
		return j.note(n)
	}
	return nil
}
