package etcd

import (
	"bytes"
	"slices"
	"sync/atomic"

	"github.com/conq-go/conq/kv"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// opening is the first request of a Get or of a loop over a range, as its caller
// means it.
type opening struct {
	key      string // of a Get
	r        string // of a loop: begin and end
	end      int    // where in r the end begins
	reverse  bool
	keysOnly bool
	want     int
}

func openingOf(r kv.Range, reverse, keysOnly bool, want int) opening {
	return opening{r: string(r.Begin) + string(r.End), end: len(r.Begin), reverse: reverse, keysOnly: keysOnly, want: want}
}

func (o opening) span() kv.Range {
	return kv.Range{Begin: []byte(o.r[:o.end]), End: []byte(o.r[o.end:])}
}

// shape is o without how many pairs it wants: those differ from batch to batch.
func (o opening) shape() opening {
	o.want = 0
	return o
}

// plans remember, for what transactions read first, what they went on to read. The
// next one that begins alike gets all of it in one request: an enqueue takes 2 instead of 3, a
// move between queues 2 instead of 4. What was not needed after all has cost the member a look;
// it is forgotten when that has happened a few times in a row.
type plans struct {
	bounded[opening, []plan] // by shape of the first read

	less atomic.Int32 // reads than maxAhead that the servers take
}

// plan is something that is likely to be read.
type plan struct {
	opening
	idle int // transactions in a row that have not read it
}

const (
	maxAhead  = 16 // reads after the first one
	maxWanted = 64 // pairs that are read ahead
	maxIdle   = 3
)

// after returns what is likely to be read after first.
func (p *plans) after(first opening) []plan {
	all, _ := p.get(first.shape())
	return all[:min(len(all), maxAhead-int(p.less.Load()))]
}

// refused tells that the servers did not take a request because of so many reads.
func (p *plans) refused(reads int) {
	p.less.Store(max(p.less.Load(), int32(maxAhead-reads/2)))
}

// learn remembers what a transaction has read.
func (p *plans) learn(all []opening) {
	if len(all) == 0 {
		return
	}
	first := all[0].shape()
	old, there := p.get(first)
	if !there && len(all) == 1 {
		return
	}
	var fresh []plan
	for _, o := range all[1:] {
		if i := slices.IndexFunc(old, func(p plan) bool { return p.shape() == o.shape() }); i >= 0 {
			o.want = max(o.want, old[i].want)
		}
		fresh = append(fresh, plan{opening: o})
	}
	for _, o := range old {
		seen := slices.ContainsFunc(fresh, func(p plan) bool { return p.shape() == o.shape() })
		if o.idle++; !seen && o.idle < maxIdle && len(fresh) < maxAhead {
			fresh = append(fresh, o)
		}
	}
	p.set(first, fresh)
}

// opens notes that a Get or a loop begins. If it is the first of the transaction,
// what is likely to follow is read with the next request.
func (t *tx) opens(o opening) {
	if t.several || len(t.opened) > maxAhead {
		return
	}
	t.opened = append(t.opened, o)
	if t.rev != 0 || len(t.opened) > 1 {
		return
	}
	for _, next := range t.db.plans.after(o) {
		if next.key != "" {
			t.planned = append(t.planned, t.keyRequest([]byte(next.key), next.keysOnly))
			continue
		}
		if next.want == 0 || next.want > maxWanted {
			continue
		}
		c := newCursor(t, next.span(), next.reverse)
		c.keysOnly, c.want = next.keysOnly, next.want
		r, limit := c.first()
		t.planned = append(t.planned, c.request(r, limit))
	}
}

// mostTogether is how many ranges LastKeys asks for with one request, in which there is room for
// what is planned beside.
const mostTogether = 64

// LastKeys implements kv.LastKeys: what loops over these ranges would begin with is read with one
// request, and mostly that is all they need. For plans that is one opening, of the range that has
// them, so what else is read is known whatever the priorities of a push are; but to one priority
// other pushes go, too, and what they read is of that one.
func (r reader) LastKeys(spans []kv.Range, among kv.Range, to [][]byte) ([][]byte, error) {
	if len(spans) > 1 {
		r.opens(openingOf(among, true, true, 0))
		r.several = true
		defer func() { r.several = false }()
	}
	for part := range slices.Chunk(spans, mostTogether) {
		for _, span := range part[1:] { // the first is read with them
			r.planLast(span)
		}
		for _, span := range part {
			key, err := kv.LastKey(r, span, among)
			if err != nil {
				return nil, err
			}
			to = append(to, key)
		}
		r.planned = nil // if there was nothing to be read
	}
	return to, nil
}

// planLast has the end of a range read with what is read next.
func (t *tx) planLast(span kv.Range) {
	span, err := span.Bounds()
	if err != nil || bytes.Compare(span.Begin, span.End) >= 0 {
		return // the loop over it will tell
	}
	c := newCursor(t, span, true)
	c.keysOnly, c.want = true, 1
	t.planned = append(t.planned, c.request(c.first()))
}

// readAhead is what was read before it was asked for.
type readAhead struct {
	request  *pb.RangeRequest
	response *pb.RangeResponse
}

// hasRead returns the answer to r, if it was read ahead.
func (t *tx) hasRead(r *pb.RangeRequest) (*pb.RangeResponse, bool) {
	for i, a := range t.ahead {
		q := a.request
		if r.CountOnly || q.KeysOnly != r.KeysOnly || !bytes.Equal(q.Key, r.Key) || !bytes.Equal(q.RangeEnd, r.RangeEnd) {
			continue
		}
		if a.response.More && (r.Limit == 0 || r.Limit > q.Limit) {
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
