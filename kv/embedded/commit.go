package embedded

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/cache"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/conq-go/conq/kv/internal/retry"
)

// effects is what a transaction is about to do to the store.
type effects struct {
	changes []*overlay.Change // in the order of their keys
	cleared []kv.Range        // hold no key afterwards, but for those of changes
	ranges  []kv.Range        // where others conflict with it, beside the keys of changes
	adds    []*overlay.Change // that need the latest value
	batch   *pebble.Batch     // all of it, as the log has it, but for adds before sum
}

// longValue is the size from which on a value is not kept for the sake of its key, which is in the same memory.
const longValue = 256

// written returns what others conflict with. It keeps no long values: for as long as a transaction is open, that would be all
// that others write.
func (e *effects) written() writes {
	w := writes{Keys: make([][]byte, len(e.changes)), Ranges: e.ranges}
	for i, c := range e.changes {
		if w.Keys[i] = c.Key; len(c.Value) >= longValue {
			w.Keys[i] = bytes.Clone(c.Key)
		}
	}
	return w
}

// effects returns what the transaction's writes do, all but the additions, which need
// the latest value.
func (t *tx) effects() effects {
	e := effects{changes: t.Writer.All(), cleared: t.Writer.Cleared()}
	e.ranges = e.cleared
	if len(t.Conflicts) > 0 {
		e.ranges = normalized(slices.Concat(e.cleared, t.Conflicts))
	}
	e.batch = t.db.pebble.NewBatchWithSize(batchOverhead*(1+t.Writer.Ops()) + t.Writer.Bytes())
	for _, r := range e.cleared {
		operation{kind: removeRange, key: r.Begin, value: r.End}.write(e.batch)
	}
	for _, c := range e.changes {
		o := operation{kind: set, key: c.Key, value: c.Value}
		switch c.Kind {
		case overlay.Clear:
			o.kind = remove
		case overlay.Add:
			e.adds = append(e.adds, c)
			continue
		}
		o.write(e.batch)
	}
	return e
}

// batchOverhead is what an entry of a batch takes beside its key and value, at most.
const batchOverhead = 16

// commit makes the transaction's writes happen, or none of them. It does not
// look at the context any more once they are applied.
func (t *tx) commit() error {
	if t.Bad != nil {
		return t.Bad
	}
	if err := t.db.limits.CheckTransaction(t.Writer.Bytes(), t.Writer.Ops()); err != nil {
		return err
	}
	if err := t.wanted(); err != nil { // that it has ended, or is too old, comes later: see committable
		return err
	}
	commit := t.commitWrites
	if t.Writer.Empty() && len(t.Conflicts) == 0 {
		commit = t.commitRead
	}
	if err := commit(); err != nil {
		return err
	}
	t.end()
	retry.Committed(t.Committed)
	return nil
}

func (t *tx) commitWrites() error {
	if err := t.fits(); err != nil {
		return err
	}
	version, err := t.applyInTurn()
	if err != nil {
		return err
	}
	return t.db.acknowledge(version, t.awaits)
}

// commitRead commits a transaction that has written nothing.
func (t *tx) commitRead() error {
	if len(t.watched) > 0 {
		if err := t.startWatches(); err != nil {
			return err
		}
	}
	return t.acknowledgeRead()
}

func (t *tx) startWatches() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if err := t.committable(t.db.o.Now()); err != nil {
		return err
	}
	t.watchLocked(t.version)
	return nil
}

// watchLocked starts the watches of a transaction that has seen a version, or makes it.
func (t *tx) watchLocked(version uint64) {
	since := t.db.recent.Since(t.version)
	for _, w := range t.watched {
		w.version = version
		t.db.watch(t.ctx, w, since)
	}
	t.watched = nil
}

// acknowledgeRead returns when what the transaction has seen is durable.
func (t *tx) acknowledgeRead() error {
	t.mu.Lock()
	err, version := t.ended, t.version
	t.mu.Unlock()
	if t.noSync {
		version = t.db.seen(normalized(t.reads), version)
	}
	if err == nil && t.db.wal.Commit(version) != nil {
		err = t.db.failure()
	}
	return err
}

// committable returns the error with which the commit must fail, short of a
// conflict. Both locks are held.
func (t *tx) committable(now time.Time) error {
	switch {
	case t.db.closed.Load():
		return kv.ErrClosed
	case t.ended != nil:
		return t.ended
	case t.version != 0 && (t.tooOld(now) || !t.place.Taken()): // the conflict log may not reach back so far
		return kv.ErrTooOld
	}
	return t.wanted()
}

// manyCommits is how many commits since the transaction's version are too many
// to be compared with it while all others wait.
const manyCommits = 64

// applyInTurn is apply, for which long batches wait.
func (t *tx) applyInTurn() (uint64, error) {
	reads := normalized(t.reads)
	if bytes := t.Writer.Bytes(); bytes > backlogPart {
		done, err := t.waitForMemTable(bytes, reads)
		if err != nil {
			return 0, err
		}
		defer done()
	}
	return t.apply(reads)
}

// apply checks for conflicts and applies the transaction's writes, and returns the
// version of the commit. From here on it is visible, and will be counted in db.commits
// until it is acknowledged.
func (t *tx) apply(reads []kv.Range) (uint64, error) {
	e, db := t.effects(), t.db
	t.mu.Lock()
	defer t.mu.Unlock()
	compared, err := t.compare(reads)
	if err != nil {
		return 0, err
	}
	err = t.applyLocked(&e, reads, compared)
	version := db.version
	db.mu.Unlock()
	if err != nil {
		return 0, err
	}
	t.closeSnapshot()
	return version, e.batch.Close()
}

// compare compares reads with all but the latest commits, and returns the version up to which it has,
// with the store's lock, unless there is an error. t.mu is held.
func (t *tx) compare(reads []kv.Range) (compared uint64, err error) {
	db := t.db
	compared = t.needed()
	db.mu.Lock()
	for len(reads) > 0 && db.version > compared+manyCommits && t.place.Taken() {
		since, latest := db.recent.Since(compared), db.version
		db.mu.Unlock()
		if anyWrote(since, reads) {
			return 0, kv.ErrConflict
		}
		compared = latest
		db.mu.Lock()
	}
	return compared, nil
}

// applyLocked is the commit itself. It compares the reads with the commits
// after the version up to which that has been done.
func (t *tx) applyLocked(e *effects, reads []kv.Range, compared uint64) error {
	db, now := t.db, t.db.o.Now()
	if err := t.committable(now); err != nil {
		return err
	}
	if len(reads) > 0 && anyWrote(db.recent.Since(compared), reads) {
		return kv.ErrConflict
	}
	if err := db.sum(e); err != nil {
		return err
	}
	db.counters.written(e)
	applied, err := db.applyBatch(e.batch, db.version+1)
	if err != nil {
		return err
	}
	db.watches.fire(e)
	t.watchLocked(db.version + 1) // after its own writes, which are what it watches for a change of
	db.version++
	db.commits.Add(1)
	t.leave()
	db.expire(now)
	oldest, first := db.version, db.txns.First()
	var written writes
	if first != nil || db.o.Durability == Always {
		written = e.written()
	}
	if first != nil {
		oldest = first.needed()
		db.recent.Add(db.version, written)
		db.recent.Trim(oldest)
	} else {
		db.recent = recentWrites{} // what needed it has just expired: a part would be missing
	}
	t.awaits = db.version
	if db.o.Durability == Always {
		if t.noSync {
			t.awaits = db.unsynced.seen(reads, db.version)
		}
		db.unsynced.add(unsyncedCommit{db.version, t.awaits, written}, db.wal.Durable())
	}
	if db.cacheCommit(e, oldest, applied) {
		db.catchUp()
	}
	return nil
}

// cacheCommit has the cache, and the backlog unless that was passed by, take in the latest commit. It
// tells whether the backlog has more than it should.
func (db *DB) cacheCommit(e *effects, oldest uint64, applied bool) (behind bool) {
	if applied {
		db.cache.Commit(e.cleared, e.changes, db.version, oldest, cache.Applied{})
		return false
	}
	db.backlog.mu.Lock()
	defer db.backlog.mu.Unlock()
	db.cache.Commit(e.cleared, e.changes, db.version, oldest, db.backlog)
	return db.backlog.wake()
}

// applyBatch appends the batch to the log, before its writes may go to the memtable (see
// package wal). A long one is applied to Pebble then; of others the writes are to go to the backlog.
func (db *DB) applyBatch(b *pebble.Batch, version uint64) (applied bool, err error) {
	err = guardfs.Run(func() error {
		if db.wal.Full() {
			if err := db.rotate(); err != nil {
				return err
			}
		}
		db.wal.Append(b.Repr(), int(b.Count()), version)
		if applied = b.Len() > backlogPart; applied {
			return db.backlog.applyLong(b)
		}
		return nil
	})
	if err != nil {
		db.guard.Fail(err) // what Pebble has done with it is unknown
		return false, unknown(db.failure())
	}
	return applied, nil
}

// rotate begins a new segment of the log. All that is in those before it has been
// applied: once the memtables of now are in tables, these are not needed any more.
func (db *DB) rotate() error {
	if err := db.backlog.drain(); err != nil {
		return err
	}
	last := db.wal.Rotate()
	flushed, err := db.pebble.AsyncFlush()
	if err != nil {
		return err
	}
	db.background.Go(func() {
		select {
		case <-flushed:
			if err := db.wal.Release(last); err != nil {
				db.guard.Fail(err)
			}
		case <-db.stopped:
		}
	})
	return nil
}

func unknown(err error) error {
	return fmt.Errorf("%w: %w", kv.ErrCommitUnknown, err)
}

// expire has the conflict log kept no longer for transactions that have been open for too long,
// whose commits will fail, and for those that don't need it.
func (db *DB) expire(now time.Time) {
	for t := db.txns.First(); t != nil && (t.tooOld(now) || db.behind(t)); t = db.txns.First() {
		db.txns.Remove(&t.place)
		db.expired[t] = struct{}{}
	}
}

// behind tells whether the transaction has no use for the conflict log: what it reads can't be kept in
// memory any more (see maxRecent), and it does not commit. Else a reader that is open for long beside
// one fast writer has the conflict log take hundreds of megabytes.
func (db *DB) behind(t *txn) bool {
	return t.readOnly && t.snap != nil && db.version-t.version >= maxRecent
}

// acknowledge returns when the commit is as durable as was asked: the operating system has it, and what is needed is on disk.
func (db *DB) acknowledge(version, needs uint64) error {
	defer db.commits.Done()
	if needs < version {
		if db.wal.Write(version) != nil {
			return unknown(db.failure())
		}
		select {
		case db.syncSoon <- struct{}{}:
		default:
		}
	}
	if db.wal.Commit(needs) != nil {
		return unknown(db.failure())
	}
	return nil
}
