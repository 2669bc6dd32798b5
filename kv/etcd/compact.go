package etcd

import (
	"context"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// compactor compacts the history of the cluster, if the store is to do that.
//
// A member keeps the keys that were removed in its index until the history is
// compacted, and reads of a range step over them: the head of a queue is
// where they are.
type compactor struct {
	removed atomic.Int64 // keys, since the last time
	busy    atomic.Bool
}

// compactAfter is how many keys have to be removed before it is worth while.
const compactAfter = 1000

// cleared tells that so many keys were removed, in a revision.
func (db *DB) cleared(keys int, revision int64) {
	if db.o.Compact == 0 || db.compactor.removed.Add(int64(keys)) < compactAfter || db.compactor.busy.Swap(true) {
		return
	}
	db.compactor.removed.Store(0)
	db.conn.background.Go(func() {
		defer db.compactor.busy.Store(false)
		if target := revision - int64(db.o.Compact); target > 0 {
			ctx, cancel := context.WithTimeout(db.ctx, db.o.Timeout)
			defer cancel()
			// If it fails, the next one will do; somebody may have done it.
			_, _ = db.conn.kv.Compact(ctx, &pb.CompactionRequest{Revision: target}, callOptions...)
		}
	})
}
