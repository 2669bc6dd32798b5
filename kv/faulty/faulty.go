// Package faulty wraps a store and makes happen on purpose what on a cluster
// happens now and then: conflicts, commits whose outcome stays unknown, commits
// that land long after their client has given up, transactions that are too old,
// ended contexts, latency. What is correct over it has a chance to be correct
// over a network.
//
// # What holds
//
// The wrapper keeps the contract of package kv, as strictly as the store below
// it: nothing that it injects is something that a store must not do. So only
// transactions that conflict on what they read get conflicts, and only those
// that write get unknown outcomes. With the zero Options it passes kvtest.Run;
// its tests say which cases hold with faults too.
//
// # Late commits
//
// A late commit is a real transaction of the store below that is kept open when
// its function has returned, while Transact tells ErrCommitUnknown. It commits
// later, against the version that it read then, so the store below itself
// decides whether it still may: as on a cluster where a commit request is stuck
// in the network. Time is counted in steps, not on a clock: each attempt of a
// transaction makes one as it begins, one when its function has returned and
// one after its commit; a ReadTransact makes one as it begins. So a commit that
// is late by 1 lands before the next transaction begins, by 2 between the reads
// and the commit of the next one.
//
// # Clusters
//
// [FoundationDB] and [Etcd] return Options with which a store, and all those that share a
// store, answer as late as a real cluster was measured to, under the load that there is.
//
// # Reproducible
//
// All chance comes from the seed: the same calls in the same order give the same
// faults. With several goroutines the order is the scheduler's.
package faulty

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/retry"
)

// ErrCanceled is the cause with which contexts end that Options.Cancel ends. It
// matches context.Canceled.
var ErrCanceled = fmt.Errorf("faulty: %w", context.Canceled)

// DB is a store with faults. It is safe for concurrent use.
type DB struct {
	inner  kv.DB
	o      Options
	limits kv.Limits

	mu     sync.Mutex
	random *rand.Rand
	step   uint64 // steps so far
	held   []held // in the order in which they came
	closed bool
	stats  Stats

	signals kvext.Signals
}

var _ kv.DB = (*DB)(nil)

// New wraps db, which it closes with its own Close. The zero Options inject
// nothing.
func New(db kv.DB, seed uint64, o Options) *DB {
	return &DB{
		inner: db, o: o, limits: o.limits(db.Limits()),
		random: rand.New(rand.NewPCG(seed, 0)),
	}
}

// Limits implements kv.DB. UnknownCommits is set if the Options can give unknown
// outcomes.
func (db *DB) Limits() kv.Limits { return db.limits }

// Signals implements kvext.Local: those of the store below; but where others share that, its own.
func (db *DB) Signals() *kvext.Signals {
	if db.limits.Shared || db.limits.UnknownCommits {
		return &db.signals
	}
	return kvext.SignalsOf(db.inner)
}

// Stats returns what has been injected so far.
func (db *DB) Stats() Stats {
	db.mu.Lock()
	defer db.mu.Unlock()
	s := db.stats
	s.Held = len(db.held)
	return s
}

// Transact implements kv.DB. f runs in the goroutine of the caller.
func (db *DB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if err := retry.Ready(ctx, f); err != nil {
		return err
	}
	ctx, cancel := db.derive(ctx)
	watched := false
	defer func() {
		if !watched { // watches live as long as the context does
			cancel(nil)
		}
	}()
	return db.retry(ctx, func() error {
		t, err := db.begin(ctx, cancel)
		if err != nil {
			return err
		}
		defer t.end() // also when f panics
		err = f(&tx{reader{t, t.session.tx, false}})
		watched = watched || t.session.watched
		if err != nil {
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
	ctx, cancel := db.derive(ctx)
	defer cancel(nil)
	t := &txn{db: db, ctx: ctx, cancel: cancel}
	if err := t.start(); err != nil {
		return err
	}
	defer func() { t.ended = true }()
	return db.inner.ReadTransact(ctx, func(r kv.Reader) error {
		t.below = r
		return f(reader{t, r, true})
	})
}

// retry calls attempt until it commits, with the pauses of the cluster.
func (db *DB) retry(ctx context.Context, attempt func() error) error {
	if c := db.o.Cluster; c != nil && c.figures.lastPause > 0 {
		return retry.DoAfter(ctx, attempt, c.pause)
	}
	return retry.Do(ctx, attempt)
}

// answer is how long a request takes until the store below acts on it, and until the answer is
// there, when done has to be called.
type answer struct {
	before, after time.Duration
	done          func()
}

// ask makes a request for so many keys.
func (db *DB) ask(r request, keys int) answer {
	o, none := &db.o, func() {}
	switch {
	case o.Cluster != nil && r == askVersion:
		d, done := o.Cluster.ask(r, keys)
		return answer{0, d, done}
	case o.Cluster != nil:
		d, done := o.Cluster.ask(r, keys)
		return answer{d, 0, done}
	case r == askVersion:
		return answer{o.Latency / 2, o.Latency - o.Latency/2, none}
	case r == askRead:
		return answer{o.ReadLatency, 0, none}
	}
	return answer{o.CommitLatency / 2, o.CommitLatency - o.CommitLatency/2, none}
}

// derive returns the context that stands for the caller's, with the function
// that ends it before its time. Where nothing does, or there is none, it is the
// caller's itself.
func (db *DB) derive(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	if db.o.Cancel <= 0 || ctx == nil {
		return ctx, func(error) {}
	}
	return context.WithCancelCause(ctx)
}

// Close implements kv.DB. Each commit that is still held back is applied or
// dropped, by chance.
func (db *DB) Close() error {
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	for _, h := range db.takeHeld() {
		if db.chance(0.5) {
			db.land(h.session)
		} else {
			db.lose(h.session)
		}
	}
	db.signals.Close()
	return db.inner.Close()
}

// chance tells whether something of the given probability happens.
func (db *DB) chance(p float64) bool {
	if p <= 0 {
		return false
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.random.Float64() < p
}

// intN returns a random number from 0 to n-1.
func (db *DB) intN(n int64) int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.random.Int64N(n)
}

// count changes the statistics.
func (db *DB) count(f func(*Stats)) {
	db.mu.Lock()
	defer db.mu.Unlock()
	f(&db.stats)
}
