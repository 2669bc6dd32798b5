package embedded

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
)

// backlog is what has been committed, and appended to the journal, and is not in Pebble's
// memtable yet. Mostly nobody looks for it there, as what queues read is near. So Pebble
// gets the commits of a while at once: what it does once a batch takes as long as to
// insert an item. And it gets them sorted (see sorted), in a goroutine of its own, while
// others commit. Who needs Pebble to have everything has it applied: for a snapshot, or to
// begin a new segment of the journal.
//
// What is set and then cleared while it is here, Pebble never gets: nobody has a snapshot
// with it, as that would have had it applied. Items of a short queue get no further than
// the journal.
//
// With Interval, a lone caller fills a queue 1.2 times as fast, and 16 callers 1.08 times.
// Items of a priority queue have their places all over the memtable, and take longer to
// insert: 16 callers fill one 1.12 times as fast, and transfer 1.2 times as many. That
// items taken soon are never inserted, or removed, is 1.15 times as many transfers with 16
// callers and 1.3 times with 64; through a priority queue 1.09 and 1.3 times.
type backlog struct {
	pebble *pebble.DB
	due    chan struct{} // there is a part to be applied

	mu         sync.Mutex  // after near's, and after applying
	operations []operation // in the order of commits
	first      uint64      // the number of the first of them
	bytes      int         // of those that were not cancelled

	applying sync.Mutex      // after the store's lock
	ranges   int             // that were removed since a flush was begun for them
	removed  bool            // something was removed since settle has begun a flush
	flushed  <-chan struct{} // closed when that has ended
	closed   bool
}

// operation is a write. Its slices are not changed.
type operation struct {
	kind  operationKind
	key   []byte // or where a range begins
	value []byte // or where it ends
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
	// With more bytes than a part, the goroutine applies the backlog. It begins on the processor
	// of who commits, and others wait until another one wakes up. With more than the most it
	// does not keep up: the commit applies all, and others wait. Against a quarter of both and of
	// the operations, and with Interval, 16 callers fill a priority queue 1.05 times as fast, and
	// a lone caller and 64 transfer 1.05 and 1.08 times as many items through one; none does less.
	backlogPart = 1 << 20
	mostBacklog = 2 << 20

	// batchSize is how much Pebble gets at once, so that others who have something to do
	// meanwhile need not wait for long. With twice as much, 16 callers and 64 fill a priority
	// queue 0.98 times as fast.
	batchSize = 16 << 10

	// mostOperations bounds the memory of those that were cancelled.
	mostOperations = 32 << 10
)

func newBacklog(db *pebble.DB) *backlog {
	none := make(chan struct{})
	close(none)
	return &backlog{pebble: db, due: make(chan struct{}, 1), first: 1, flushed: none}
}

// add appends a write and returns its number. The lock is held, and the store's.
func (l *backlog) add(kind operationKind, key, value []byte) uint64 {
	o := operation{kind, key, value}
	if len(l.operations) == cap(l.operations) {
		l.compact()
	}
	l.operations = append(l.operations, o)
	l.bytes += o.size()
	return l.first + uint64(len(l.operations)) - 1
}

// compact drops the first operations, if they were cancelled and are many.
func (l *backlog) compact() {
	n := 0
	for n < len(l.operations) && l.operations[n].kind == cancelled {
		n++
	}
	if n < len(l.operations)/2 {
		return
	}
	rest := copy(l.operations, l.operations[n:])
	clear(l.operations[rest:])
	l.operations, l.first = l.operations[:rest], l.first+uint64(n)
}

// cancel takes a write back and tells whether it was still there. Nothing must have
// been at its key before. The lock is held.
func (l *backlog) cancel(number uint64) bool {
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
		if err := o.write(b); err != nil {
			return err
		}
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
	if err := l.pebble.Apply(b, pebble.NoSync); err != nil {
		return err
	}
	if err := l.flushRanges(); err != nil {
		return err
	}
	return b.Close()
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
// sorts and cuts all of them. When a queue had been cleared 3,000 times, to do so again and read what
// is far took 1.0 to 1.3 ms, now 0.1.
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
// its space, and know of it only when that is in a table. A removal takes 100 bytes, and that of a whole
// queue no more: when a queue was drained of large items, or cleared, and nothing else was written, all
// of its space stayed in use until the store was opened again.
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
		slices.SortStableFunc(operations, func(a, b operation) int { return bytes.Compare(a.key, b.key) })
	}
	return operations
}

func (o operation) write(b *pebble.Batch) error {
	switch o.kind {
	case set:
		return b.Set(o.key, o.value, nil)
	case remove:
		return b.Delete(o.key, nil)
	case removeRange:
		return b.DeleteRange(tombstoneBegin(o.key), o.value, nil)
	}
	return nil
}

// leastKey stands for the empty key where a cleared range begins. Pebble 2.1.7 can't
// tell an empty beginning from none everywhere: in a compaction, with its invariants
// on, such a tombstone has hidden another one, and what that had cleared came back.
var leastKey = []byte{0}

// tombstoneBegin returns where Pebble is to begin to clear, for where a cleared range
// begins.
func tombstoneBegin(begin []byte) []byte {
	if len(begin) == 0 {
		return leastKey
	}
	return begin
}

// close has nothing applied any more, when what is under way has been: a transaction that
// begins while the store is closed may still drain. What is left is in the journal.
func (l *backlog) close() {
	l.applying.Lock()
	defer l.applying.Unlock()
	l.closed = true
}

// take returns what was added, unless all of it was cancelled.
func (l *backlog) take() (operations []operation, size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	operations, size = l.operations, l.bytes
	l.first += uint64(len(operations))
	if size == 0 {
		l.operations = operations[:0]
		return nil, 0
	}
	l.operations, l.bytes = nil, 0
	return operations, size
}

// applyBacklog applies parts of the backlog as they come, until ctx ends. What is left
// then is in the journal.
func (db *DB) applyBacklog(ctx context.Context) {
	settle := time.NewTicker(reclaimTime)
	defer settle.Stop()
	for ticks := 1; ; {
		select {
		case <-ctx.Done():
			return
		case <-db.backlog.due:
			runtime.Gosched() // to another processor: this one is of who has committed
			db.catchUp()
		case <-settle.C:
			if err := guardfs.Run(func() error { return db.settle(ticks) }); err != nil {
				db.guard.Fail(err)
			}
			ticks++
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
