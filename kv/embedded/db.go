package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/linked"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/cache"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
	"github.com/conq-go/conq/kv/embedded/internal/wal"
	"github.com/conq-go/conq/kv/internal/retry"
)

// DB is an open store. It implements kv.DB.
type DB struct {
	o              Options
	limits         kv.Limits
	guard          *guardfs.FS
	pebble         *pebble.DB
	dir            string
	lock           io.Closer
	cache          *cache.Cache
	gaps           *cache.Gaps
	manyTombstones int // the constant, but in tests
	wal            *wal.Log
	backlog        *backlog
	closed         atomic.Bool // set with mu held: nothing is applied any more
	diskFull       atomic.Bool // the disk is, and the reserve in use: see reserve.go

	// maim tells that one of Pebble's goroutines has ended by a fatal error: its Close may wait for that
	// for ever.
	maim   context.CancelFunc
	maimed <-chan struct{}

	syncSoon chan struct{} // has one while something was written that nobody has synced

	long chan struct{} // has one while a long batch is applied, or waits for that: see waitForMemTable

	background sync.WaitGroup
	stop       context.CancelFunc
	stopped    <-chan struct{} // closed by stop

	mu       sync.Mutex
	version  uint64            // of the last commit
	txns     linked.List[txn]  // that are open, in the order of their versions
	expired  map[*txn]struct{} // of those, those that the conflict log is not kept for, until they end
	recent   recentWrites      // what the latest commits wrote, as far as an open transaction needs it
	watches  watches
	counters counters
	counted  bool // something was added to a counter since the last rest
	unsynced unsynced
	signals  kvext.Signals
	commits  sync.WaitGroup // between being applied and being acknowledged
}

// firstVersion is that of an open store before its first commit: a transaction that has read nothing is at 0.
const firstVersion = 1

func newDB(o Options) *DB {
	gaps := cache.NewGaps()
	maimed, maim := context.WithCancel(context.Background())
	return &DB{
		o:              o,
		limits:         o.limits(),
		cache:          cache.New(cache.Usual, gaps),
		gaps:           gaps,
		syncSoon:       make(chan struct{}, 1),
		long:           make(chan struct{}, 1),
		manyTombstones: manyTombstones,
		version:        firstVersion,
		watches:        make(watches),
		counters:       make(counters),
		expired:        make(map[*txn]struct{}),
		maimed:         maimed.Done(),
		maim:           maim,
	}
}

// Limits implements kv.DB.
func (db *DB) Limits() kv.Limits { return db.limits }

// Signals implements kvext.Local.
func (db *DB) Signals() *kvext.Signals { return &db.signals }

// Transact implements kv.DB.
func (db *DB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if err := retry.Ready(ctx, f); err != nil {
		return err
	}
	attempts := 0
	return retry.Do(ctx, func() error {
		if err := db.usable(); err != nil {
			return err
		}
		t := newTx(ctx, db)
		attempts++
		t.mayBeLazy = attempts <= maxLazy
		defer t.end()
		if err := f(t); err != nil {
			return err
		}
		return t.commit()
	})
}

// ReadTransact implements kv.DB.
func (db *DB) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	if err := retry.Ready(ctx, f); err != nil {
		return err
	}
	if err := db.usable(); err != nil {
		return err
	}
	t := newTx(ctx, db)
	t.mayBeLazy, t.readOnly = true, true
	defer t.end()
	if err := f(t.Snapshot()); err != nil {
		return err
	}
	return t.acknowledgeRead()
}

// failed is called once when the store is poisoned.
func (db *DB) failed(err error) {
	db.o.Logger.Error("store has failed", "error", err)
	if db.wal != nil { // else nobody waits yet
		db.wal.Wake()
	}
	db.signals.Close() // a waiter looks again, and meets the error
	go db.failWatches()
}

// failWatches ends all watches: with what one whose transaction may not be on disk is told. It is
// not for the caller that has met the failure, which may have the lock.
func (db *DB) failWatches() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.watches.fireAll(db.failedWatch)
}

func (db *DB) failedWatch(w *watch) error {
	if w.version > db.wal.Durable() {
		return unknown(db.failure())
	}
	return db.failure()
}

// failure returns the error of a poisoned store, or nil.
func (db *DB) failure() error {
	if err := db.guard.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, plain(err))
	}
	return nil
}

// readError returns the error of a read in Pebble, or why the store has failed: then Pebble writes
// into the void, and reads tables that are not there.
func (db *DB) readError(err error) error {
	if err == nil {
		return nil
	}
	return cmp.Or(db.failure(), err)
}

// usable returns the error with which a call must fail, or nil.
func (db *DB) usable() error {
	if db.closed.Load() {
		return kv.ErrClosed
	}
	return db.failure()
}

// Close implements kv.DB.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed.Swap(true) {
		db.mu.Unlock()
		return nil
	}
	open := slices.Collect(maps.Keys(db.expired))
	for t := db.txns.First(); t != nil; t = t.place.Next() {
		open = append(open, t)
	}
	db.watches.fireAll(func(*watch) error { return kv.ErrClosed })
	db.mu.Unlock()
	db.signals.Close()

	db.commits.Wait()
	for _, t := range open {
		t.shut(kv.ErrClosed)
	}
	db.stop()
	db.background.Wait()
	if err := guardfs.Run(db.reclaim); err != nil {
		db.guard.Fail(err)
	}
	err := db.closePebble()
	return errors.Join(err, db.lock.Close())
}

// closePebble closes what holds the data. A poisoned store's Pebble may not be
// able to: then it is left as it is, unable to change anything any more.
func (db *DB) closePebble() error {
	if err := db.wal.Close(); err != nil {
		db.guard.Fail(err)
	}
	if db.failure() != nil {
		db.guard.Freeze()
	}
	closed := make(chan error, 1)
	go func() {
		db.backlog.close()
		closed <- guardfs.Run(db.pebble.Close)
	}()
	var err error
	select {
	case err = <-closed:
	case <-db.maimed:
	}
	db.guard.Freeze()
	if failure := db.failure(); failure != nil {
		return failure
	}
	return err
}
