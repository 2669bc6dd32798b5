package jobs

import (
	"bytes"
	"slices"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// This file has what transactions are about to read asked for at once: over a network all of it takes as long as one read. What
// is read, and what that conflicts on, stays the same.

// far tells whether the store is asked over a network.
func (q *Queue) far() bool { return q.limits.Shared || q.limits.UnknownCommits }

// leastOperations is what a verb takes of a transaction at least.
const leastOperations = 3

// most is at how many of n jobs one transaction looks.
func (q *Queue) most(n int) int { return budget.Of(q.limits).Times(leastOperations, n) }

// Loadable returns those of the first ids for which one transaction may have room.
func (q *Queue) Loadable(ids []int64) []int64 {
	return ids[:min(len(ids), q.most(max(1, 2*len(ids))))]
}

// Expect has what At reads asked for with the next read, with the headers of jobs, and the slots of keys.
func (q *Queue) Expect(r kv.Reader, ids []int64, keys []string) {
	if q.far() {
		kv.Prefetch(r, q.appendSlots(q.appendHeaders([]kv.Read{{Key: q.state}}, ids), keys)...)
	}
}

// ExpectPuts is Expect for jobs that are put: their claims, the slots of their keys, and what is last of their priorities.
func (q *Queue) ExpectPuts(r kv.Reader, calls ...[]New) {
	if !q.far() {
		return
	}
	reads := []kv.Read{{Key: q.state}}
	var keys []string
	var priorities []int64
	for _, all := range calls {
		for i := range all {
			n := &all[i]
			if n.Unique != "" {
				reads = append(reads, kv.Read{Key: withString(q.claims, n.Unique)})
			}
			keys, priorities = append(keys, n.Key), append(priorities, n.Priority)
		}
	}
	for _, p := range distinct(priorities) {
		reads = append(reads, kv.Read{
			Range: rangeOf(withInts(q.indexes[Ready], p)), Options: kv.RangeOptions{Limit: 1, Reverse: true, KeysOnly: true},
		})
	}
	kv.Prefetch(r, q.appendSlots(reads, keys)...)
}

// ExpectReserve is Expect for a Reserve of up to n jobs from start on, and if due for a Due with that limit before it.
func (q *Queue) ExpectReserve(r kv.Reader, start Start, n, limit int, due bool) {
	if !q.far() {
		return
	}
	reads := []kv.Read{{Key: q.state}}
	if due {
		reads = append(reads, q.dueReads(limit)...)
	}
	kv.Prefetch(r, append(reads, q.Latest().reserveReads(start, n)...)...)
}

// ExpectDue has what a Due reads asked for with the next read.
func (q *Queue) ExpectDue(r kv.Reader, limit int) {
	if q.far() {
		kv.Prefetch(r, q.dueReads(limit)...)
	}
}

// reserveReads are what a Reserve begins with.
func (q *Queue) reserveReads(start Start, n int) (reads []kv.Read) {
	if q.config.Rate.limits() {
		reads = append(reads, kv.Read{Key: q.rate})
	}
	if q.config.Concurrency > 0 {
		reads = append(reads, kv.Read{Range: q.countsOf(Leased)})
	}
	return append(reads, q.readyRead(start, q.most(n)))
}

// loading is Having for the jobs of entries, with payloads if there are to be so many bytes of them.
func (q *Queue) loading(tx kv.Tx, state State, entries [][]byte, payloads int) (*Queue, error) {
	var ids []int64
	for _, entry := range entries {
		if id, err := q.idOf(state, entry); err == nil { // else it is found by who loads it
			ids = append(ids, id)
		}
	}
	q.expect(tx, ids, payloads)
	return q.Having(tx, ids)
}

// expectListed has what a List looks at of entries asked for.
func (q *Queue) expectListed(r kv.Reader, f Filter, entries []kv.KeyValue, payloads int) {
	if !q.far() {
		return
	}
	all := Filter{State: f.State, Key: f.Key, Before: f.Before, Reverse: f.Reverse, Payloads: true}
	if f != all && f.Contains == "" {
		payloads = 0
	}
	var ids []int64
	for _, entry := range entries {
		id, err := int64(0), error(nil)
		if f.State != 0 {
			id, err = q.idOf(f.State, entry.Key)
		} else {
			err = decodeInts(entry.Key, entry.Key[len(q.headers):], &id)
		}
		if err == nil {
			ids = append(ids, id)
		}
	}
	var reads []kv.Read
	if f.State != 0 {
		for _, id := range ids {
			reads = append(reads, kv.Read{Key: withInts(q.headers, id)})
		}
	}
	kv.Prefetch(r, q.appendPayloads(reads, ids, payloads)...)
}

// expect has the headers of jobs asked for, and payloads if there are to be so many bytes of them.
func (q *Queue) expect(r kv.Reader, ids []int64, payloads int) {
	if q.far() {
		kv.Prefetch(r, q.appendPayloads(q.appendHeaders(nil, ids), ids, payloads)...)
	}
}

// expectTexts has what belongs to the texts at the ends of entries asked for, of indexes that are not of jobs.
func (q *Queue) expectTexts(r kv.Reader, index []byte, entries [][]byte) {
	if !q.far() {
		return
	}
	var reads []kv.Read
	for _, entry := range entries {
		elems, err := tuple.Unpack(entry[len(index):])
		if err != nil || len(elems) < 2 {
			continue
		}
		of := q.slots
		switch {
		case bytes.Equal(index, q.ticks):
			of = q.periodic
		case bytes.Equal(index, q.ends) && elems[1] == endsClaim:
			of = q.claims
		}
		if text, ok := elems[len(elems)-1].(string); ok {
			reads = append(reads, kv.Read{Key: withString(of, text)})
		}
	}
	kv.Prefetch(r, reads...)
}

// expectKeyed has the slots of the keys of jobs asked for, that were loaded, and payloads that were not.
func (q *Queue) expectKeyed(r kv.Reader, all []*Job, payloads int) {
	if !q.far() {
		return
	}
	var reads []kv.Read
	var keys []string
	for _, j := range all {
		keys = append(keys, j.Key)
		payloads -= int(j.Pieces) * max(1, q.limits.Value)
		switch {
		case j.Pieces == 0 || payloads < 0:
		case j.Pieces > 1:
			reads = append(reads, kv.Read{Range: rangeOf(withInts(q.values, j.ID))})
		case q.payloads.Load() <= smallPayload: // else it was asked for with the headers
			reads = append(reads, kv.Read{Key: withInts(q.values, j.ID)})
		}
	}
	kv.Prefetch(r, q.appendSlots(reads, keys)...)
}

func (q *Queue) appendSlots(reads []kv.Read, keys []string) []kv.Read {
	for _, key := range distinct(keys) {
		if key != "" {
			reads = append(reads, kv.Read{Key: withString(q.slots, key)})
		}
	}
	return reads
}

// appendPayloads appends those of the first jobs that have so many bytes together, at least one, if they are as large as others
// were. One that is in pieces is read when that is known.
func (q *Queue) appendPayloads(reads []kv.Read, ids []int64, size int) []kv.Read {
	average := int(q.payloads.Load())
	if size <= 0 || average <= smallPayload { // mostly the headers have them
		return reads
	}
	n := max(1, size/average)
	for _, id := range ids[:min(n, len(ids))] {
		reads = append(reads, kv.Read{Key: withInts(q.values, id)})
	}
	return reads
}

// sawPayload learns how large payloads are.
func (q *Queue) sawPayload(n int) {
	if q.far() {
		q.payloads.Store((q.payloads.Load() + int64(n)) / 2)
	}
}

// unknownPayload is how large payloads are taken to be before one was seen.
const unknownPayload = 4 << 10

func distinct[T interface{ int64 | string }](all []T) []T {
	slices.Sort(all)
	return slices.Compact(all)
}
