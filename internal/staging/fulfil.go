package staging

import (
	"errors"
	"iter"
	"time"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/kv"
)

// errDue means that results have to be put back first: they may hold the items
// that are next.
var errDue = errors.New("staging: results are due")

// fulfilled is what a transaction has served.
type fulfilled struct {
	ops   [][]byte // of requests
	items int
	role  bool // this process has the role since
}

// fulfil serves as many requests as fit into the transaction, with up to most items. It leaves results
// for their owners, but returns that of own, if that was served.
func (s *Stage) fulfil(tx kv.Tx, requests []request, most int, own []byte) (f fulfilled, mine *result, err error) {
	if err := s.checkDue(tx); err != nil {
		return f, nil, err
	}
	all := newFulfilment(s, tx, most)
	defer all.stop()
	if err := all.serve(requests); err != nil {
		return f, nil, err
	}
	f.role = true
	for i, r := range all.results {
		f.ops = append(f.ops, r.op)
		f.items += len(r.items)
		if string(r.op) == string(own) {
			mine = &all.results[i]
		} else {
			s.setResult(tx, r)
		}
	}
	return f, mine, nil
}

func (s *Stage) requestsRead(limit int) kv.Read {
	return kv.Read{Range: s.keys.all(requestKind), Options: kv.RangeOptions{Limit: limit}}
}

// expectedReads are those of a transaction that fulfils, beside the role and the items.
func (s *Stage) expectedReads(requests int) []kv.Read {
	return []kv.Read{s.requestsRead(requests), s.dueRead()}
}

// requests returns the first requests, up to a limit, in order of arrival.
func (s *Stage) requests(r kv.Reader, limit int) (all []request, err error) {
	first := s.requestsRead(limit)
	for pair, err := range r.Snapshot().Range(first.Range, first.Options) {
		if err != nil {
			return nil, err
		}
		r, err := s.keys.parseRequest(pair)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// How many operations it takes to serve a request, without and for each of its
// items; and how many are kept for the own request and the outcome key.
const (
	perRequest = 2
	perItem    = 3
)

// fulfilment pairs requests with items in one transaction.
type fulfilment struct {
	s       *Stage
	tx      kv.Tx
	now     time.Time // of all its decisions: clocks may step back
	ends    [sides]end
	taken   map[string]bool // keys of items
	results []result

	items, bytes, operations int // room that is left
}

// end is an end of the queue.
type end struct {
	next      func() (kv.KeyValue, error, bool)
	stop      func()
	exhausted bool // somebody was told that there is no more
}

func newFulfilment(s *Stage, tx kv.Tx, most int) *fulfilment {
	f := &fulfilment{
		s: s, tx: tx, now: s.o.Now(), taken: make(map[string]bool),
		items: most, bytes: s.o.Bytes, operations: room(s.db.Limits()),
	}
	return f
}

// room returns how many operations there are for requests and their items in a transaction: enough to serve one item
// at least.
func room(l kv.Limits) int { return max(budget.Of(l).Operations, perRequest+perItem) }

// past tells whether the deadline of a request has passed.
func (f *fulfilment) past(r request) bool { return f.now.After(time.Unix(0, r.deadline)) }

// open has items come from the ends at which requests want any. Each item that is
// looked at is one that somebody takes: that bounds how many are to be fetched.
func (f *fulfilment) open(requests []request) {
	limit, wanted := 0, [sides]bool{}
	for _, r := range requests {
		if !f.past(r) {
			limit = min(f.items, limit+min(r.items, f.items))
			wanted[r.side] = true
		}
	}
	for side := range f.ends {
		if wanted[side] {
			e := &f.ends[side]
			e.next, e.stop = iter.Pull2(f.s.o.Source.Items(f.tx.Snapshot(), Side(side), max(limit, 1)))
		}
	}
}

func (f *fulfilment) stop() {
	for _, e := range f.ends {
		if e.stop != nil {
			e.stop()
		}
	}
}

// serve serves requests in their order, as long as there is room. One whose
// deadline has passed is dropped: its client has died, or is so late that it has
// to come again.
func (f *fulfilment) serve(requests []request) error {
	f.open(requests)
	for _, r := range requests {
		if f.operations < perRequest+perItem {
			break
		}
		f.operations -= perRequest
		if f.past(r) {
			f.clear(r)
			continue
		}
		items, err := f.take(r)
		if err != nil {
			return err
		}
		if len(items) == 0 && !f.ends[r.side].exhausted {
			break // the next item does not fit, or there is no room for any
		}
		f.clear(r)
		f.results = append(f.results, result{r.deadline, r.op, items})
	}
	return nil
}

// clear clears a request that nobody else has served: the read conflict is what
// lets only one fulfiller of two commit.
func (f *fulfilment) clear(r request) {
	if r.key == nil {
		return // it was never written
	}
	f.tx.AddReadConflict(kv.KeyRange(r.key))
	f.tx.Clear(r.key)
}

// take clears the items that r gets: those that are left at its end, and fit. The
// first one of all always does.
func (f *fulfilment) take(r request) (items []kv.KeyValue, err error) {
	e := &f.ends[r.side]
	for len(items) < r.items && f.items > 0 && f.bytes > 0 && f.operations >= perItem && !e.exhausted {
		item, err, ok := e.next()
		switch {
		case err != nil:
			return nil, err
		case !ok:
			e.exhausted = true
		case f.taken[string(item.Key)]: // from the other end
		case f.spend(item) || len(f.taken) == 0:
			f.taken[string(item.Key)] = true
			f.tx.AddReadConflict(kv.KeyRange(item.Key)) // others may want it, too
			f.tx.Clear(item.Key)
			items = append(items, item)
		}
	}
	return items, nil
}

// spend takes off what an item costs, and tells whether it was there. Its further keys are
// read and cleared by the client that collects it.
func (f *fulfilment) spend(item kv.KeyValue) bool {
	n := f.s.o.Source.Keys(item.Key)
	f.items--
	f.bytes -= len(item.Key) + n*(len(item.Key)+len(item.Value))
	f.operations -= perItem + n - 1
	return f.bytes >= 0 && f.operations >= 0
}
