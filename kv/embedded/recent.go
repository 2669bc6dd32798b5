package embedded

import (
	"bytes"
	"slices"
	"sort"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// writes is what one commit wrote: keys, which are sorted, and ranges.
type writes struct {
	Keys   [][]byte
	Ranges overlay.RangeSet
}

// In tells whether the commit wrote in r.
func (w *writes) In(r kv.Range) bool {
	i := sort.Search(len(w.Keys), func(i int) bool { return bytes.Compare(w.Keys[i], r.Begin) >= 0 })
	if i < len(w.Keys) && bytes.Compare(w.Keys[i], r.End) < 0 {
		return true
	}
	return w.Ranges.Meets(r)
}

// InAny tells whether the commit wrote in what was read. It searches for the fewer among the more: a
// transaction that has read thousands of keys must not fall behind a lone fast writer for ever.
func (w *writes) InAny(reads overlay.RangeSet) bool {
	if len(reads) <= len(w.Keys)+len(w.Ranges) {
		return slices.ContainsFunc(reads, w.In)
	}
	return slices.ContainsFunc(w.Keys, reads.Contains) || slices.ContainsFunc(w.Ranges, reads.Meets)
}

// anyWrote tells whether one of some commits wrote in what was read.
func anyWrote(commits []writes, reads overlay.RangeSet) bool {
	return slices.ContainsFunc(commits, func(w writes) bool { return w.InAny(reads) })
}

// normalized sorts ranges, makes one of those that overlap or touch, and drops those that are empty,
// as these conflict with nothing. It uses their memory.
func normalized(ranges []kv.Range) overlay.RangeSet {
	ranges = slices.DeleteFunc(ranges, func(r kv.Range) bool { return bytes.Equal(r.Begin, r.End) })
	if len(ranges) < 2 {
		return ranges
	}
	slices.SortFunc(ranges, func(a, b kv.Range) int { return bytes.Compare(a.Begin, b.Begin) })
	merged := ranges[:1]
	for _, r := range ranges[1:] {
		last := &merged[len(merged)-1]
		if bytes.Compare(r.Begin, last.End) > 0 {
			merged = append(merged, r)
		} else if bytes.Compare(r.End, last.End) > 0 {
			last.End = r.End
		}
	}
	return merged
}

// recentWrites is what the latest commits wrote, one entry a version: whether what a transaction has read was written to since is the
// backward validation of optimistic concurrency control. Reads and writes are compared as keys and ranges, so that an empty range
// cannot hide a phantom. The zero value is empty and ready for use. It has no lock: its user holds one while it calls a method. What
// Since returns does not change, and may be compared without the lock.
type recentWrites struct {
	first   uint64 // version of commits[0]
	commits []writes
}

// Add appends what the commit of the next version wrote.
func (l *recentWrites) Add(version uint64, w writes) {
	if len(l.commits) == 0 {
		l.first = version
	}
	l.commits = append(l.commits, w)
}

// Since returns the commits after version, up to which the log must not have been trimmed.
func (l *recentWrites) Since(version uint64) []writes {
	if len(l.commits) == 0 || version+1 < l.first {
		return l.commits
	}
	return l.commits[version+1-l.first:]
}

// maxRecent is how many commits Wrote looks at.
const maxRecent = 512

// Wrote tells whether a commit after version wrote in r, or there are maxRecent or more, which would
// take too long to look at with a lock held.
func (l *recentWrites) Wrote(version uint64, r kv.Range) bool {
	since := l.Since(version)
	return len(since) >= maxRecent || slices.ContainsFunc(since, func(w writes) bool { return w.In(r) })
}

// Trim forgets the commits up to version.
func (l *recentWrites) Trim(version uint64) {
	if len(l.commits) == 0 || version < l.first {
		return
	}
	n := min(version+1-l.first, uint64(len(l.commits)))
	l.commits = l.commits[n:] // their memory is freed when the slice next grows
	l.first += n
	if len(l.commits) == 0 {
		l.commits = nil
	}
}

// Len returns how many commits the log has.
func (l *recentWrites) Len() int { return len(l.commits) }
