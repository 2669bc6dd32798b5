package embedded

import (
	"context"
	"slices"
	"time"

	"github.com/conq-go/conq/kv"
)

// What was removed takes space until a compaction meets its tombstones, and Pebble knows of these
// only when they are in a table. So the memtable is flushed some time after a removal, though it is
// not full, and when the store is closed.
const (
	// reclaimTime is how long the space of what was removed may stay in use where little is
	// written, and how often at most a memtable is flushed for that.
	reclaimTime = 3 * time.Second

	// reclaimable is how many bytes tables must have to be worth it.
	reclaimable = 4 << 20
)

// closeTime is how long closing the store may take for giving space back. Tests make it longer.
var closeTime = 2 * time.Second

// settle has the space of what was removed given back, if that is worth it, and makes the reserve of a store
// that lacks it, if there is room.
func (db *DB) settle() error {
	db.forgetCommits()
	if db.diskFull.Load() {
		db.diskFull.Store(!makeReserve(db.o.FS, db.dir))
	}
	if db.pebble.Metrics().Total().TablesSize < reclaimable {
		return nil
	}
	return db.backlog.settle()
}

// forgetCommits has the conflict log kept no longer for transactions that are too old, where no commits come that would see to it.
func (db *DB) forgetCommits() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.expire(db.o.Now())
	if db.txns.Len() == 0 {
		db.recent = recentWrites{}
	}
}

// reclaim gives back, for closeTime at most, the space of what was removed. Nobody uses the store
// any more.
func (db *DB) reclaim() error {
	if db.failure() != nil || db.pebble.Metrics().Total().TablesSize < reclaimable {
		return nil
	}
	gaps := slices.DeleteFunc(db.gaps.Runs(), func(r kv.Range) bool {
		size, err := db.pebble.EstimateDiskUsage(r.Begin, r.End)
		return err != nil || size < reclaimable/4
	})
	if len(gaps) == 0 {
		return nil
	}
	if err := db.backlog.drain(); err != nil {
		return err
	}
	last := db.wal.Rotate()
	if err := db.pebble.Flush(); err != nil {
		return err
	}
	if err := db.wal.Release(last); err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), closeTime)
	defer stop()
	for _, r := range gaps {
		if err := db.pebble.Compact(ctx, r.Begin, r.End, true); err != nil {
			return nil // the space is given back when the store is opened again
		}
	}
	return nil
}
