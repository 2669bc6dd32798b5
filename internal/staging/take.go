package staging

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/kv"
)

// Take takes up to n items from a side of the queue by staging, and returns what
// collect makes of them, or ErrEmpty. It waits for its turn, not for items.
//
// collect runs in the transaction that ends the taking, possibly several times:
// the items are neither in the queue nor in the result any more, and what it
// leaves undone, it can Set back under its key. An error of collect ends that
// transaction, and the items wait for their deadline to be put back. It must not
// keep tx.
//
// When ctx ends, the request is withdrawn; if it has been served already, Take
// returns the items after all. If that fails too, the items go back at their
// deadline.
func Take[T any](ctx context.Context, s *Stage, side Side, n int,
	collect func(tx kv.Tx, items []kv.KeyValue) (T, error)) (T, error) {
	for {
		t := &taking[T]{s: s, side: side, n: n, collect: collect}
		v, err := t.run(ctx)
		if !errors.Is(err, errExpired) {
			return v, err
		}
	}
}

// errExpired means that the request, or its result, was not there any more.
var errExpired = errors.New("staging: request has expired")

// taking is one call of Take.
type taking[T any] struct {
	s       *Stage
	side    Side
	n       int
	collect func(kv.Tx, []kv.KeyValue) (T, error)

	op  []byte
	key []byte // of the request
}

// outlook is what a client knows after it has looked.
type outlook struct {
	mine  <-chan error // watches the own request
	first <-chan error // watches the first one of all
	lead  bool         // that is the own one
}

func (t *taking[T]) run(ctx context.Context) (v T, err error) {
	ctx, cancel := context.WithCancel(ctx) // ends the watches
	defer cancel()
	if t.op, err = t.s.newOp(); err != nil {
		return v, err
	}
	look, err := t.register(ctx)
	if err != nil {
		return v, err
	}
	takeover := time.NewTimer(t.s.o.Takeover)
	defer takeover.Stop()
	for {
		var done bool
		if look.lead {
			v, done, err = t.fulfil(ctx)
		} else if look.lead = t.wait(ctx, look, takeover); look.lead {
			takeover.Reset(t.s.o.Takeover)
			continue
		}
		if !done && err == nil {
			v, look, done, err = t.look(ctx)
		}
		switch {
		case done, errors.Is(err, errExpired):
			return v, err
		case err != nil:
			return t.leave(ctx, err)
		}
	}
}

// register writes the request.
func (t *taking[T]) register(ctx context.Context) (outlook, error) {
	look, err := once(ctx, t.s, func(tx kv.Tx) (outlook, error) {
		ticket, err := t.s.nextTicket(tx, t.side)
		if err != nil {
			return outlook{}, err
		}
		t.key = t.s.keys.request(t.side, ticket, t.op)
		tx.Set(t.key, state(t.n, t.s.deadline()))
		return t.watch(tx)
	})
	if err == nil {
		t.s.o.Observe(Event{Registered, 1, t.n})
	}
	return look, err
}

// nextTicket is the recipe of a queue: the last key, through a snapshot.
func (s *Stage) nextTicket(tx kv.Tx, side Side) (int64, error) {
	span := kv.PrefixRange(s.keys.side(side))
	for last, err := range tx.Snapshot().Range(span, kv.RangeOptions{Limit: 1, Reverse: true}) {
		if err != nil {
			return 0, err
		}
		r, err := s.keys.parseRequest(last)
		return r.ticket + 1, err
	}
	return 1, nil
}

// watch starts the watches that wake the client up: of its own request, and of
// the first of all, whose owner is the one who fulfils.
func (t *taking[T]) watch(tx kv.Tx) (look outlook, err error) {
	look.mine = tx.Watch(t.key)
	for first, err := range tx.Snapshot().Range(t.s.keys.all(requestKind), kv.RangeOptions{Limit: 1}) {
		if err != nil {
			return look, err
		}
		if look.lead = string(first.Key) == string(t.key); !look.lead {
			look.first = tx.Watch(first.Key)
		}
	}
	return look, nil
}

// wait returns when there may be news. It returns true if the client should
// fulfil by itself, since there were none for too long.
func (t *taking[T]) wait(ctx context.Context, look outlook, takeover *time.Timer) bool {
	select {
	case <-look.mine:
	case <-look.first:
	case <-takeover.C:
		return true
	case <-ctx.Done():
	}
	return false
}

// look collects the result if there is one, and watches again if there is none.
func (t *taking[T]) look(ctx context.Context) (v T, look outlook, done bool, err error) {
	type seen struct {
		outlook
		collected
		v T
	}
	now, err := once(ctx, t.s, func(tx kv.Tx) (now seen, err error) {
		now.v, now.collected, err = t.take(tx)
		if err != nil || now.collected.found {
			return now, err
		}
		value, err := tx.Get(t.key)
		if err == nil && value == nil {
			err = errExpired
		}
		if err == nil {
			now.outlook, err = t.watch(tx)
		}
		return now, err
	})
	if err != nil || !now.found {
		return v, now.outlook, false, err
	}
	v, err = t.done(now.v, now.collected)
	return v, look, true, err
}

// collected is what became of an attempt to collect.
type collected struct {
	found bool // there was a result
	items int
}

// done reports what was collected.
func (t *taking[T]) done(v T, c collected) (T, error) {
	t.s.o.Observe(Event{Collected, 1, c.items})
	if c.items == 0 {
		return v, ErrEmpty
	}
	return v, nil
}

// take clears the own result and passes its items to collect.
func (t *taking[T]) take(tx kv.Tx) (v T, c collected, err error) {
	items, found, err := t.s.clearResult(tx, t.op)
	if err != nil || !found {
		return v, c, err
	}
	c = collected{true, len(items)}
	if len(items) > 0 {
		v, err = t.collect(tx, items)
	}
	return v, c, err
}

// clearResult reads and clears the result of op, if it has one.
func (s *Stage) clearResult(tx kv.Tx, op []byte) (items []kv.KeyValue, found bool, err error) {
	key := s.keys.result(op)
	value, err := tx.Get(key) // whoever clears the result has read it: one of two loses
	if err != nil || value == nil {
		return nil, false, err
	}
	n, deadline, err := parseState(kv.KeyValue{Key: key, Value: value})
	if err != nil {
		return nil, true, err
	}
	for pair, err := range tx.Snapshot().Range(s.keys.items(op), kv.RangeOptions{}) {
		if err != nil {
			return nil, true, err
		}
		item, err := s.keys.parseItem(pair)
		if err != nil {
			return nil, true, err
		}
		items = append(items, item)
		tx.Clear(pair.Key)
	}
	if len(items) != n {
		return nil, true, broken(key, fmt.Errorf("it has %d items and should have %d", len(items), n))
	}
	tx.Clear(key)
	tx.Clear(s.keys.due(deadline, op))
	return items, true, nil
}

// grace is how long a client whose context has ended may take to leave.
const grace = 5 * time.Second

// leave takes the request back after err, or collects its result if it has one.
func (t *taking[T]) leave(ctx context.Context, err error) (T, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	type left struct {
		collected
		v T
	}
	now, leaving := once(ctx, t.s, func(tx kv.Tx) (now left, err error) {
		now.v, now.collected, err = t.take(tx)
		if err != nil || now.found {
			return now, err
		}
		value, err := tx.Get(t.key)
		if value != nil {
			tx.Clear(t.key)
		}
		return now, err
	})
	var none T
	switch {
	case leaving != nil && !errors.Is(leaving, err):
		return none, fmt.Errorf("%w (and leaving the queue failed: %w)", err, leaving)
	case leaving == nil && now.found && now.items > 0:
		return t.done(now.v, now.collected)
	}
	return none, err
}
