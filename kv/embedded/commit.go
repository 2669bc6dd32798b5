package embedded

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// effects is what a transaction is about to do to the store.
type effects struct {
	written            // what others conflict with
	values  [][]byte   // of the keys of written.keys afterwards; nil: none
	cleared []kv.Range // the part of written.ranges that holds no key afterwards, but for those above
	adds    []addition

	// What near leaves to deadSpace: keys that were cleared where nothing is near, and
	// gaps.
	far  [][]byte
	gaps []kv.Range
}

// addition is a change that needs the latest value.
type addition struct {
	*overlay.Change
	i int // of its key
}

// leastKey stands for the empty key where a cleared range begins. Pebble 2.1.7 can't
// tell an empty beginning from none everywhere: in a compaction, with its invariants
// on, such a tombstone has hidden another one, and what that had cleared came back.
var leastKey = []byte{0}

// effects puts the transaction's writes in a Pebble batch, all but the
// additions, which need the latest value.
func (t *tx) effects(b *pebble.Batch) (e effects, err error) {
	e.cleared = t.writes.Cleared()
	for _, r := range e.cleared {
		begin := r.Begin
		if len(begin) == 0 {
			begin = leastKey
		}
		if err := b.DeleteRange(begin, r.End, nil); err != nil {
			return e, err
		}
	}
	n := t.writes.Len()
	both := make([][]byte, 2*n) // one allocation for both
	e.keys, e.values = both[:0:n], both[n:n]
	t.writes.Changes(func(c *overlay.Change) {
		e.keys = append(e.keys, c.Key)
		e.values = append(e.values, c.Value)
		switch {
		case err != nil:
		case c.Kind == overlay.Set:
			err = b.Set(c.Key, c.Value, nil)
		case c.Kind == overlay.Clear:
			err = b.Delete(c.Key, nil)
		default:
			e.adds = append(e.adds, addition{c, len(e.keys) - 1})
		}
	})
	e.ranges = e.cleared
	if len(t.conflicts) > 0 {
		e.ranges = normalize(slices.Concat(e.cleared, t.conflicts))
	}
	return e, err
}

// commit makes the transaction's writes happen, or none of them. It does not
// look at the context any more once they are applied.
func (t *tx) commit() error {
	if t.bad != nil {
		return t.bad
	}
	if err := t.db.limits.CheckTransaction(t.writes.Bytes(), t.writes.Ops()); err != nil {
		return err
	}
	if err := t.alive(); err != nil {
		return err
	}
	if t.writes.Empty() && len(t.conflicts) == 0 {
		return t.commitRead()
	}
	c := t.db.newCommit(&t.writes)
	defer c.end()
	version, err := t.apply(c)
	if err != nil {
		return err
	}
	if err := t.db.acknowledge(c, version); err != nil {
		return err
	}
	t.committed()
	return nil
}

// commit is a commit under way.
type commit struct {
	*pebble.Batch
	db    *DB
	alone bool // it is synced for itself, as nobody else is about
}

// batchOverhead is what an entry of a batch takes beside its key and value, at most.
const batchOverhead = 16

func (db *DB) newCommit(writes *overlay.Overlay) *commit {
	c := &commit{db: db, Batch: db.pebble.NewBatchWithSize(batchOverhead*(1+writes.Ops()) + writes.Bytes())}
	if db.o.Durability != Memory {
		c.alone = db.synced.enter()
	}
	return c
}

func (c *commit) end() {
	if c.db.o.Durability != Memory {
		c.db.synced.leave()
	}
}

// committed ends the transaction and has those told who wanted to be.
func (t *tx) committed() {
	t.end()
	for _, f := range t.onCommit {
		f()
	}
}

// commitRead commits a transaction that has written nothing.
func (t *tx) commitRead() error {
	if len(t.watched) > 0 {
		if err := t.startWatches(); err != nil {
			return err
		}
	}
	if err := t.acknowledgeRead(); err != nil {
		return err
	}
	t.committed()
	return nil
}

func (t *tx) startWatches() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.db.mu.Lock()
	defer t.db.mu.Unlock()
	if err := t.committable(); err != nil {
		return err
	}
	t.watchLocked()
	return nil
}

func (t *tx) watchLocked() {
	since := t.db.window.since(t.version)
	for _, w := range t.watched {
		t.db.watch(t.ctx, w, since)
	}
	t.watched = nil
}

// acknowledgeRead returns when what the transaction has seen is durable.
func (t *tx) acknowledgeRead() error {
	t.mu.Lock()
	err, version := t.ended, t.version
	t.mu.Unlock()
	if err != nil {
		return err
	}
	if t.db.o.Durability == Memory {
		return t.db.failure()
	}
	return t.db.synced.wait(version, t.db.failure)
}

// committable returns the error with which the commit must fail, short of a
// conflict. Both locks are held.
func (t *tx) committable() error {
	switch {
	case t.db.closed:
		return kv.ErrClosed
	case t.ended != nil:
		return t.ended
	}
	return t.check()
}

// manyCommits is how many commits since the transaction's version are too many
// to be compared with it while all others wait.
const manyCommits = 64

// apply checks for conflicts and applies the batch, and returns the version of
// the commit. From here on it is visible, and will be counted in db.commits
// until it is acknowledged.
func (t *tx) apply(c *commit) (uint64, error) {
	e, err := t.effects(c.Batch)
	if err != nil {
		return 0, err
	}
	reads := normalize(t.reads)
	checked := t.version

	db := t.db
	t.mu.Lock()
	defer t.mu.Unlock()
	db.mu.Lock()
	for len(reads) > 0 && db.version > checked+manyCommits && t.listed {
		since, latest := db.window.since(checked), db.version
		db.mu.Unlock()
		if conflicts(since, reads) {
			return 0, kv.ErrConflict
		}
		checked = latest
		db.mu.Lock()
	}
	snap, err := t.applyLocked(c, &e, reads, checked)
	version, stale := db.version, db.stale()
	db.mu.Unlock()
	closeAll(snap, stale)
	return version, err
}

func conflicts(since []written, reads []kv.Range) bool {
	return slices.ContainsFunc(since, func(w written) bool { return w.overlaps(reads) })
}

// applyLocked is the commit itself. It compares the reads with the commits
// after the version up to which that has been done, and returns the snapshot
// that is to be closed.
func (t *tx) applyLocked(c *commit, e *effects, reads []kv.Range, checked uint64) (*pebble.Snapshot, error) {
	db := t.db
	if err := t.committable(); err != nil {
		return nil, err
	}
	if t.version != 0 && !t.listed { // the window no longer reaches back so far
		return nil, kv.ErrTooOld
	}
	if len(reads) > 0 && conflicts(db.window.since(checked), reads) {
		return nil, kv.ErrConflict
	}
	if err := db.sum(c.Batch, e); err != nil {
		return nil, err
	}
	if !c.Empty() {
		if err := db.applyBatch(c); err != nil {
			return nil, err
		}
	}
	db.watches.fire(e)
	t.watchLocked() // after its own writes, which are what it watches for a change of
	db.version++
	db.commits.Add(1)
	snap := t.releaseLocked()
	db.expire()
	oldest := db.version
	if db.txns.first != nil {
		oldest = db.txns.first.version
		db.window.add(db.version, e.written)
		db.window.trim(oldest)
	}
	db.near.commit(e, db.version)
	db.dead.commit(e, db.version, oldest)
	return snap, nil
}

// sum puts the results of additions in the batch.
func (db *DB) sum(batch *pebble.Batch, e *effects) error {
	for _, c := range e.adds {
		value, closer, err := db.pebble.Get(c.Key)
		if err == nil {
			value = overlay.Sum(value, c.Delta)
			err = closer.Close()
		} else if err == pebble.ErrNotFound {
			value, err = overlay.Sum(nil, c.Delta), nil
		}
		if err == nil {
			e.values[c.i] = value
			err = batch.Set(c.Key, value, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// applyBatch writes the batch to the log's buffer and to the memtable.
func (db *DB) applyBatch(c *commit) error {
	err := guarded(func() error {
		if c.alone {
			return db.pebble.ApplyNoSyncWait(c.Batch, pebble.Sync)
		}
		return db.pebble.Apply(c.Batch, pebble.NoSync)
	})
	if err != nil {
		db.guard.fail(err) // what Pebble has done with it is unknown
		return unknown(db.failure())
	}
	return nil
}

func unknown(err error) error {
	return fmt.Errorf("%w: %w", kv.ErrCommitUnknown, err)
}

// expire gives up on transactions that have been open for too long. Their
// commits will fail.
func (db *DB) expire() {
	deadline := db.o.Now().Add(-db.o.Age)
	for t := db.txns.first; t != nil && t.started.Before(deadline); t = db.txns.first {
		db.txns.remove(t)
	}
}

// acknowledge returns when the commit is as durable as was asked.
func (db *DB) acknowledge(c *commit, version uint64) error {
	defer db.commits.Done()
	var err error
	switch {
	case db.o.Durability == Memory:
	case c.Empty(): // write conflicts only: there is nothing of its own to wait for
		err = db.synced.wait(version-1, db.failure)
	case c.alone:
		err = c.SyncWait()
	default:
		err = db.synced.settle(version, db.syncLog, db.failure)
	}
	if err != nil {
		db.guard.fail(err)
	}
	if err := db.failure(); err != nil {
		return unknown(err)
	}
	if db.o.Durability != Memory {
		db.synced.advance(version)
	}
	return c.Close()
}

// syncLog has the log on disk up to the version that it returns, unless the store has
// failed.
func (db *DB) syncLog() uint64 {
	db.mu.Lock()
	version := db.version
	db.mu.Unlock()
	if err := guarded(func() error { return db.pebble.LogData(nil, pebble.Sync) }); err != nil {
		db.guard.fail(err)
	}
	if db.failure() != nil {
		return 0
	}
	return version
}
