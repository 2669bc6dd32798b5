package staging

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
)

// Callers are the callers for which items are taken together.
type Callers interface {
	// Staying tells whether all of them still want what they wanted. It is called at
	// each attempt of a transaction, and changes nothing.
	Staying() bool

	// Regroup lets callers go that do not, and returns how many items the others want;
	// if that is 0, Take returns ErrNobody. It is called while nothing is reserved for
	// any of them.
	Regroup() (n int)
}

// ErrNobody means that none of the callers wants anything any more.
var ErrNobody = errors.New("staging: nobody wants items")

// Take takes up to n items from a side of the queue by staging, and returns what
// collect makes of them, or ErrEmpty. It waits for its turn, not for items.
//
// collect runs in the transaction that ends the taking, possibly several times:
// the items are neither in the queue nor in the result any more, and what it
// leaves undone, it can Set back under its key. An error of collect ends that
// transaction, and the items wait for their deadline to be put back. It must not
// keep tx.
//
// callers may be nil. If some of them give up, the request is withdrawn, and then takes its
// place again for what the others want. Callers that were served before that are not let go:
// their items, once back in the queue, would come after others that were taken meanwhile.
//
// When ctx ends, the request is withdrawn; if it has been served already, Take
// returns the items after all. A transaction that is under way then is not given
// up before its outcome is known, unless that takes more than 5 s. If that fails,
// the error matches kv.ErrCommitUnknown where items may have been taken; if they
// have not, they go back at their deadline.
func Take[T any](ctx context.Context, s *Stage, side Side, n int, callers Callers,
	collect func(tx kv.Tx, items []kv.KeyValue) (T, error)) (none T, _ error) {
	if err := s.begin(); err != nil {
		return none, err
	}
	defer s.end()
	for {
		t := &taking[T]{s: s, side: side, n: n, callers: callers, collect: collect}
		v, err := t.run(ctx)
		if !errors.Is(err, errExpired) {
			return v, err
		}
		if callers != nil {
			n = callers.Regroup()
		}
		if n == 0 {
			return none, ErrNobody
		}
	}
}

// grace is how long a client whose context has ended may take to leave.
const grace = 5 * time.Second

// errExpired means that the request, or its result, was not there any more.
var errExpired = errors.New("staging: request has expired")

// errGivenUp ends a transaction if some of the callers have given up.
var errGivenUp = errors.New("staging: a caller has given up")

// taking is one call of Take.
type taking[T any] struct {
	s       *Stage
	side    Side
	n       int
	callers Callers // or nil
	collect func(kv.Tx, []kv.KeyValue) (T, error)

	op         []byte
	key        []byte // of the request
	registered bool   // it is there, or has been served
	leaving    bool   // it is being withdrawn
	served     <-chan struct{}

	first []byte // key of the first request of all, when the client last looked
	stuck bool   // nothing has happened for too long
	alone bool   // a transaction for all was too large

	unwatch context.CancelFunc // ends the watches
}

// outlook is what a client finds in a transaction.
type outlook[T any] struct {
	found bool // its result, which it has taken
	items int  // how many items that had
	value T    // what collect has made of them

	holder holder       // of the role
	turn   bool         // it is to fulfil
	key    []byte       // of the request, which it has written
	first  []byte       // key of the first request of all
	waits  bool         // for its request to be served
	mine   <-chan error // watches the own request, unless this process is to serve it

	fulfilled fulfilled
}

func (t *taking[T]) run(ctx context.Context) (v T, err error) {
	if t.op, err = t.s.newOp(); err != nil {
		return v, err
	}
	t.served = t.s.expect(t.op)
	t.unwatch = func() {}
	finished := false
	defer func() {
		t.unwatch()
		t.s.tell(t.op)
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
		if errors.Is(err, errGivenUp) {
			look, err = t.regroup(ctx)
		}
		switch {
		case err != nil && (!t.registered || errors.Is(err, errExpired)):
			return v, err
		case err != nil:
			return t.leave(ctx, err)
		case look.found:
			return t.done(look)
		}
		if t.stuck && look.waits {
			takeover.Reset(t.s.o.Takeover)
			t.first, t.stuck = look.first, false
		}
		if look.waits {
			t.stuck = t.wait(ctx, look, takeover)
		}
	}
}

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

// wait returns when there may be news. It returns true if there were none for
// too long.
func (t *taking[T]) wait(ctx context.Context, look outlook[T], takeover *time.Timer) bool {
	select {
	case <-look.mine:
	case <-t.served:
		t.served = nil // it is to be seen now
	case <-takeover.C:
		return true
	case <-t.s.closing:
	case <-ctx.Done():
	}
	return false
}

// step does what is to be done next: it collects the result, or fulfils, or
// registers, or goes on waiting.
func (t *taking[T]) step(ctx context.Context) (look outlook[T], err error) {
	fulfilling, attempt := false, 0
	defer func() { // also if collect panics
		if fulfilling {
			t.s.endFulfilling()
		}
	}()
	look, err = transact(ctx, t, func(tx kv.Tx) (look outlook[T], err error) {
		look, err = t.look(tx)
		if attempt++; attempt > 1 && !t.registered {
			look.turn = false // others take, too: they are to see that there are requests
		}
		if err == nil && look.turn && (fulfilling || t.s.startFulfilling()) {
			fulfilling = true
			look, err = t.fulfil(tx, look)
		}
		if err != nil || look.found {
			return look, err
		}
		return look, t.await(tx, &look)
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
	if look.key != nil && !t.registered {
		t.key, t.registered = look.key, true
		t.s.o.Observe(Event{Registered, 1, t.n})
	}
	t.s.fulfilledBy(look.fulfilled)
	return look, nil
}

// look collects the result if there is one, and otherwise finds out whether it is up to this client
// to fulfil: because nobody has the role, or this process has it, or the one who has it seems to be dead.
func (t *taking[T]) look(tx kv.Tx) (look outlook[T], err error) {
	if t.registered {
		if look, err = t.take(tx); err != nil || look.found {
			return look, err
		}
		mine, err := tx.Get(t.key)
		if err == nil && mine == nil {
			err = errExpired
		}
		if err == nil {
			err = t.renew(tx, mine)
		}
		if err != nil {
			return look, err
		}
	}
	if !t.registered {
		kv.Prefetch(tx.Snapshot(), t.s.expectedReads()...)
	}
	if look.holder, err = t.s.holder(tx); err != nil {
		return look, err
	}
	look.turn = !look.holder.live && (t.registered || t.key == nil) || look.holder.own && t.key == nil
	if !t.stuck {
		return look, nil
	}
	if look.first, err = t.s.firstRequest(tx); err != nil {
		return look, err
	}
	if look.holder.own || bytes.Equal(look.first, t.key) || bytes.Equal(look.first, t.first) {
		look.turn = true
	}
	return look, nil
}

// firstRequest returns the key of the first request of all, through a snapshot.
func (s *Stage) firstRequest(r kv.Reader) ([]byte, error) {
	for first, err := range r.Snapshot().Range(s.keys.all(requestKind), kv.RangeOptions{Limit: 1}) {
		return first.Key, err
	}
	return nil, nil
}

// await writes the request, behind all others or where it was before, unless it is there, and has the
// client woken up when it is served. If nobody is there to serve it, this process will.
func (t *taking[T]) await(tx kv.Tx, look *outlook[T]) error {
	look.waits = true
	if look.key = t.key; look.key == nil {
		ticket, err := t.s.nextTicket(tx)
		if err != nil {
			return err
		}
		look.key = t.s.keys.request(ticket, t.side, t.op)
	}
	if !t.registered {
		tx.Set(look.key, state(t.n, t.s.deadline()))
	}
	if !t.registered && !look.holder.live {
		t.s.hold(tx, look.holder)
		look.fulfilled.claimed = true
	} else if !look.holder.own {
		look.mine = tx.Watch(look.key)
	}
	return nil
}

// renew puts the deadline of the own request off when half of the time is over.
func (t *taking[T]) renew(tx kv.Tx, value []byte) error {
	items, deadline, err := parseState(kv.KeyValue{Key: t.key, Value: value})
	if err != nil {
		return err
	}
	if t.s.past(deadline - int64(t.s.o.Lease/2)) {
		tx.Set(t.key, state(items, t.s.deadline()))
	}
	return nil
}

// take clears the own result, if there is one, and passes its items to collect.
func (t *taking[T]) take(tx kv.Tx) (look outlook[T], err error) {
	items, found, err := t.s.clearResult(tx, t.op)
	if err != nil || !found {
		return look, err
	}
	return t.collected(tx, look, items)
}

// collected passes the items that the client gets to collect.
func (t *taking[T]) collected(tx kv.Tx, look outlook[T], items []kv.KeyValue) (outlook[T], error) {
	look.found, look.items = true, len(items)
	if len(items) == 0 {
		return look, nil
	}
	var err error
	look.value, err = t.collect(tx, items)
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

// regroup withdraws the request, unless it was served, and lets callers go that have given
// up. The request is to be registered anew, then, for the others.
func (t *taking[T]) regroup(ctx context.Context) (look outlook[T], err error) {
	if t.registered {
		look, err = t.withdraw(ctx)
		if err != nil || look.found {
			return look, err
		}
		t.registered = false
	}
	if t.n = t.callers.Regroup(); t.n == 0 {
		return look, ErrNobody
	}
	return look, nil
}

// withdraw takes the request back, or collects its result if it has one.
func (t *taking[T]) withdraw(ctx context.Context) (outlook[T], error) {
	t.leaving = true
	defer func() { t.leaving = false }()
	return transact(ctx, t, func(tx kv.Tx) (outlook[T], error) {
		look, err := t.take(tx)
		if err != nil || look.found {
			return look, err
		}
		return look, t.unregister(tx)
	})
}

// giveBack is for a collect that has panicked, or has ended its goroutine: the request goes, or what it
// was served goes back. If that fails, its deadline comes.
func (t *taking[T]) giveBack(ctx context.Context) {
	if !t.registered {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	_, _ = outcome.Do(ctx, t.s.lanes, func(tx kv.Tx) (none struct{}, err error) {
		items, served, err := t.s.clearResult(tx, t.op)
		if err != nil {
			return none, err
		}
		if !served {
			return none, t.unregister(tx)
		}
		for _, item := range items {
			tx.Set(item.Key, item.Value)
		}
		if len(items) == 0 {
			return none, nil
		}
		return none, t.s.o.PutBack(tx)
	})
}

// unregister removes the request, if it is still there.
func (t *taking[T]) unregister(tx kv.Tx) error {
	mine, err := tx.Get(t.key)
	if mine != nil {
		tx.Clear(t.key)
	}
	return err
}

// leave withdraws the request after err.
func (t *taking[T]) leave(ctx context.Context, err error) (none T, _ error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	look, leaving := t.withdraw(ctx)
	switch {
	case leaving != nil && (!errors.Is(leaving, err) || errors.Is(leaving, kv.ErrCommitUnknown)):
		return none, fmt.Errorf("%w (and leaving the queue failed: %w)", err, leaving)
	case leaving == nil && look.items > 0:
		return t.done(look)
	}
	return none, err
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
		if err := t.goesOn(tx); err != nil {
			return look, err
		}
		return f(tx)
	})
}

// goesOn returns why an attempt is not to go on with the taking, if so. While an
// earlier one may have ended it, it goes on.
func (t *taking[T]) goesOn(tx kv.Tx) error {
	if t.leaving {
		return nil
	}
	if err := t.s.isClosed(); err != nil {
		return err
	}
	if t.callers != nil && !kv.Unsettled(tx) && !t.callers.Staying() {
		return errGivenUp
	}
	return nil
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
