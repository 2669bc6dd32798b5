// Package memory is a kv engine that keeps everything in the memory of one
// process and forgets it at Close. It is meant for tests, as the oracle for
// other engines, and as the example for writing one: it prefers the
// obvious to the fast.
//
// The store is one sorted map that can be copied in constant time (nodes are
// shared until one side writes). A transaction makes its copy at its first
// read, applies its writes to the copy at once, so that it reads its own, and
// logs them. Commit holds the only lock there is, looks whether a transaction
// that has committed since wrote to what this one read, and if none did applies
// the log to the store.
//
// Values are kept as strings, so that nothing is shared with a caller: every
// slice that comes in or goes out is copied.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/retry"
	"github.com/tidwall/btree"
)

func init() {
	kv.Register("memory", func(_ context.Context, url string) (kv.DB, error) {
		if rest := strings.TrimPrefix(url, "memory:"); rest != "" && rest != "//" {
			return nil, fmt.Errorf("%w: %q: a memory store has no name or options; use %q", kv.ErrInvalid, url, "memory:")
		}
		return New(Options{}), nil
	})
}

// Options configures a store. The zero value is usable.
type Options struct {
	// Limits are the limits of the store. Default, for each field that is zero:
	// FoundationDB's, which are 10,000 bytes a key, 100,000 a value, 10,000,000 a
	// transaction, any number of operations, and 5 s.
	Limits kv.Limits

	// Now tells the time, for Limits.Age. Default: time.Now.
	Now func() time.Time
}

// DB is a store. It is safe for concurrent use.
type DB struct {
	limits kv.Limits
	now    func() time.Time

	mu      sync.Mutex
	closed  bool
	data    *tree
	version uint64                      // commits so far
	commits []commit                    // those that open transactions may conflict with, oldest first
	open    map[uint64]int              // open transactions by the version that they read
	watches btree.Map[string, []*watch] // by key
	signals kvext.Signals
}

var _ kv.DB = (*DB)(nil)

// tree is a state of the store.
type tree = btree.Map[string, string]

// commit is what a committed transaction wrote.
type commit struct {
	version uint64 // of the store with it
	writes  []op
}

// New opens an empty store.
func New(opts Options) *DB {
	limits := opts.Limits
	limits.Key = cmp.Or(limits.Key, 10_000)
	limits.Value = cmp.Or(limits.Value, 100_000)
	limits.Transaction = cmp.Or(limits.Transaction, 10_000_000)
	limits.Age = cmp.Or(limits.Age, 5*time.Second)
	db := &DB{limits: limits, now: opts.Now, data: new(tree), open: make(map[uint64]int)}
	if db.now == nil {
		db.now = time.Now
	}
	return db
}

// Limits implements kv.DB.
func (db *DB) Limits() kv.Limits { return db.limits }

// Signals implements kvext.Local.
func (db *DB) Signals() *kvext.Signals { return &db.signals }

// Transact implements kv.DB. Every commit is final when it returns, so it never
// returns kv.ErrCommitUnknown.
func (db *DB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	if err := retry.Ready(ctx, f); err != nil {
		return err
	}
	return retry.Do(ctx, func() error {
		t := &tx{db: db, ctx: ctx}
		defer t.end() // also when f panics
		if err := t.err(); err != nil {
			return err
		}
		if err := f(handle{reader{t, false}}); err != nil {
			return err
		}
		if err := db.commit(t); err != nil {
			return err
		}
		retry.Committed(t.onCommit)
		return nil
	})
}

// ReadTransact implements kv.DB.
func (db *DB) ReadTransact(ctx context.Context, f func(kv.Reader) error) error {
	if err := retry.Ready(ctx, f); err != nil {
		return err
	}
	t := &tx{db: db, ctx: ctx}
	defer t.end()
	if err := t.err(); err != nil {
		return err
	}
	return f(reader{t, true})
}

// Close implements kv.DB.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.closed = true
	db.tell(span{end: "\xff"}, kv.ErrClosed)
	db.data, db.commits = new(tree), nil
	db.signals.Close()
	return nil
}

// commit makes the writes of t part of the store, or returns why it can't.
func (db *DB) commit(t *tx) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.refuse(t); err != nil {
		return err
	}
	t.ended = true
	for _, w := range t.watches {
		// What others wrote since t read makes no difference to what t wrote.
		w.missed = !t.decides(w.key) && db.written(keySpan(w.key), t.version)
	}
	if len(t.writes) > 0 {
		db.version++
		db.commits = append(db.commits, commit{db.version, t.writes})
	}
	for _, w := range t.writes {
		w.applyTo(db.data)
		if w.apply != nil {
			db.tell(w.span, nil)
		}
	}
	db.register(t)
	db.trim()
	return nil
}

// refuse returns the reason for which t can't commit, or nil.
func (db *DB) refuse(t *tx) error {
	switch {
	case db.closed:
		return kv.ErrClosed
	case t.ctx.Err() != nil:
		return context.Cause(t.ctx)
	case t.bad != nil:
		return t.bad
	case len(t.writes) == 0:
		return nil
	}
	if err := db.limits.CheckTransaction(t.size, t.operations()); err != nil {
		return err
	}
	if len(t.reads) > 0 && t.old() {
		return kv.ErrTooOld
	}
	for _, read := range t.reads {
		if db.written(*read, t.version) {
			return kv.ErrConflict
		}
	}
	return nil
}

// written tells whether a commit after version wrote to s.
func (db *DB) written(s span, version uint64) bool {
	for _, c := range db.commits {
		for _, w := range c.writes {
			if c.version > version && w.overlaps(s) {
				return true
			}
		}
	}
	return false
}

// release closes the version that t reads.
func (db *DB) release(t *tx) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.open[t.version]--; db.open[t.version] == 0 {
		delete(db.open, t.version)
	}
	db.trim()
}

// trim forgets the commits that no open transaction can conflict with. The lock is held.
func (db *DB) trim() {
	oldest := db.version
	for version := range db.open {
		oldest = min(oldest, version)
	}
	n := 0
	for n < len(db.commits) && db.commits[n].version <= oldest {
		n++
	}
	db.commits = slices.Delete(db.commits, 0, n)
}
