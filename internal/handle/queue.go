package handle

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/recipe"
)

// queue is a queue in its store, and what all ends of a handle share.
type queue struct {
	db       kv.DB
	closed   atomic.Bool
	nextKeys nextKeys
	orders   orders
	decode   func([]byte) (any, error) // or nil
	signals  *kvext.Signals            // nil where waiters may be in other processes
	local    *kvext.Signals            // of those in this process; nil if there are none
	announce func(kv.Tx) error         // tells that something was added
	observer func(Event)               // or nil
	limits   kv.Limits
	closing  closing
	lanes    *outcome.Lanes // for all transactions of the handle but those of stage
	name     string
	stage    *staging.Stage // of all that take from the queue
	space    *layout.Queue  // where the items lie
	entry    *layout.Entry  // which may be gone, if the queue was deleted
	log      *slog.Logger   // or nil
	present  present        // for observer
	tally    tally
}

// open checks the arguments of Open and enters the queue in the catalogue.
func (q *queue) open(ctx context.Context, db kv.DB, name string, kind types.Kind, o *Options) error {
	if o.Random == nil {
		o.Random = rand.Reader
	} else {
		o.Random = reads.Progress(o.Random)
	}
	switch err := layout.CheckName(name); {
	case err != nil:
		return err
	case db == nil:
		return reads.ErrNoDB
	case o.Staging < StagingAuto || o.Staging > StagingNever:
		return fmt.Errorf("conq: queue %q: Options.Staging is %d: it can be StagingAuto, StagingAlways or StagingNever: %w", name, o.Staging, kv.ErrInvalid)
	}
	if err := layout.Register(ctx, db, name, kind); err != nil {
		return err
	}
	q.db, q.name, q.limits, q.observer, q.log = db, name, db.Limits(), o.Observe, o.Logger
	q.space, q.entry = layout.New(name, kind, q.limits), layout.NewEntry(db, name, kind)
	q.signals, q.local, q.announce = kvext.SignalsOf(db), kvext.NewsOf(db), Announcer(db, name)
	q.lanes = outcome.New(db, layout.Outcomes(name), nil)
	q.forgetOthers(ctx)
	return nil
}

// source is a queue for staging. The handle serves requests of others, so it has to know all
// sides, not only those that it takes from.
type source struct{ *queue }

func (q source) Items(r kv.Reader, side staging.Side, limit int) iter.Seq2[kv.KeyValue, error] {
	return q.items(r, side, limit)
}

func (q source) Place(key []byte) (group, place []byte) { return q.space.Place(key) }

func (q source) Keys(key []byte) int { return q.space.Keys(key) }

// openStage makes the staging.
func (q *queue) openStage() {
	q.stage = staging.New(q.db, staging.Options{
		Source:   source{q},
		Space:    layout.Stage(q.name),
		Outcomes: layout.Outcomes(q.name),
		PutBack:  q.announce,
		News:     q.local,
		Observe:  q.observeStaging(),
	})
}

// items returns the items in the order in which a side takes them. A key that is not an
// item's is an item that does not decode.
func (q *queue) items(r kv.Reader, side staging.Side, limit int) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for item, err := range q.orders[side].Items(r, limit) {
			if err != nil {
				err = q.foreign(err)
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// Announcer returns what has callers look again that wait for items of a queue, once a
// transaction has committed that has put some there.
func Announcer(db kv.DB, name string) func(kv.Tx) error {
	local := kvext.NewsOf(db)
	notify := func() { local.Notify(name) }
	if kvext.SignalsOf(db) != nil {
		return func(tx kv.Tx) error {
			tx.OnCommit(notify)
			return nil
		}
	}
	return func(tx kv.Tx) error {
		if local != nil {
			tx.OnCommit(notify) // they learn it sooner than by a watch
		}
		var change [8]byte
		if _, err := rand.Read(change[:]); err != nil {
			return fmt.Errorf("conq: queue %q: no random bytes: %w", name, err)
		}
		tx.Set(layout.SignalKey(name), change[:])
		return nil
	}
}

// pollTime is how often waiters look for items that were enqueued by
// programs which announce nothing, such as the recipes in other languages.
const pollTime = time.Second

func (q *queue) poll() time.Duration {
	if q.signals != nil {
		return 0 // others would have told
	}
	return pollTime
}

// operationsPerItem is what it may take to add or to take an item of one key:
// reads, writes, and its part in what is done once a transaction.
const operationsPerItem = 6

// combinable returns how many calls may share a transaction.
func (q *queue) combinable() int {
	return budget.Of(q.limits).Times(operationsPerItem, maxCombinedCalls)
}

// maxItem returns the size of the largest payload.
func (q *queue) maxItem() int { return budget.MaxPayload(q.limits) }

// checkCount returns the error for a number of items that can't be taken, or nil.
func (q *queue) checkCount(n int) error {
	if n <= 0 {
		return fmt.Errorf("conq: queue %q: a batch of %d items: at least 1 is needed: %w", q.name, n, kv.ErrInvalid)
	}
	return nil
}

// checkSizes returns the error for the first payload that is too large, or nil.
func (q *queue) checkSizes(items []Item) error {
	for i, item := range items {
		if size := len(item.Payload); size > q.maxItem() {
			err := &kv.TooLargeError{What: "item", Size: size, Limit: q.maxItem(), Unit: "bytes"}
			return Nth(i, len(items), fmt.Errorf("conq: queue %q: %w", q.name, err))
		}
	}
	return nil
}

// Nth says which of several values an error is about.
func Nth(i, n int, err error) error {
	if n == 1 {
		return err
	}
	return fmt.Errorf("conq: value %d of %d: %w", i+1, n, err)
}

// foreign names the queue in an error of the recipe. A key that is not an item's
// is an item that does not decode.
func (q *queue) foreign(err error) error {
	switch {
	case errors.Is(err, recipe.ErrKey):
		return fmt.Errorf("%w: queue %q: %w", types.ErrDecode, q.name, err)
	case errors.Is(err, recipe.ErrNoIndex), errors.Is(err, recipe.ErrRandom):
		return fmt.Errorf("conq: queue %q: %w", q.name, err)
	}
	return err
}
