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

// readOf is the read of the headers of a run. Where one process has the store it goes on behind them: the engine then knows in memory what
// is there, where jobs are put and taken next.
func (q *Queue) readOf(run []int64) kv.Read {
	first, last := run[0], run[len(run)-1]
	switch key := withInts(q.headers, first); {
	case !q.far():
		return kv.Read{Range: kv.Range{Begin: key, End: rangeOf(q.headers).End}, Options: kv.RangeOptions{Limit: int(last - first + 1)}}
	case len(run) == 1:
		return kv.Read{Key: key}
	default:
		return kv.Read{Range: kv.Range{Begin: key, End: kv.After(withInts(q.headers, last))}}
	}
}

func (q *Queue) appendHeaders(reads []kv.Read, ids []int64) []kv.Read {
	for _, run := range runs(ids) {
		reads = append(reads, q.readOf(run))
	}
	return reads
}

// Having returns q for a transaction that is about to load jobs: it has read their headers, with few reads. They conflict when they are
// loaded.
func (q *Queue) Having(tx kv.Tx, ids []int64) (*Queue, error) {
	if len(ids) == 0 {
		return q, nil
	}
	read, r := make(headers, len(ids)), tx.Snapshot()
	for _, id := range ids {
		read[id] = nil
	}
	for _, run := range runs(ids) {
		of := q.readOf(run)
		if of.Key != nil {
			value, err := r.Get(of.Key)
			if err != nil {
				return nil, err
			}
			read[run[0]] = value
			continue
		}
		for pair, err := range r.Range(of.Range, of.Options) {
			if err != nil {
				return nil, err
			}
			var id int64
			if err := decodeInts(pair.Key, pair.Key[len(q.headers):], &id); err != nil {
				continue
			}
			if id > run[len(run)-1] {
				break
			}
			read[id] = pair.Value
		}
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
