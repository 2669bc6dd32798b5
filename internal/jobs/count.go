package jobs

import (
	"context"
	"math/bits"
	"sync"

	"github.com/conq-go/conq/kv"
)

// counters are how many shards of its own a handle counts in at most: so many of its transactions at the same time do not meet in
// one. Where others have a shard, too, they count all the same, but an engine may have to try again.
const counters = 16

// counting is which shards of a handle transactions that are under way count in.
type counting struct {
	mu   sync.Mutex
	busy uint64
}

// countKey is the key of the shard in a context.
type countKey struct{}

// Count returns a context whose transactions count in a shard that no other one of the handle has until the caller calls
// end: the first that is free, so that who makes one transaction after the other uses one shard.
//
// It matters on etcd alone, whose transactions compare what they add to with what it was; these may have a limited number of operations.
func (q *Queue) Count(ctx context.Context) (_ context.Context, end func()) {
	if q.config.Shards <= 1 || q.limits.Operations == 0 {
		return ctx, func() {}
	}
	c := q.counting
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := bits.TrailingZeros64(^c.busy)
	if mine >= counters {
		return ctx, func() {} // the first one
	}
	c.busy |= 1 << mine
	return context.WithValue(ctx, countKey{}, mine), func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.busy &^= 1 << mine
	}
}

// count counts jobs that come to a state, or leave it. Where the number of leased jobs is limited, all are in one shard, as those who
// reserve jobs read it.
func (q *Queue) count(tx kv.Tx, s State, delta int64) {
	shard := q.shard
	if q.config.Shards > 1 && q.config.Concurrency == 0 {
		if mine, ok := tx.Context().Value(countKey{}).(int); ok {
			shard += int64(mine * q.config.Shards)
		}
	}
	tx.Add(withInts(q.counts, int64(s), shard), delta)
}
