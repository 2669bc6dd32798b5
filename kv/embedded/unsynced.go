package embedded

import (
	"context"
	"time"

	"github.com/conq-go/conq/kv/internal/overlay"
)

// unsynced is what the latest commits wrote, as far as it may not be on disk, where a commit is to be there when it is
// acknowledged. A transaction for which that is not so (kv.NoSync) waits for those of which it has seen something: what a
// power failure may undo is shown to nobody. The store's lock is held for all of it.
type unsynced struct {
	commits []unsyncedCommit // in order
	others  uint64           // what has to be on disk for who may have seen those that found no place
}

type unsyncedCommit struct {
	version uint64
	needs   uint64 // up to which version commits have to be on disk for who has seen it
	writes  writes
}

// mostUnsynced bounds what is compared with a lock held.
const mostUnsynced = 64

// add takes in the latest commit, and forgets those that are on disk.
func (u *unsynced) add(c unsyncedCommit, durable uint64) {
	gone := 0
	for gone < len(u.commits) && u.commits[gone].version <= durable {
		gone++
	}
	if len(u.commits)-gone == mostUnsynced {
		u.others = max(u.others, u.commits[gone].needs)
		gone++
	}
	u.commits = append(u.commits[gone:], c)
}

// seen returns up to which version commits have to be on disk for a transaction that has read at a version.
func (u *unsynced) seen(reads overlay.RangeSet, version uint64) (needs uint64) {
	if len(reads) == 0 {
		return 0
	}
	needs = u.others
	for _, c := range u.commits {
		if c.version <= version && c.needs > needs && c.writes.InAny(reads) {
			needs = c.needs
		}
	}
	return min(needs, version)
}

// seen is unsynced.seen.
func (db *DB) seen(reads overlay.RangeSet, version uint64) uint64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.unsynced.seen(reads, version)
}

// syncWritten has what was written on disk an interval later at most, until ctx ends. Mostly others have had it synced by then.
func (db *DB) syncWritten(ctx context.Context, interval time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-db.syncSoon:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		_ = db.wal.Commit(db.wal.Written())
	}
}
