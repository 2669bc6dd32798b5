package etcd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/retry"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// DB is an open store. It implements kv.DB.
type DB struct {
	o      Options
	layout layout
	conn   *conn
	hints  hints

	// known has in which revision keys were set by transactions of this store that had a conflict on
	// them. The next one that has need not read: its commit compares that revision, and if it fails
	// the key is forgotten. So an outcome key (see kv.Once) costs no round trip.
	known bounded[string, int64]

	// sums has what keys became that transactions of this store have added to. The next one that adds to them need not
	// read: its commit compares the revision, and returns what they are if that is another one.
	sums bounded[string, stored]

	compactor compactor

	ctx  context.Context // ends, with kv.ErrClosed, when the store closes
	stop context.CancelCauseFunc

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // commits and watches

	signals kvext.Signals // of those that use this DB
}

var _ kv.DB = (*DB)(nil)

// Open connects to a cluster and opens a store in it, which is made if there is
// none. It waits until the cluster answers, for up to Options.Patience, or ctx ends.
func Open(opening context.Context, o Options) (*DB, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := options.Context(opening); err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	db := &DB{o: o, layout: newLayout(o.Prefix), ctx: ctx, stop: stop}
	if db.conn, err = newConn(ctx, o); err != nil {
		stop(err)
		return nil, err
	}
	if err := db.checkFormat(opening); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// checkFormat refuses a store that a newer version has written, and marks a new
// one.
func (db *DB) checkFormat(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, db.o.Patience)
	defer cancel()
	key := []byte(db.layout.format)
	for attempt := 0; ; attempt++ {
		found, err := db.conn.Range(ctx, &pb.RangeRequest{Key: key})
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return db.conn.unavailable(err)
		case err != nil:
			return err
		case len(found.Kvs) > 0:
			if got := string(found.Kvs[0].Value); got != format {
				return fmt.Errorf("etcd: the store with prefix %q has format %.40q, and this version reads %q: it was written by another one",
					db.o.Prefix, got, format)
			}
			return nil
		}
		_, err = db.conn.Commit(ctx, &pb.TxnRequest{
			Compare: []*pb.Compare{modIs(key, 0)},
			Success: []*pb.RequestOp{put(key, []byte(format))},
		}, found.Header.Revision)
		if err != nil && !errors.Is(err, kv.ErrCommitUnknown) {
			return err
		}
		pause(ctx, attempt) // and see what is there now
	}
}

// Signals implements kvext.Local. They are for users of this DB: others are told by keys.
func (db *DB) Signals() *kvext.Signals { return &db.signals }

// Persist has requests be tried for as long as their contexts last, whatever Options.Patience is: see kv.Persist.
func (db *DB) Persist() { db.conn.persists.Store(true) }

// Limits implements kv.DB.
func (db *DB) Limits() kv.Limits { return limits }

// Transact implements kv.DB.
func (db *DB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if err := retry.Ready(ctx, f); err != nil {
		return err
	}
	return retry.Do(ctx, func() error { return db.attempt(ctx, f) })
}

// attempt runs f in a transaction and commits it.
func (db *DB) attempt(ctx context.Context, f func(kv.Tx) error) error {
	t := newTx(ctx, db)
	defer t.end(kv.ErrConflict) // also when f panics
	if err := t.err(); err != nil {
		return err
	}
	if err := f(handle{reader{t, false}, &t.writes}); err != nil {
		return err
	}
	if err := t.commit(); err != nil {
		if errors.Is(err, kv.ErrCommitUnknown) {
			t.end(kv.ErrCommitUnknown)
		}
		return err
	}
	t.writes.Ended = true
	retry.Committed(t.writes.Committed)
	return nil
}

// ReadTransact implements kv.DB.
func (db *DB) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	if err := retry.Ready(ctx, f); err != nil {
		return err
	}
	t := newTx(ctx, db)
	t.readOnly = true
	defer t.end(kv.ErrConflict)
	if err := t.err(); err != nil {
		return err
	}
	return f(reader{t, true})
}

// Close implements kv.DB.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return nil
	}
	db.closed = true
	db.mu.Unlock()
	db.stop(kv.ErrClosed)
	db.running.Wait()
	db.signals.Close() // a waiter looks again, and meets the error
	return db.conn.close()
}

// begin has Close wait until running is Done, or tells that the store is closed.
func (db *DB) begin() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return kv.ErrClosed
	}
	db.running.Add(1)
	return nil
}

// within returns a context that ends with the caller's, and with the store.
func (db *DB) within(caller context.Context) (ctx context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(caller)
	stop := context.AfterFunc(db.ctx, func() { cancel(kv.ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}
