package etcd

import (
	"bytes"
	"slices"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// mostPlanned is how many reads are asked for with another one, in one request; of the last keys of ranges
// so many that there is room for other reads.
const (
	mostPlanned  = 100
	mostTogether = 64
)

// Prefetch implements kv.Prefetch: what it is told of is asked for with the next read.
func (r reader) Prefetch(reads []kv.Read) {
	for _, read := range reads {
		r.plan(read)
	}
}

// plan has read asked for with the next one that is made. What is wrong with it that one will tell.
func (t *tx) plan(read kv.Read) {
	if len(t.planned) == mostPlanned {
		return
	}
	if read.Key != nil {
		t.planned = append(t.planned, t.keyRequest(read.Key, false))
		return
	}
	span, err := read.Range.Bounds()
	if err != nil || bytes.Compare(span.Begin, span.End) >= 0 {
		return
	}
	c := newCursor(t, span, read.Options.Reverse)
	c.want, c.keysOnly = read.Options.Limit, read.Options.KeysOnly
	t.planned = append(t.planned, c.request(c.first()))
}

// LastKeys implements kvext.LastKeys: what loops over these ranges would begin with is read with one
// request, and mostly that is all they need.
func (r reader) LastKeys(spans []kv.Range, among kv.Range, to [][]byte) ([][]byte, error) {
	for part := range slices.Chunk(spans, mostTogether) {
		for _, span := range part {
			r.plan(kv.Read{Range: span, Options: kv.RangeOptions{Limit: 1, Reverse: true, KeysOnly: true}})
		}
		for _, span := range part {
			key, err := kvext.LastKey(r, span, among)
			if err != nil {
				return nil, err
			}
			to = append(to, key)
		}
	}
	return to, nil
}

// readAhead is what was read before it was asked for.
type readAhead struct {
	request  *pb.RangeRequest
	response *pb.RangeResponse
}

// hasRead returns the answer to r, if it was read ahead.
func (t *tx) hasRead(r *pb.RangeRequest) (*pb.RangeResponse, bool) {
	for i, a := range t.ahead {
		if r.CountOnly || !sameRange(a.request, r) || a.response.More && (r.Limit == 0 || r.Limit > a.request.Limit) {
			continue
		}
		t.ahead = slices.Delete(t.ahead, i, i+1) // the reader owns the memory
		if n := int(r.Limit); n > 0 && len(a.response.Kvs) > n {
			a.response.Kvs, a.response.More = a.response.Kvs[:n], true
		}
		return a.response, true
	}
	return nil, false
}

func sameRange(a, b *pb.RangeRequest) bool {
	return a.KeysOnly == b.KeysOnly && bytes.Equal(a.Key, b.Key) && bytes.Equal(a.RangeEnd, b.RangeEnd)
}
