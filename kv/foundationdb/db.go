package foundationdb

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/retry"
)

const (
	// commitPatience is how long a commit under way is waited for after its context
	// has ended. A working cluster answers sooner, and then nothing is unknown.
	commitPatience = 100 * time.Millisecond

	// closePatience is how long Close waits for a commit under way.
	closePatience = 5 * time.Second

	// age is how long the cluster keeps old versions.
	age = 5 * time.Second
)

// DB is an open store. It implements kv.DB.
type DB struct {
	client  client
	prefix  []byte
	limits  kv.Limits
	timeout time.Duration
	retries int

	connected atomic.Bool // the cluster has answered once

	life    context.Context // ends when the store closes
	mu      sync.Mutex      // held to end life, or to begin a commit
	die     context.CancelFunc
	commits sync.WaitGroup // under way

	signals kvext.Signals // of those that use this DB
}

var _ kv.DB = (*DB)(nil)

func newDB(c client, o Options) *DB {
	db := &DB{client: c, prefix: append([]byte{}, o.Prefix...), timeout: o.Timeout, retries: o.Retries}
	db.limits = kv.Limits{
		Key:            10_000 - len(o.Prefix),
		Value:          100_000,
		Transaction:    maxTransaction,
		Age:            age,
		Shared:         true,
		UnknownCommits: true,
	}
	db.life, db.die = context.WithCancel(context.Background())
	return db
}

// Signals implements kvext.Local. They are for users of this DB: others are told by keys.
func (db *DB) Signals() *kvext.Signals { return &db.signals }

// Limits implements kv.DB.
func (db *DB) Limits() kv.Limits { return db.limits }

// Close implements kv.DB. A commit that is still under way after 5 s ends with an
// unknown outcome. The connection to the cluster stays.
func (db *DB) Close() error {
	db.mu.Lock()
	db.die()
	db.mu.Unlock()
	db.commits.Wait()
	db.signals.Close() // a waiter looks again, and meets the error
	return nil
}

func (db *DB) closed() bool { return db.life.Err() != nil }

// enter counts a commit, unless the store is closed.
func (db *DB) enter() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed() {
		return false
	}
	db.commits.Add(1)
	return true
}

// Transact implements kv.DB.
func (db *DB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if err := retry.Ready(ctx, f); err != nil {
		return err
	}
	c, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer c.release()
	for {
		err := c.attempt(f)
		if err == nil {
			return nil
		}
		if err := c.again(err); err != nil {
			return err
		}
	}
}

// ReadTransact implements kv.DB.
func (db *DB) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	if err := retry.Ready(ctx, f); err != nil {
		return err
	}
	c, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer c.release()
	t := c.newTxn()
	t.readOnly = true
	defer t.end()
	return f(reader{t, true})
}

// call is one call of Transact or ReadTransact, with the library's transaction
// that its attempts use one after the other.
type call struct {
	db      *DB
	caller  context.Context // what the caller gave
	working context.Context // ends with it, and after the timeout
	ctx     context.Context // ends with working, and when the store closes
	stop    func()          // lets go of the contexts

	tr        transaction
	uncancel  func() bool // tr is cancelled at the end of ctx until this is called
	committed bool

	retries, tooOld int
	failed          error // the last one after which to try again, or to look whether to
}

// begin starts a call.
func (db *DB) begin(ctx context.Context) (*call, error) {
	if db.closed() {
		return nil, kv.ErrClosed
	}
	c := &call{db: db, caller: ctx, working: ctx}
	unlimit := func() {}
	if db.timeout > 0 {
		c.working, unlimit = context.WithTimeoutCause(ctx, db.timeout, timeoutError{db.timeout})
	}
	leave := func() {}
	c.ctx, leave = db.within(c.working)
	c.stop = func() { leave(); unlimit() }
	err := c.connect()
	if err == nil {
		if c.tr, err = db.client.begin(); err != nil {
			err = c.fault(err)
		}
	}
	if err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// within returns a context that ends with ctx, and with kv.ErrClosed when the store
// closes. leave lets go of it.
func (db *DB) within(ctx context.Context) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	unregister := context.AfterFunc(db.life, func() { cancel(kv.ErrClosed) })
	return ctx, func() {
		unregister()
		cancel(nil)
	}
}

// connect waits until the cluster has answered once. Before that, a library with
// external client libraries (FDB_NETWORK_OPTION_EXTERNAL_CLIENT_DIRECTORY and the like)
// forgets what is written to a transaction, and fails its commit with an error that
// could also mean an unknown outcome: it does not know yet which of them fits the
// cluster. Without any, it does not choose, and keeps what is written; then this is only
// one wait when a store is used first.
func (c *call) connect() error {
	if c.db.connected.Load() {
		return nil
	}
	tr, err := c.db.client.begin()
	if err != nil {
		return c.fault(err)
	}
	defer runtime.KeepAlive(tr)
	for {
		_, err := await(c.ctx, tr.readVersion())
		if err == nil {
			c.db.connected.Store(true)
			return nil
		}
		err = c.fault(err)
		if err := c.pause(tr, err); err != nil {
			return err
		}
	}
}

// pause has the library wait as long as it wants to after err, and make tr as new.
// It returns err if there is no use in trying again, or why the call has to end.
func (c *call) pause(tr transaction, err error) error {
	code := c.codeOf(err)
	if code == 0 {
		return err
	}
	if c.db.retries > 0 && c.retries == c.db.retries {
		return fmt.Errorf("foundationdb: given up after %d retries: %w", c.retries, err)
	}
	c.retries++
	switch failed := c.remake(tr, code); {
	case failed == nil:
		return nil
	case c.db.closed(), c.ctx.Err() != nil:
		return c.fault(failed)
	}
	return err
}

// remake has the library wait after an error, and make tr as new. When the cluster's version has
// changed, it waits until a client library fits the cluster, too: before that tr can't be cancelled,
// and so no range read.
func (c *call) remake(tr transaction, code int) error {
	_, err := await(c.ctx, tr.onError(code))
	if err != nil || code != codeClusterVersion {
		return err
	}
	if _, err = await(c.ctx, tr.readVersion()); c.ctx.Err() != nil {
		return err
	}
	return nil // if it has failed for a reason of its own, so does whatever comes next
}

// release ends the call.
func (c *call) release() {
	if c.uncancel != nil {
		c.uncancel()
	}
	if !c.committed {
		c.tr.cancel() // what it still reads, nobody wants
	}
	c.stop()
	runtime.KeepAlive(c.tr)
}

// again gets ready for another attempt after one that has failed with err, or
// returns the error for the caller. When the context has ended, that tells why
// earlier attempts had failed.
func (c *call) again(err error) error {
	if errors.Is(err, kv.ErrCommitUnknown) {
		return err
	}
	if errors.Is(err, kv.ErrTooOld) {
		if c.tooOld == kv.MaxTooOld {
			return err
		}
		c.tooOld++
	}
	if c.codeOf(err) != 0 {
		c.failed = err
	}
	if err = c.pause(c.tr, err); err != nil && c.failed != nil && c.ctx.Err() != nil && errors.Is(err, context.Cause(c.ctx)) {
		return fmt.Errorf("%w, after %d attempts: %w", c.failed, c.retries, err)
	}
	return err
}

// attempt runs f once and commits.
func (c *call) attempt(f func(kv.Tx) error) error {
	t := c.newTxn()
	defer t.end() // also when f panics
	if err := t.alive(); err != nil {
		return err
	}
	if err := f(tx{reader{t, false}, &t.writes}); err != nil {
		return err
	}
	return t.commit()
}

// await waits for a future, which it cancels when ctx ends.
func await[T any](ctx context.Context, f future[T]) (T, error) {
	defer context.AfterFunc(ctx, f.Cancel)()
	return f.Get()
}

// awaitCommit waits for a commit, and somewhat longer if its context ends or the
// store closes.
func (c *call) awaitCommit(f future[struct{}]) error {
	done := make(chan struct{})
	defer close(done)
	cancelAfter := func(patience time.Duration) func() {
		return func() {
			timer := time.NewTimer(patience)
			defer timer.Stop()
			select {
			case <-timer.C:
				f.Cancel()
			case <-done:
			}
		}
	}
	defer context.AfterFunc(c.working, cancelAfter(commitPatience))()
	defer context.AfterFunc(c.db.life, cancelAfter(closePatience))()
	_, err := f.Get()
	return err
}
