package embedded

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
)

// backlog is what has been committed, and appended to the write-ahead log, and is not in Pebble's memtable yet.
// Mostly nobody looks for it there, as what queues read is in the cache. So Pebble gets the commits of
// a while at once, sorted, in a goroutine of its own, while others commit. A caller that needs Pebble to
// have everything has it applied: for a snapshot, or to begin a new segment of the log.
//
// What is set and then cleared while it is here, Pebble never gets: nobody has a snapshot with it, as
// that would have had it applied. Items of a short queue get no further than the log.
type backlog struct {
	pebble *pebble.DB
	due    chan struct{} // there is a part to be applied

	mu         sync.Mutex  // after applying; see package cache for the order of locks
	operations []operation // in the order of commits
	first      uint64      // the number of the first of them
	bytes      int         // of those that were not cancelled

	applying sync.Mutex      // after the store's lock
	idle     []operation     // memory for operations
	ranges   int             // that were removed since a flush was begun for them
	removed  bool            // something was removed since settle has begun a flush
	flushed  <-chan struct{} // closed when that has ended
	closed   bool
}

// operation is a write. Its slices are not changed.
type operation struct {
	kind   operationKind
	key    []byte // or where a range begins
	value  []byte // or where it ends
	number uint64
}

type operationKind uint8

const (
	cancelled operationKind = iota
	set
	remove
	removeRange
)

const operationSize = 64 // bytes that one takes beside its key and value

func (o operation) size() int { return len(o.key) + len(o.value) + operationSize }

const (
	// With more bytes than a part, the goroutine applies the backlog. With more than the most it
	// does not keep up: the commit applies all, and others wait.
	backlogPart = 1 << 20
	mostBacklog = 2 << 20

	// batchSize is how much Pebble gets at once, so that others that have something to do
	// meanwhile need not wait for long.
	batchSize = 16 << 10

	// mostOperations bounds the memory of those that were cancelled.
	mostOperations = 32 << 10
)

func newBacklog(db *pebble.DB) *backlog {
	none := make(chan struct{})
	close(none)
	return &backlog{pebble: db, due: make(chan struct{}, 1), first: 1, flushed: none}
}

// Set implements cache.Backlog. As for the others, the lock is held, and the store's.
func (l *backlog) Set(key, value []byte) (number uint64) {
	return l.add(operation{kind: set, key: key, value: value})
}

// Remove implements cache.Backlog.
func (l *backlog) Remove(key []byte) { l.add(operation{kind: remove, key: key}) }

// RemoveRange implements cache.Backlog.
func (l *backlog) RemoveRange(r kv.Range) {
	l.add(operation{kind: removeRange, key: r.Begin, value: r.End})
}

// add appends a write and returns its number.
func (l *backlog) add(o operation) uint64 {
	o.number = l.first + uint64(len(l.operations))
	l.operations = append(l.operations, o)
	l.bytes += o.size()
	return o.number
}

// Cancel implements cache.Backlog.
func (l *backlog) Cancel(number uint64) bool {
	if number < l.first {
		return false
	}
	o := &l.operations[number-l.first]
	l.bytes -= o.size()
	*o = operation{}
	return true
}

// wake has a part applied, if there is one, and tells whether there is more than should
// be. The lock is held.
func (l *backlog) wake() (behind bool) {
	size, n := l.bytes, len(l.operations)
	if size > backlogPart || n > mostOperations {
		select {
		case l.due <- struct{}{}:
		default:
		}
	}
	return size > mostBacklog || n > 4*mostOperations
}

// drain applies all that was added.
func (l *backlog) drain() error {
	l.applying.Lock()
	defer l.applying.Unlock()
	if l.closed {
		return nil
	}
	operations, size := l.take()
	if size == 0 {
		return nil
	}
	b := l.pebble.NewBatchWithSize(min(size, 2*batchSize))
	for _, o := range sorted(operations) {
		o.write(b)
		switch o.kind {
		case removeRange:
			l.ranges++
			l.removed = true
		case remove:
			l.removed = true
		}
		if b.Len() < batchSize {
			continue
		}
		if err := l.pebble.Apply(b, pebble.NoSync); err != nil {
			return err
		}
		b.Reset()
		runtime.Gosched()
	}
	if cap(operations) <= 2*mostOperations {
		clear(operations)
		l.idle = operations[:0]
	}
	if err := l.pebble.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	return errors.Join(l.flushRanges(), b.Close())
}

// applyLong applies all that was added, and then a batch that was not, as it is worth no place here.
func (l *backlog) applyLong(b *pebble.Batch) error {
	if err := l.drain(); err != nil {
		return err
	}
	l.applying.Lock()
	defer l.applying.Unlock()
	l.removed = true // perhaps
	return l.pebble.Apply(b, pebble.NoSync)
}

// mostRanges is how many removed ranges may be in the memtable: the first read after another one
// sorts and cuts all of them, which takes a millisecond for 3,000.
const mostRanges = 256

// flushRanges begins a flush if there are too many, unless the last one is under way: it takes a
// sync, and Pebble takes no writes while too many wait for that.
func (l *backlog) flushRanges() (err error) {
	if l.ranges < mostRanges {
		return nil
	}
	select {
	case <-l.flushed:
		l.ranges = 0
		l.flushed, err = l.pebble.AsyncFlush()
	default:
	}
	return err
}

// settle applies all that was added, and begins a flush if something was removed: compactions give back
// its space, and know of it only when that is in a table.
func (l *backlog) settle() error {
	if err := l.drain(); err != nil {
		return err
	}
	l.applying.Lock()
	defer l.applying.Unlock()
	if l.closed || !l.removed {
		return nil
	}
	l.removed = false
	_, err := l.pebble.AsyncFlush()
	return err
}

// sorted returns the operations that were not cancelled, in the order of their keys, and for one key,
// of commits; if a range is removed, all in that of commits. It uses their memory. Pebble inserts keys
// that come in order without a search, and reads a memtable that was made so in half the time.
func sorted(operations []operation) []operation {
	operations = slices.DeleteFunc(operations, func(o operation) bool { return o.kind == cancelled })
	if !slices.ContainsFunc(operations, func(o operation) bool { return o.kind == removeRange }) {
		slices.SortFunc(operations, func(a, b operation) int {
			return cmp.Or(bytes.Compare(a.key, b.key), cmp.Compare(a.number, b.number))
		})
	}
	return operations
}

// write adds the operation to a batch, which has errors only if it is indexed.
func (o operation) write(b *pebble.Batch) {
	switch o.kind {
	case set:
		_ = b.Set(o.key, o.value, nil)
	case remove:
		_ = b.Delete(o.key, nil)
	case removeRange:
		begin := o.key
		if len(begin) == 0 {
			begin = leastKey
		}
		_ = b.DeleteRange(begin, o.value, nil)
	}
}

// leastKey stands for the empty key where a cleared range begins. Pebble 2.1.7 can't
// tell an empty beginning from none everywhere: in a compaction, with its invariants
// on, such a tombstone has hidden another one, and what that had cleared came back.
var leastKey = []byte{0}

// close has nothing applied any more, when what is under way has been: a transaction that
// begins while the store is closed may still drain. What is left is in the log.
func (l *backlog) close() {
	l.applying.Lock()
	defer l.applying.Unlock()
	l.closed = true
}

// take returns what was added, and how many bytes of it were not cancelled.
func (l *backlog) take() (operations []operation, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	operations, size = l.operations, l.bytes
	l.first += uint64(len(operations))
	l.operations, l.bytes, l.idle = l.idle, 0, nil
	return operations, size
}

// restTime is how long the cache has what nobody asks for. To read it again takes 20 to 50 µs.
const restTime = time.Minute

// applyBacklog applies parts of the backlog as they come, until ctx ends. What is left
// then is in the log.
func (db *DB) applyBacklog(ctx context.Context) {
	settle := time.NewTicker(reclaimTime)
	defer settle.Stop()
	rest := time.NewTicker(restTime)
	defer rest.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-db.backlog.due:
			runtime.Gosched() // to another processor: this one is the committer's
			db.catchUp()
		case <-settle.C:
			if err := guardfs.Run(db.settle); err != nil {
				db.guard.Fail(err)
			}
		case <-rest.C:
			db.cache.Rest()
			db.restCounters()
		}
	}
}

// catchUp has Pebble hold all that was committed, or the store has failed. If the store's
// lock is not held, others may commit meanwhile.
func (db *DB) catchUp() {
	if err := guardfs.Run(db.backlog.drain); err != nil {
		db.guard.Fail(err)
	}
}
