package kv

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"time"
)

// Once is a lane of transactions whose outcome is always known. Over a network
// a commit may fail with [ErrCommitUnknown]: to run the transaction again could
// do its work twice, not to run it could lose it. [TransactOnce] finds out.
//
// A lane owns one key of the store. Each transaction that writes also reads this
// outcome key, with a conflict, and sets it to an id of its own. Hence of two
// transactions of a lane that have read the same state of the key only one can
// commit, whatever the network does to their commits. After an unknown outcome
// the next attempt looks at the key: if it holds the id of an earlier attempt,
// that one has committed, and its result is the result; if not, the function
// runs again, and its commit makes sure that no earlier attempt can land later.
//
// What it costs, on stores where [Limits].UnknownCommits is set: a read conflict
// and a write of len(key) + 29 bytes in each transaction that writes, and that
// the transactions of a lane run one after the other, as they would conflict.
// Those of different lanes don't. So give each handle, or each of its
// directions, a lane, and combine calls that come at the same time. On other
// stores a lane costs nothing, and its key is not touched.
//
// The key has to belong to one lane at a time, over all processes: two that
// share it take each other's ids for a sign that their own attempts failed. A
// random part in the key sees to that; [Once.Forget] removes it in the end, and
// [ForgetOutcomes] those of processes that have died. It should lie where no range is
// read that matters to others.
//
// A Once is safe for concurrent use.
type Once struct {
	db     DB
	key    []byte
	random io.Reader
	needed bool          // commits may be unknown
	busy   chan struct{} // full while a transaction of the lane is under way

	checked bool // what is at the key may be overwritten; guarded by busy
}

// errNoLane is the error of a lane that is nil, or the zero value.
var errNoLane = fmt.Errorf("%w: a Once must be made by NewOnce", ErrInvalid)

// NewOnce returns the lane with the given outcome key. It does not touch the
// store. Ids are read from random, 16 bytes a call, one read at a time; they
// must not repeat. Nil is crypto/rand.
func NewOnce(db DB, key []byte, random io.Reader) *Once {
	if random == nil {
		random = rand.Reader
	}
	return &Once{
		db: db, key: bytes.Clone(key), random: random,
		needed: db.Limits().UnknownCommits,
		busy:   make(chan struct{}, 1),
	}
}

// TransactOnce runs f in a transaction like o's DB.Transact, and returns what
// the attempt returned that committed, or the zero value and an error. It does not
// stop at an unknown outcome: it goes on until it knows that exactly one attempt has
// committed, or that none has and none will.
//
//   - f may run again after an unknown outcome too, and then the attempt that
//     committed may turn out to be an earlier one than the last. So whatever a
//     caller needs of an attempt belongs in its result. Variables outside that f
//     sets are those of the last attempt.
//   - An error of f is returned only when no earlier attempt has committed, or
//     can: if there was an unknown outcome, a transaction that writes nothing
//     but the outcome key makes sure of it. The same goes for ErrTooLarge and
//     whatever else Transact returns.
//   - While an outcome is unknown, an ErrUnavailable of Transact is no reason to
//     give up: it goes on until the store answers.
//   - When ctx ends, or the store fails, while an outcome is unknown, the error
//     matches ErrCommitUnknown and the reason, ctx's cause for example. No other
//     error does, unless f returns it. The next transaction of the lane that
//     commits makes sure that nothing lands any more.
//   - A transaction that writes nothing leaves the outcome key alone, except
//     after an unknown outcome: an earlier attempt may have written.
//   - Functions given to OnCommit run once, those of the attempt that committed,
//     before TransactOnce returns and after the lane is free for others.
//   - A channel from Watch has ended with ErrCommitUnknown if its attempt was found
//     to have committed later. That is no reason to give up, but to look again.
//   - If f panics or ends its goroutine, that goes on to the caller, and the
//     outcomes of earlier attempts stay unknown.
//
// f must not call TransactOnce with the same lane, which would wait for itself
// until ctx ends.
func TransactOnce[T any](ctx context.Context, o *Once, f func(Tx) (T, error)) (T, error) {
	var none T
	switch {
	case o == nil || o.db == nil:
		return none, errNoLane
	case f == nil:
		return none, fmt.Errorf("%w: nil function", ErrInvalid)
	}
	if !o.needed {
		var result T
		if err := o.db.Transact(ctx, func(tx Tx) (err error) {
			result, err = f(tx)
			return err
		}); err != nil {
			return none, err
		}
		return result, nil
	}
	a, err := transactOnce(ctx, o, f)
	if err != nil {
		return none, err
	}
	for _, f := range slices.Backward(a.onCommit) {
		defer f() // so that each is called, whatever becomes of those before it
	}
	return a.result, nil
}

// Forget removes the outcome key, after which no transaction of the lane lands
// any more whose outcome is still unknown. It goes on after an unknown outcome of
// its own. After an error the key may be there or not; a further call is safe.
// The lane stays usable.
func (o *Once) Forget(ctx context.Context) error {
	switch {
	case o == nil || o.db == nil:
		return errNoLane
	case !o.needed:
		return nil
	}
	if err := o.lock(ctx); err != nil {
		return err
	}
	defer o.unlock()
	for n := 1; ; n++ {
		err := o.db.Transact(ctx, o.forget)
		if !errors.Is(err, ErrCommitUnknown) {
			return err
		}
		pause(ctx, n)
	}
}

// forget may be repeated. It conflicts with attempts also if the key is absent,
// where clearing it need not.
func (o *Once) forget(tx Tx) error {
	if _, err := o.read(tx); err != nil {
		return err
	}
	tx.Clear(o.key)
	tx.AddWriteConflict(KeyRange(o.key))
	return nil
}

func (o *Once) lock(ctx context.Context) error {
	switch {
	case ctx == nil:
		return fmt.Errorf("%w: nil context", ErrInvalid)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	select {
	case o.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (o *Once) unlock() { <-o.busy }

// outcome is what is stored at an outcome key: a byte with the format's version,
// the call's id, and as big-endian integers the attempt's number and its time, in
// nanoseconds of Unix time.
type outcome struct {
	call    [16]byte
	attempt uint32
	at      int64
}

const (
	outcomeFormat = 1
	outcomeSize   = 1 + 16 + 4 + 8
)

func (v outcome) bytes() []byte {
	b := append(make([]byte, 0, outcomeSize), outcomeFormat)
	b = binary.BigEndian.AppendUint32(append(b, v.call[:]...), v.attempt)
	return binary.BigEndian.AppendUint64(b, uint64(v.at))
}

func parseOutcome(key, b []byte) (v outcome, err error) {
	if len(b) != outcomeSize || b[0] != outcomeFormat {
		return v, fmt.Errorf("%w: outcome key %q holds %d bytes that are not an outcome of format %d", ErrInvalid, key, len(b), outcomeFormat)
	}
	copy(v.call[:], b[1:])
	v.attempt = binary.BigEndian.Uint32(b[17:])
	v.at = int64(binary.BigEndian.Uint64(b[21:]))
	return v, nil
}

// read returns what the key holds, with a conflict; the zero outcome if nothing.
func (o *Once) read(tx Tx) (v outcome, err error) {
	b, err := tx.Get(o.key)
	if err != nil || b == nil {
		return v, err
	}
	return parseOutcome(o.key, b)
}

// call is one call of TransactOnce.
type call[T any] struct {
	lane    *Once
	f       func(Tx) (T, error)
	id      [16]byte
	attempt uint32 // the number of the last one

	last    *attempt[T]   // the last one, if f did not fail
	landed  *attempt[T]   // the earlier one that was found to have committed
	unknown []*attempt[T] // those which have committed, or may commit yet
}

// attempt is one run of the function of a call.
type attempt[T any] struct {
	number   uint32
	at       int64
	result   T
	wrote    bool
	onCommit []func()
}

// transactOnce returns the attempt that has committed.
func transactOnce[T any](ctx context.Context, o *Once, f func(Tx) (T, error)) (*attempt[T], error) {
	if err := o.lock(ctx); err != nil {
		return nil, err
	}
	defer o.unlock() // also when f panics
	c := &call[T]{lane: o, f: f}
	if _, err := io.ReadFull(o.random, c.id[:]); err != nil {
		return nil, fmt.Errorf("kv: random bytes for the id of a transaction: %w", err)
	}
	return c.run(ctx)
}

func (c *call[T]) run(ctx context.Context) (*attempt[T], error) {
	for n := 1; ; n++ {
		c.last, c.landed = nil, nil
		err := c.lane.db.Transact(ctx, c.try)
		if len(c.unknown) > 0 && isOutage(ctx, err) {
			pause(ctx, n)
			continue
		}
		switch {
		case err == nil && c.landed != nil:
			return c.landed, nil
		case err == nil:
			return c.last, nil
		case c.last == nil || !errors.Is(err, ErrCommitUnknown):
			return c.fail(ctx, err)
		}
		if c.last.wrote {
			c.unknown = append(c.unknown, c.last)
		}
		pause(ctx, n)
	}
}

// try is one attempt: it runs f, unless an earlier one has committed.
func (c *call[T]) try(tx Tx) error {
	c.last = nil
	landed, err := c.look(tx)
	if err != nil || landed {
		return err
	}
	c.attempt++
	a := &attempt[T]{number: c.attempt, at: time.Now().UnixNano(), wrote: len(c.unknown) > 0}
	a.result, err = c.f(onceTx{tx, &a.wrote, &a.onCommit, len(c.unknown) > 0})
	if err == nil && a.wrote {
		err = c.mark(tx, a)
	}
	if err != nil {
		return err
	}
	c.last = a
	return nil
}

// mark writes the id to the key, in a transaction that conflicts with all others that do. It comes
// after f, which may have cleared the key, and so that what f reads is not waited for twice.
func (c *call[T]) mark(tx Tx, a *attempt[T]) error {
	if !c.lane.checked {
		if _, err := c.lane.read(tx); err != nil {
			return err
		}
		c.lane.checked = true
	}
	tx.AddReadConflict(KeyRange(c.lane.key))
	tx.Set(c.lane.key, outcome{c.id, a.number, a.at}.bytes())
	return nil
}

// look conflicts with all others that write to the key, and tells whether a
// transaction of this call has. If that was an attempt, it is in c.landed. If none can have, that is
// for mark to do.
func (c *call[T]) look(tx Tx) (bool, error) {
	c.landed = nil
	if len(c.unknown) == 0 { // there is nothing to be found
		if !c.lane.checked {
			Prefetch(tx, Read{Key: c.lane.key})
		}
		return false, nil
	}
	v, err := c.lane.read(tx)
	if err != nil {
		return false, err
	}
	c.lane.checked = true
	if v == (outcome{}) && tooLate(c.unknown[0].at) {
		return false, errTooLate
	}
	for _, a := range c.unknown {
		if v.call == c.id && v.attempt == a.number {
			c.landed = a
		}
	}
	return v.call == c.id, nil
}

// fail returns err, after which nothing of the call may be committed; or the
// attempt that has been in spite of it.
func (c *call[T]) fail(ctx context.Context, err error) (*attempt[T], error) {
	if len(c.unknown) == 0 {
		return nil, err
	}
	if err := c.fence(ctx); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
	if c.landed != nil {
		return c.landed, nil
	}
	return nil, err
}

// fence writes to the key, so that no earlier attempt can commit any more,
// unless it finds that one has. Being too old is no reason to give up: it reads one
// key, and f had its attempts.
func (c *call[T]) fence(ctx context.Context) error {
	for n := 1; ; n++ {
		err := c.lane.db.Transact(ctx, func(tx Tx) error {
			known, err := c.look(tx) // also after an earlier fence
			if err != nil || known {
				return err
			}
			c.attempt++
			tx.Set(c.lane.key, outcome{c.id, c.attempt, time.Now().UnixNano()}.bytes())
			return nil
		})
		if !errors.Is(err, ErrCommitUnknown) && !errors.Is(err, ErrTooOld) && !isOutage(ctx, err) {
			return err
		}
		pause(ctx, n)
	}
}

// isOutage tells whether a transaction has failed, and done nothing, as the store does not answer: it may yet.
func isOutage(ctx context.Context, err error) bool {
	return ctx.Err() == nil && errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrCommitUnknown)
}

// pause waits, after n unknown outcomes in a row, or until ctx ends. The first
// time it does not: a store that is in trouble for longer is what it spares.
func pause(ctx context.Context, n int) {
	if n == 1 {
		return
	}
	const first, last = 100 * time.Microsecond, 100 * time.Millisecond
	timer := time.NewTimer(mathrand.N(min(first<<min(n, 20), last)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Unsettled tells, within a function that was given to [TransactOnce], whether an
// earlier attempt of the same call may have committed, or may commit yet. If not,
// then nothing that earlier attempts did will ever happen. For any other tx it is
// false.
// tx may be wrapped by a Tx that has a method Unwrap.
func Unsettled(tx Tx) bool {
	if w, ok := tx.(interface{ Unwrap() Tx }); ok {
		return Unsettled(w.Unwrap())
	}
	o, ok := tx.(onceTx)
	return ok && o.unsettled
}

// onceTx is what f gets: it notes whether f writes, and keeps the functions given
// to OnCommit, which the engine would forget when an outcome is unknown.
type onceTx struct {
	Tx
	wrote     *bool
	onCommit  *[]func()
	unsettled bool
}

func (tx onceTx) Set(key, value []byte) {
	*tx.wrote = true
	tx.Tx.Set(key, value)
}

func (tx onceTx) Clear(key []byte) {
	*tx.wrote = true
	tx.Tx.Clear(key)
}

func (tx onceTx) ClearRange(r Range) {
	*tx.wrote = true
	tx.Tx.ClearRange(r)
}

func (tx onceTx) Add(key []byte, delta int64) {
	*tx.wrote = true
	tx.Tx.Add(key, delta)
}

func (tx onceTx) AddWriteConflict(r Range) {
	*tx.wrote = true
	tx.Tx.AddWriteConflict(r)
}

func (tx onceTx) OnCommit(f func()) {
	if f != nil {
		*tx.onCommit = append(*tx.onCommit, f)
	}
}

// What is optional for an engine goes on to it.

func (tx onceTx) Lazily() { Lazily(tx.Tx) }

func (tx onceTx) NoSync() { NoSync(tx.Tx) }

func (tx onceTx) Prefetch(reads []Read) { Prefetch(tx.Tx, reads...) }

// Unwrap returns the Reader that answers reads; see internal/kvext.
func (tx onceTx) Unwrap() Reader { return tx.Tx }
