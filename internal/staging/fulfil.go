package staging

import (
	"context"
	"errors"
	"iter"

	"github.com/conq-go/conq/kv"
)

// errDue means that results have to be put back first: they may hold the items
// that are next.
var errDue = errors.New("staging: results are due")

// fulfil serves all requests that it can in one transaction, the own one
// directly. done tells that it was among them.
func (t *taking[T]) fulfil(ctx context.Context) (v T, done bool, err error) {
	s := t.s
	select {
	case s.fulfilling <- struct{}{}:
		defer func() { <-s.fulfilling }()
	default:
		return v, false, s.awaitFulfiller(ctx)
	}
	type outcome struct {
		collected
		batch Event
		v     T
	}
	serve := func(tx kv.Tx) (now outcome, err error) {
		own, batch, err := s.serve(tx, t.op)
		now.batch = batch
		if err != nil || own == nil {
			return now, err
		}
		now.collected = collected{true, len(own.items)}
		if len(own.items) > 0 {
			now.v, err = t.collect(tx, own.items)
		}
		return now, err
	}
	now, err := once(ctx, s, serve)
	for errors.Is(err, errDue) {
		if err = s.expire(ctx); err == nil {
			now, err = once(ctx, s, serve)
		}
	}
	if err != nil {
		return v, false, err
	}
	if now.batch.Requests > 0 {
		s.o.Observe(now.batch)
	}
	if !now.found {
		return v, false, nil
	}
	v, err = t.done(now.v, now.collected)
	return v, true, err
}

// awaitFulfiller returns when whoever fulfils in this process has done so.
func (s *Stage) awaitFulfiller(ctx context.Context) error {
	select {
	case s.fulfilling <- struct{}{}:
		<-s.fulfilling
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// served is a request and the items that it gets.
type served struct {
	request
	items []kv.KeyValue
}

// serve pairs requests with items. The request of op is not given a result but
// returned, if it is among them.
func (s *Stage) serve(tx kv.Tx, op []byte) (own *served, batch Event, err error) {
	if err := s.checkDue(tx); err != nil {
		return nil, batch, err
	}
	requests, stale, err := s.requests(tx)
	if err != nil {
		return nil, batch, err
	}
	for _, r := range stale {
		s.clearRequest(tx, r)
	}
	all, err := s.pair(tx, requests)
	if err != nil {
		return nil, batch, err
	}
	batch.Kind = Fulfilled
	for i := range all {
		r := &all[i]
		batch.Requests++
		batch.Items += len(r.items)
		s.clearRequest(tx, r.request)
		for _, item := range r.items {
			tx.Clear(item.Key)
		}
		if string(r.op) == string(op) {
			own = r
			continue
		}
		s.setResult(tx, r)
	}
	return own, batch, nil
}

// requests returns the requests that are to be served, in order of arrival for
// each side, and those whose deadline has passed: their clients have died, or
// are so late that they have to come again.
func (s *Stage) requests(tx kv.Tx) (live, stale []request, err error) {
	opts := kv.RangeOptions{Limit: s.o.Requests}
	for _, side := range []Side{Front, Back} {
		for pair, err := range tx.Snapshot().Range(kv.PrefixRange(s.keys.side(side)), opts) {
			if err != nil {
				return nil, nil, err
			}
			r, err := s.keys.parseRequest(pair)
			if err != nil {
				return nil, nil, err
			}
			if s.past(r.deadline) {
				stale = append(stale, r)
			} else {
				live = append(live, r)
			}
		}
	}
	return live, stale, nil
}

// clearRequest clears a request that nobody else has served: the read conflict
// is what lets only one fulfiller of two commit.
func (s *Stage) clearRequest(tx kv.Tx, r request) {
	tx.AddReadConflict(kv.KeyRange(r.key))
	tx.Clear(r.key)
}

func (s *Stage) setResult(tx kv.Tx, r *served) {
	deadline := s.deadline()
	tx.Set(s.keys.result(r.op), state(len(r.items), deadline))
	tx.Set(s.keys.due(deadline, r.op), nil)
	for i, item := range r.items {
		tx.Set(s.keys.item(r.op, i, item.Key), item.Value)
	}
}

// pair gives items to requests, both in their order, and conflicts on what that
// depends on. It leaves out requests for which the transaction has no room.
func (s *Stage) pair(tx kv.Tx, requests []request) (all []served, err error) {
	p := pairing{s: s, tx: tx, items: s.o.Items, bytes: s.o.Bytes, taken: make(map[string]bool)}
	for _, side := range []Side{Front, Back} {
		if err := p.pair(requests, side); err != nil {
			return nil, err
		}
	}
	return p.served, nil
}

// pairing is a transaction's worth of requests with their items.
type pairing struct {
	s            *Stage
	tx           kv.Tx
	items, bytes int             // room that is left
	taken        map[string]bool // keys of items
	served       []served
}

// pair serves the requests of a side.
func (p *pairing) pair(requests []request, side Side) error {
	next, stop := iter.Pull2(p.s.o.Source.Items(p.tx.Snapshot(), side))
	defer stop()
	var last []byte
	started, exhausted := false, false
	for _, r := range requests {
		if r.side != side {
			continue
		}
		if p.items <= 0 || p.bytes <= 0 {
			break
		}
		started = true
		got := served{request: r}
		for len(got.items) < r.items && p.items > 0 && p.bytes > 0 && !exhausted {
			item, err, ok := next()
			if err != nil {
				return err
			}
			if exhausted = !ok; ok && p.take(item) {
				got.items = append(got.items, item)
				last = item.Key
			}
		}
		p.served = append(p.served, got)
	}
	if !started {
		return nil
	}
	if exhausted {
		last = nil // somebody was told that there is no more
	}
	for _, r := range p.s.o.Source.Covered(side, last) {
		p.tx.AddReadConflict(r)
	}
	return nil
}

// take makes room for an item, which may be the last one to fit, and tells
// whether it was still there to be taken.
func (p *pairing) take(item kv.KeyValue) bool {
	if p.taken[string(item.Key)] {
		return false
	}
	p.taken[string(item.Key)] = true
	p.items--
	p.bytes -= 2*len(item.Key) + len(item.Value)
	return true
}
