package embedded

import (
	"context"
	"time"
)

// makeRoom waits until Pebble will take a long batch at once, and returns a function for when it has.
// While as much as may be in memtables waits to be written to tables, Pebble has writers wait, and who
// applies a batch or begins a segment of the journal would do so with the store's lock: so would all
// others then. So those who commit much wait before that, and are applied one by one.
func (t *tx) makeRoom(bytes int) (done func(), err error) {
	db := t.db
	select {
	case db.long <- struct{}{}:
	case <-t.ctx.Done():
		return nil, context.Cause(t.ctx)
	}
	done = func() { <-db.long }
	for !db.hasRoom(bytes) {
		select {
		case <-time.After(untilRoom):
		case <-t.ctx.Done():
		}
		if err := t.wanted(); err != nil {
			done()
			return nil, err
		}
	}
	return done, nil
}

// untilRoom is how often who waits for room looks for it: a flush takes some ten times that.
const untilRoom = 2 * time.Millisecond

// hasRoom tells whether Pebble would have nobody wait after a batch of so many bytes, or has nothing to
// wait for; or whether the store is closed, so that the commit will fail.
func (db *DB) hasRoom(bytes int) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return true
	}
	m := db.pebble.Metrics()
	return m.Flush.NumInProgress == 0 || int(m.MemTable.Size)+bytes+db.o.MemTable < mostMemTables*db.o.MemTable
}
