package load

import (
	"context"
	"sync"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
)

// counts is what was counted.
type counts struct {
	transactions, conflicts       int
	added, taken                  tally
	requested, fulfilled, expired tally
	verbs                         map[string]Attempts
}

// tally is how often something was done, and for how much in all: items of
// transactions and requests, requests of fulfilments, results of expiries.
type tally struct{ times, sum int }

func (t *tally) add(n int) {
	t.times++
	t.sum += n
}

func (t tally) average() float64 { return Ratio(float64(t.sum), float64(t.times)) }

// ran counts a transaction of a verb that ran so many times.
func (c *counts) ran(verb string, times int) {
	if times == 0 { // staging does not tell
		return
	}
	if c.verbs == nil {
		c.verbs = make(map[string]Attempts)
	}
	a := c.verbs[verb]
	c.verbs[verb] = Attempts{a.Transactions + times, a.Conflicts + times - 1}
}

// counter counts what the store and the handles of all clients do.
type counter struct {
	mu  sync.Mutex
	now counts
}

func (c *counter) count(f func(*counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.now)
}

// reset returns what was counted since the last one.
func (c *counter) reset() (was counts) {
	c.count(func(now *counts) { was, *now = *now, counts{} })
	return was
}

// observe returns a conq.Options.Observe of a queue whose verbs have names. Takes of nothing are no batches.
func (c *counter) observe(put, take string) func(conq.Event) {
	return func(event conq.Event) { c.observed(put, take, event) }
}

func (c *counter) observed(put, take string, event conq.Event) {
	c.count(func(now *counts) {
		switch event.Kind {
		case conq.Added:
			now.added.add(event.Items)
			now.ran(put, event.Attempts)
		case conq.Taken, conq.Collected:
			now.ran(take, event.Attempts)
			if event.Items > 0 {
				now.taken.add(event.Items)
			}
		case conq.Requested:
			now.requested.add(event.Items)
		case conq.Fulfilled:
			now.fulfilled.add(event.Calls)
		case conq.Expired:
			now.expired.add(event.Calls)
		}
	})
}

// jobVerbs are the verbs of events.
var jobVerbs = map[work.EventKind]string{work.EventPut: "put", work.EventReserved: "reserve", work.EventAcked: "ack"}

// observeJobs is a work.Options.Observe.
func (c *counter) observeJobs(event work.Event) {
	c.count(func(now *counts) {
		if verb, ok := jobVerbs[event.Kind]; ok {
			now.ran(verb, event.Attempts)
		}
		switch event.Kind {
		case work.EventPut:
			now.added.add(event.Jobs)
		case work.EventReserved:
			now.taken.add(event.Jobs)
		}
	})
}

// countingDB has the transactions of a store counted.
type countingDB struct {
	kv.DB
	shared  bool // says that other processes share it
	counter *counter
}

// Limits implements kv.DB.
func (db *countingDB) Limits() kv.Limits {
	l := db.DB.Limits()
	l.Shared = l.Shared || db.shared
	return l
}

// Signals implements kvext.Local: those of the store below, if it has any.
func (db *countingDB) Signals() *kvext.Signals { return kvext.NewsOf(db.DB) }

// Transact implements kv.DB.
func (db *countingDB) Transact(ctx context.Context, f func(kv.Tx) error) error {
	attempts := 0
	err := db.DB.Transact(ctx, func(tx kv.Tx) error {
		attempts++
		return f(tx)
	})
	db.counter.count(func(now *counts) {
		now.transactions += attempts
		now.conflicts += max(0, attempts-1)
	})
	return err
}
