package load

import (
	"context"
	"sync/atomic"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
)

// countingDB counts the transactions of a store.
type countingDB struct {
	kv.DB
	shared bool // says that other processes share it

	transactions, conflicts atomic.Int64
}

// Limits implements kv.DB.
func (db *countingDB) Limits() kv.Limits {
	l := db.DB.Limits()
	l.Shared = l.Shared || db.shared
	return l
}

// Signals implements kv.Local: those of the store below, if it has any.
func (db *countingDB) Signals() *kv.Signals { return kv.NewsOf(db.DB) }

// Transact implements kv.DB.
func (db *countingDB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	attempts := int64(0)
	err := db.DB.Transact(ctx, func(tx kv.Tx) error {
		attempts++
		return f(tx)
	})
	db.transactions.Add(attempts)
	db.conflicts.Add(max(0, attempts-1))
	return err
}

// tally is how often something was done, and for how much in all: items of
// transactions and requests, requests of fulfilments, results of expiries.
type tally struct{ times, sum atomic.Int64 }

func (t *tally) add(n int) {
	t.times.Add(1)
	t.sum.Add(int64(n))
}

// events counts what the handles tell. Takes of nothing are left out.
type events struct {
	added, taken                  tally
	requested, fulfilled, expired tally
}

// observe is a conq.Options.Observe.
func (e *events) observe(event conq.Event) {
	switch event.Kind {
	case conq.Added:
		e.added.add(event.Items)
	case conq.Taken, conq.Collected:
		if event.Items > 0 {
			e.taken.add(event.Items)
		}
	case conq.Requested:
		e.requested.add(event.Items)
	case conq.Fulfilled:
		e.fulfilled.add(event.Calls)
	case conq.Expired:
		e.expired.add(event.Calls)
	}
}

// observeJobs is a work.Options.Observe.
func (e *events) observeJobs(event work.Event) {
	switch event.Kind {
	case work.EventPut:
		e.added.add(event.Jobs)
	case work.EventReserved:
		e.taken.add(event.Jobs)
	}
}

// counts is what had been counted at a moment.
type counts struct {
	transactions, conflicts       int64
	added, taken                  [2]int64
	requested, fulfilled, expired [2]int64
}

func (t *tally) read() [2]int64 { return [2]int64{t.times.Load(), t.sum.Load()} }

// counts reads all counters.
func (r *run) counts() counts {
	e := &r.events
	return counts{
		transactions: r.db.transactions.Load(), conflicts: r.db.conflicts.Load(),
		added: e.added.read(), taken: e.taken.read(),
		requested: e.requested.read(), fulfilled: e.fulfilled.read(), expired: e.expired.read(),
	}
}

// since returns what was counted between before and c.
func (c counts) since(before counts) counts {
	sub := func(a, b [2]int64) [2]int64 { return [2]int64{a[0] - b[0], a[1] - b[1]} }
	return counts{
		transactions: c.transactions - before.transactions, conflicts: c.conflicts - before.conflicts,
		added: sub(c.added, before.added), taken: sub(c.taken, before.taken),
		requested: sub(c.requested, before.requested), fulfilled: sub(c.fulfilled, before.fulfilled),
		expired: sub(c.expired, before.expired),
	}
}
