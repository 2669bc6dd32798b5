package embedded

import (
	"bytes"
	"slices"
	"sort"

	"github.com/conq-go/conq/kv"
)

// written is what one commit wrote: keys and ranges, each sorted, the ranges
// disjoint.
type written struct {
	keys   [][]byte
	ranges []kv.Range
}

// overlaps tells whether the commit wrote in one of the ranges, which are sorted and disjoint.
// The fewer are searched for among the more: else who has read thousands of keys falls behind a
// lone fast writer, and never commits.
func (w *written) overlaps(reads []kv.Range) bool {
	if len(reads) <= len(w.keys)+len(w.ranges) {
		return slices.ContainsFunc(reads, w.overlapsRange)
	}
	return slices.ContainsFunc(w.keys, func(key []byte) bool {
		i := endingBehind(reads, key)
		return i < len(reads) && bytes.Compare(reads[i].Begin, key) <= 0
	}) || slices.ContainsFunc(w.ranges, func(r kv.Range) bool { return meetsOne(reads, r) })
}

func (w *written) overlapsRange(r kv.Range) bool {
	k := sort.Search(len(w.keys), func(i int) bool { return bytes.Compare(w.keys[i], r.Begin) >= 0 })
	if k < len(w.keys) && bytes.Compare(w.keys[k], r.End) < 0 {
		return true
	}
	return meetsOne(w.ranges, r)
}

// meetsOne tells whether r has a part of one of the ranges, which are sorted and disjoint.
func meetsOne(ranges []kv.Range, r kv.Range) bool {
	i := endingBehind(ranges, r.Begin)
	return i < len(ranges) && bytes.Compare(ranges[i].Begin, r.End) < 0
}

// endingBehind returns the index of the first range that ends behind key.
func endingBehind(ranges []kv.Range, key []byte) int {
	return sort.Search(len(ranges), func(i int) bool { return bytes.Compare(ranges[i].End, key) > 0 })
}

// window is what the latest commits wrote, one entry a version. Entries do not
// change once they are in it, so a part of it can be read without the lock.
type window struct {
	first   uint64 // version of commits[0]
	commits []written
}

// add appends what the commit of the next version wrote.
func (w *window) add(version uint64, c written) {
	if len(w.commits) == 0 {
		w.first = version
	}
	w.commits = append(w.commits, c)
}

// since returns the commits after version. It must not have been trimmed.
func (w *window) since(version uint64) []written {
	if len(w.commits) == 0 || version+1 < w.first {
		return w.commits
	}
	return w.commits[version+1-w.first:]
}

// tooMany is how many commits after a version are not looked at to tell where was written: all
// wait meanwhile, and who reads thousands of keys that are far asks for each. Beside one fast writer
// such a reader and the writer took 10 times as long and more. Of what is fetched for queues,
// 97 in 100 have fewer.
const tooMany = 512

// wrote tells whether a commit after version wrote in r, or there are too many to tell.
func (w *window) wrote(version uint64, r kv.Range) bool {
	since := w.since(version)
	if len(since) >= tooMany {
		return true
	}
	for i := range since {
		if since[i].overlapsRange(r) {
			return true
		}
	}
	return false
}

// trim forgets the commits up to version. What it takes from the front of the
// slice is freed when the slice next grows, or becomes empty.
func (w *window) trim(version uint64) {
	if len(w.commits) == 0 || version < w.first {
		return
	}
	n := min(version+1-w.first, uint64(len(w.commits)))
	w.commits = w.commits[n:]
	w.first += n
	if len(w.commits) == 0 {
		w.commits = nil
	}
}

// normalize sorts ranges and makes those that overlap or touch one, without those that are empty, as
// these conflict with nothing. It uses their memory.
func normalize(ranges []kv.Range) []kv.Range {
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
