package jobs

import (
	"slices"

	"github.com/conq-go/conq/kv"
)

// headers are what a transaction has read of headers before they are asked for, by id; nil is that there is none. One that the transaction
// writes is no longer among them.
type headers map[int64][]byte

// mostApart is how far apart ids are at most whose headers are read by one range read: for some more that nobody wants, one
// read costs the store less than many.
const mostApart = 8

// runs are ids in order, those of which the headers are read together.
func runs(ids []int64) (all [][]int64) {
	ids = distinct(slices.Clone(ids))
	for begin, i := 0, 0; i < len(ids); i++ {
		if i+1 == len(ids) || ids[i+1]-ids[i] > mostApart {
			all = append(all, ids[begin:i+1])
			begin = i + 1
		}
	}
	return all
}

// readOf is the read of the headers of a run.
func (q *Queue) readOf(run []int64) kv.Read {
	first, last := withInts(q.headers, run[0]), withInts(q.headers, run[len(run)-1])
	if len(run) == 1 {
		return kv.Read{Key: first}
	}
	return kv.Read{Range: kv.Range{Begin: first, End: kv.After(last)}}
}

func (q *Queue) appendHeaders(reads []kv.Read, ids []int64) []kv.Read {
	for _, run := range runs(ids) {
		reads = append(reads, q.readOf(run))
	}
	return reads
}

// Having returns q for a transaction that is about to load jobs: it has read their headers, with few reads, if others of the ids are near.
// They conflict when they are loaded.
func (q *Queue) Having(tx kv.Tx, ids []int64) (*Queue, error) {
	var read headers
	for _, run := range runs(ids) {
		if len(run) == 1 {
			continue
		}
		if read == nil {
			read = make(headers, len(ids))
		}
		for _, id := range run {
			read[id] = nil
		}
		for pair, err := range tx.Snapshot().Range(q.readOf(run).Range, kv.RangeOptions{}) {
			if err != nil {
				return nil, err
			}
			var id int64
			if err := decodeInts(pair.Key, pair.Key[len(q.headers):], &id); err == nil {
				read[id] = pair.Value
			}
		}
	}
	if read == nil {
		return q, nil
	}
	having := *q
	having.read = read
	return &having, nil
}

// headerOf returns the header of a job, or nil.
func (q *Queue) headerOf(r kv.Reader, key []byte, id int64) ([]byte, error) {
	value, known := q.read[id]
	if !known {
		return r.Get(key)
	}
	if tx, ok := r.(kv.Tx); ok {
		tx.AddReadConflict(kv.Range{Begin: key, End: kv.After(key)})
	}
	return value, nil
}
