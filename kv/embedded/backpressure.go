package embedded

import (
	"context"
	"time"

	"github.com/conq-go/conq/kv"
)

// waitForMemTable waits until Pebble will take a long batch at once, and returns a function for when it
// has. While as much as may be in memtables waits to be written to tables, Pebble has writers wait, and
// to apply a batch or begin a segment of the log then would have all others wait for the store's
// lock. So long batches wait before that, and are applied one by one. On a slow disk that takes longer
// than a transaction may last, so this one is renewed meanwhile.
func (t *tx) waitForMemTable(bytes int, reads []kv.Range) (done func(), err error) {
	db := t.db
	for waiting := true; waiting; {
		select {
		case db.long <- struct{}{}:
			waiting = false
		case <-time.After(db.o.Age / 4):
			if err := t.renew(reads); err != nil {
				return nil, err
			}
		case <-t.ctx.Done():
			return nil, context.Cause(t.ctx)
		}
	}
	done = func() { <-db.long }
	for !db.takesBatch(bytes) {
		select {
		case <-time.After(memTableCheck):
		case <-t.ctx.Done():
		}
		if err := t.renew(reads); err != nil {
			done()
			return nil, err
		}
	}
	return done, nil
}

// memTableCheck is how often it looks: a flush takes some ten times that.
const memTableCheck = 2 * time.Millisecond

// renew begins the age of a transaction anew whose commit waits: it compares what that has read with
// what was written so far, and needs of the conflict log only what comes after. It can read nothing
// more. One that watches does grow older, as its watches are compared with what it has seen.
func (t *tx) renew(reads []kv.Range) error {
	db := t.db
	t.mu.Lock()
	defer t.mu.Unlock()
	compared, err := t.compare(reads)
	if err != nil {
		return err
	}
	defer db.mu.Unlock()
	now := db.o.Now()
	if err := t.committable(now); err != nil {
		return err
	}
	if t.version == 0 || len(t.watched) > 0 {
		return nil
	}
	if anyWrote(db.recent.Since(compared), reads) {
		return kv.ErrConflict
	}
	db.txns.Remove(&t.place)
	t.compared, t.started = db.version, now
	db.txns.Add(&t.place, &t.txn)
	return nil
}

// takesBatch tells whether Pebble would have nobody wait after a batch of so many bytes, or has nothing
// to wait for; or whether the store is closed, so that the commit will fail.
func (db *DB) takesBatch(bytes int) bool {
	db.mu.Lock()
	closed := db.closed.Load()
	if !closed {
		db.commits.Add(1) // Close waits
	}
	db.mu.Unlock()
	if closed {
		return true
	}
	defer db.commits.Done()
	m := db.pebble.Metrics()
	return m.Flush.NumInProgress == 0 || int(m.MemTable.Size)+bytes+db.o.MemTable < mostMemTables*db.o.MemTable
}
