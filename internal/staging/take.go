package staging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/conq-go/conq/internal/outcome"
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
// returns the items after all. A transaction that is under way then is not given
// up before its outcome is known, unless that takes more than 5 s. If that fails,
// the error matches kv.ErrCommitUnknown where items may have been taken; if they
// have not, they go back at their deadline.
func Take[T any](ctx context.Context, s *Stage, side Side, n int,
	collect func(tx kv.Tx, items []kv.KeyValue) (T, error)) (none T, _ error) {
	if err := s.begin(); err != nil {
		return none, err
	}
	defer s.end()
	for {
		t := &taking[T]{s: s, side: side, n: n, collect: collect}
		v, err := t.run(ctx)
		if !errors.Is(err, errExpired) {
			return v, err
		}
	}
}

// grace is how long a client whose context has ended may take to leave.
const grace = 5 * time.Second

// errExpired means that the request, or its result, was not there any more.
var errExpired = errors.New("staging: request has expired")

// taking is one call of Take.
type taking[T any] struct {
	s       *Stage
	side    Side
	n       int
	collect func(kv.Tx, []kv.KeyValue) (T, error)

	op      []byte
	request *request // that was written
	leaving bool     // it is being withdrawn
	alone   bool     // a transaction for all was too large

	served <-chan error // tells that this process has served the request
	late   bool         // nothing has happened for Options.Takeover
	first  []byte       // key of the first request of all, when it was late the last time

	unwatch context.CancelFunc // ends the watches
}

// outlook is what a client finds in a transaction.
type outlook[T any] struct {
	found bool // its items, which it has taken
	items int  // how many
	value T    // what collect has made of them

	request   *request     // that is there, and not served
	first     []byte       // key of the first request of all
	watch     <-chan error // of the request, unless this process is to serve it
	fulfilled fulfilled
}

func (t *taking[T]) run(ctx context.Context) (v T, err error) {
	if t.op, err = t.s.newOp(); err != nil {
		return v, err
	}
	t.unwatch = func() {}
	t.served = t.s.o.News.Wait(string(t.op))
	finished := false
	defer func() {
		t.unwatch()
		t.s.o.News.Forget(string(t.op), nil)
		if !finished {
			t.giveBack(ctx)
		}
	}()
	v, err = t.loop(ctx)
	finished = true
	return v, err
}

// loop goes from one transaction to the next until the request has been served.
func (t *taking[T]) loop(ctx context.Context) (v T, err error) {
	takeover := time.NewTimer(t.s.o.Takeover)
	defer takeover.Stop()
	for {
		look, err := t.step(ctx)
		switch {
		case err != nil && (t.request == nil || errors.Is(err, errExpired)):
			return v, err
		case err != nil:
			return t.leave(ctx, err)
		case look.found:
			return t.done(look)
		case look.request == nil:
			continue
		}
		if t.late {
			t.first = look.first
			takeover.Reset(t.s.o.Takeover)
		}
		t.late = t.wait(ctx, look, takeover)
	}
}

// wait returns when there may be news. It returns true if there were none for
// too long.
func (t *taking[T]) wait(ctx context.Context, look outlook[T], takeover *time.Timer) bool {
	select {
	case <-look.watch:
	case <-t.served:
		t.served = nil // it is to be seen now
	case <-takeover.C:
		return true
	case <-t.s.closing:
	case <-ctx.Done():
	}
	return false
}

// step does what is to be done next, in a transaction: it takes the items, or sees to it that somebody
// serves it.
func (t *taking[T]) step(ctx context.Context) (outlook[T], error) {
	fulfilling, attempt := false, 0
	defer func() { // also if collect panics
		if fulfilling {
			t.s.endFulfilling()
		}
	}()
	look, err := transact(ctx, t, func(tx kv.Tx) (look outlook[T], err error) {
		if t.request != nil {
			return t.look(tx)
		}
		if t.s.serves() {
			kv.Prefetch(tx.Snapshot(), t.s.expectedReads(t.s.o.Requests)...)
		} else {
			kv.Prefetch(tx.Snapshot(), t.s.lastRequestRead())
		}
		now, err := t.s.role(tx)
		if err != nil {
			return look, err
		}
		attempt++ // in a later one others take, too: they are to see that there are requests
		if now != others && attempt == 1 && (fulfilling || t.s.startFulfilling()) {
			fulfilling = true
			return t.fulfil(tx, now)
		}
		return t.register(tx, now)
	})
	switch {
	case errors.Is(err, errDue):
		return outlook[T]{}, t.s.expire(ctx)
	case errors.Is(err, kv.ErrTooLarge) && fulfilling && !t.alone:
		t.alone = true
		return outlook[T]{}, nil
	case err != nil:
		return look, err
	}
	if look.request != nil && t.request == nil {
		t.s.o.Observe(Event{Registered, 1, t.n})
	}
	if look.request != nil {
		t.request = look.request
	}
	t.s.fulfilled(look.fulfilled)
	return look, nil
}

// fulfil serves requests and then takes own items, which need no request.
func (t *taking[T]) fulfil(tx kv.Tx, now role) (look outlook[T], err error) {
	var requests []request
	most := t.s.o.Items
	if t.alone {
		most = 1
	} else if requests, err = t.s.requests(tx, t.s.o.Requests); err != nil {
		return look, err
	}
	requests = append(requests, request{side: t.side, op: t.op, items: t.n, deadline: math.MaxInt64})
	f, mine, err := t.s.fulfil(tx, requests, most, t.op)
	if err != nil {
		return look, err
	}
	t.s.assume(tx, now)
	if mine != nil {
		look, err = t.collected(tx, mine.items)
	}
	look.fulfilled = f
	return look, err
}

// register writes the request, behind all others, and has the client woken up when it is served. If nobody
// is there to do that, this process will.
func (t *taking[T]) register(tx kv.Tx, now role) (look outlook[T], err error) {
	ticket, err := t.s.nextTicket(tx)
	if err != nil {
		return look, err
	}
	r := &request{key: t.s.keys.request(ticket, t.side, t.op), side: t.side, op: t.op, items: t.n, deadline: t.s.deadline()}
	tx.Set(r.key, state(r.items, r.deadline))
	return t.await(tx, r, now, now == vacant), nil
}

// await has the client woken up when its request is served. With assume this process will do that.
func (t *taking[T]) await(tx kv.Tx, r *request, now role, assume bool) (look outlook[T]) {
	look.request = r
	if assume {
		t.s.assume(tx, now)
		look.fulfilled.role = true
	} else if now == others {
		look.watch = tx.Watch(r.key)
	}
	return look
}

func (s *Stage) lastRequestRead() kv.Read { return oneOf(s.keys.all(requestKind), true) }

// nextTicket is the recipe of a queue: the last key, through a snapshot.
func (s *Stage) nextTicket(tx kv.Tx) (ticket int64, err error) {
	last := s.lastRequestRead()
	for pair, err := range tx.Snapshot().Range(last.Range, last.Options) {
		if err != nil {
			return 0, err
		}
		r, err := s.keys.parseRequest(pair)
		return r.ticket + 1, err
	}
	return 1, nil
}

// look collects the result if there is one. Otherwise it waits on, and takes the role if the one in it
// seems to be dead.
func (t *taking[T]) look(tx kv.Tx) (look outlook[T], err error) {
	if look, err = t.take(tx); err != nil || look.found {
		return look, err
	}
	value, err := tx.Get(t.request.key)
	if err == nil && value == nil {
		err = errExpired
	}
	if err != nil {
		return look, err
	}
	now, err := t.s.role(tx)
	if err != nil {
		return look, err
	}
	var first []byte
	if t.late {
		if first, err = t.s.firstRequest(tx); err != nil {
			return look, err
		}
	}
	stuck := t.late && (bytes.Equal(first, t.request.key) || bytes.Equal(first, t.first))
	look = t.await(tx, t.s.renewed(tx, t.request), now, stuck || now == vacant)
	look.first = first
	return look, nil
}

// renewed puts the deadline of a request off once half of its time is over, so that its client keeps its place in
// a long line, or before a slow store.
func (s *Stage) renewed(tx kv.Tx, r *request) *request {
	if !s.past(r.deadline - int64(s.o.Lease/2)) {
		return r
	}
	later := *r
	later.deadline = s.deadline()
	tx.Set(later.key, state(later.items, later.deadline))
	return &later
}

// firstRequest returns the key of the first request of all, through a snapshot.
func (s *Stage) firstRequest(r kv.Reader) ([]byte, error) {
	for first, err := range r.Snapshot().Range(s.keys.all(requestKind), kv.RangeOptions{Limit: 1}) {
		return first.Key, err
	}
	return nil, nil
}

// take takes the items of the own result, if there is one.
func (t *taking[T]) take(tx kv.Tx) (look outlook[T], err error) {
	r, found, err := t.s.takeResult(tx, t.request.deadline, t.op)
	if err != nil || !found {
		return look, err
	}
	return t.collected(tx, r.items)
}

// collected passes the items that the client gets to collect.
func (t *taking[T]) collected(tx kv.Tx, items []kv.KeyValue) (look outlook[T], err error) {
	look.found, look.items = true, len(items)
	if len(items) > 0 {
		look.value, err = t.collect(tx, items)
	}
	return look, err
}

// done reports what was collected.
func (t *taking[T]) done(look outlook[T]) (T, error) {
	t.s.o.Observe(Event{Collected, 1, look.items})
	if look.items == 0 {
		return look.value, ErrEmpty
	}
	return look.value, nil
}

// giveBack is for a collect that has panicked, or has ended its goroutine: the request goes, or what it
// was served goes back. If that fails, its deadline comes.
func (t *taking[T]) giveBack(ctx context.Context) {
	if t.request == nil {
		return
	}
	t.collect = func(tx kv.Tx, items []kv.KeyValue) (none T, err error) { return none, t.s.putBack(tx, items) }
	_, _ = t.withdraw(ctx)
}

// leave withdraws the request after err.
func (t *taking[T]) leave(ctx context.Context, err error) (none T, _ error) {
	look, leaving := t.withdraw(ctx)
	switch {
	case leaving != nil && (!errors.Is(leaving, err) || errors.Is(leaving, kv.ErrCommitUnknown)):
		return none, fmt.Errorf("%w (and leaving the queue failed: %w)", err, leaving)
	case leaving == nil && look.items > 0:
		return t.done(look)
	}
	return none, err
}

// withdraw takes the request back, or collects its result if it has one.
func (t *taking[T]) withdraw(ctx context.Context) (outlook[T], error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	t.leaving = true
	return transact(ctx, t, func(tx kv.Tx) (outlook[T], error) {
		look, err := t.take(tx)
		if err != nil || look.found {
			return look, err
		}
		mine, err := tx.Get(t.request.key)
		if mine != nil {
			tx.Clear(t.request.key)
		}
		return look, err
	})
}

// transact runs a transaction of t. Its watches end with those of the next one,
// or with t. After ctx has ended it starts no attempt, but does find out what has
// become of the last one.
func transact[T any](ctx context.Context, t *taking[T], f func(kv.Tx) (outlook[T], error)) (outlook[T], error) {
	t.unwatch()
	patient, cancel := outlive(ctx, grace)
	t.unwatch = cancel
	return outcome.Do(patient, t.s.lanes, func(tx kv.Tx) (look outlook[T], err error) {
		if ctx.Err() != nil {
			return look, context.Cause(ctx)
		}
		if err := t.s.isClosed(); err != nil && !t.leaving {
			return look, err
		}
		return f(tx)
	})
}

// outlive returns a context that ends so much later than ctx does, or when it is
// canceled.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		late := time.AfterFunc(by, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(longer, func() { late.Stop() })
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}
