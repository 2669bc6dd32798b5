package jobs

import (
	"math"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// An orphan is a job that is leased by a runner of a process that is gone. That is known where one process has the store: the token
// of such a lease is negative, and has the opening of the store above its lower 32 bits. It stays with the lease until that ends.
const orphanedText = "the process of its runner has ended"

func runnerToken(opening, token int64) int64 { return -(opening<<32 | token&math.MaxUint32) }

// isOrphan tells whether a lease is of a runner that had the store open before.
func isOrphan(token, opening int64) bool { return token < 0 && -token>>32 != opening }

// Orphans returns the ids of jobs that were leased by runners of other openings of the store than this one, through a snapshot.
func (q *Queue) Orphans(r kv.Reader, opening int64) (ids []int64, err error) {
	for entry, err := range r.Snapshot().Range(rangeOf(q.indexes[Leased]), kv.RangeOptions{}) {
		if err != nil {
			return nil, err
		}
		if token, _, ok := tuple.NextInt(entry.Value); ok && isOrphan(token, opening) {
			if id, err := q.idOf(Leased, entry.Key); err == nil { // else Check finds it
				ids = append(ids, id)
			}
		}
	}
	return ids, nil
}

// EndOrphans ends the leases of the first of these jobs, as many as the transaction has room for, as if they had run out. It returns
// at how many it has looked, how many leases it has ended, and how many of these jobs are dead.
func (q *Queue) EndOrphans(tx kv.Tx, ids []int64, opening, now int64) (looked, ended, dead int, err error) {
	for _, id := range ids {
		if looked > 0 && !q.Fits(tx) {
			break
		}
		looked++
		j, err := q.Load(tx, id)
		if err == ErrNotFound || err == nil && (j.State != Leased || !isOrphan(j.Token, opening)) {
			continue
		}
		if err != nil {
			return 0, 0, 0, err
		}
		died, err := q.endLease(tx, j, now, orphanedText)
		if err != nil {
			return 0, 0, 0, err
		}
		if ended++; died {
			dead++
		}
	}
	return looked, ended, dead, nil
}
