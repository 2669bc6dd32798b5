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

	"github.com/conq-go/conq/errs"
	"github.com/conq-go/conq/internal/catalogue"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/internal/progress"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
)

// store is a queue in its store, and what all ends of a handle share.
type store struct {
	db        kv.DB
	closed    atomic.Bool
	algorithm algorithm
	orders    orders
	decode    func([]byte) (any, error) // or nil
	signals   *kv.Signals               // nil where waiters may be in other processes
	announce  func(kv.Tx) error         // tells that something was added
	staged    *atomic.Bool              // something was staged in the store; nil if that can't be known
	observer  func(Event)               // or nil
	limits    kv.Limits
	closing   closing
	lanes     outcome.Lanes // for all transactions of the handle but those of stage
	name      string
	stage     *staging.Stage // of all that take from the queue
	space     *layout.Queue  // where the items lie
	log       *slog.Logger   // or nil
	present   present        // for observer
	tally     tally
}

// open checks the arguments of Open and enters the queue in the catalogue.
func (s *store) open(ctx context.Context, db kv.DB, name string, kind layout.Kind, o *Options) error {
	if o.Random == nil {
		o.Random = rand.Reader
	} else {
		o.Random = progress.Reader(o.Random)
	}
	switch err := layout.CheckName(name); {
	case err != nil:
		return err
	case db == nil:
		return reads.ErrNoDB
	case o.Staging < StagingAuto || o.Staging > StagingNever:
		return fmt.Errorf("conq: queue %q: Options.Staging is %d: it can be StagingAuto, StagingAlways or StagingNever", name, o.Staging)
	}
	if err := catalogue.Register(ctx, db, name, kind); err != nil {
		return err
	}
	s.db, s.name, s.limits, s.observer, s.log = db, name, db.Limits(), o.Observe, o.Logger
	s.space = layout.New(name, kind, s.limits)
	s.signals, s.announce = kv.SignalsOf(db), Announcer(db, name)
	s.lanes.Init(db, layout.Outcomes(name), nil)
	s.forgetOthers(ctx)
	return nil
}

// source is a queue for staging. The handle serves requests of others, so it has to know all
// sides, not only those that it takes from.
type source struct{ *store }

func (s source) Items(r kv.Reader, side staging.Side, limit int) iter.Seq2[kv.KeyValue, error] {
	return s.items(r, side, limit)
}

func (s source) Covered(side staging.Side, last []byte) []kv.Range {
	return s.orders[side].Covered(last)
}

func (s source) Place(key []byte) (group, place []byte) { return s.space.Place(key) }

func (s source) Keys(key []byte) int { return s.space.Keys(key) }

// openStage makes the staging.
func (s *store) openStage(ctx context.Context, o Options) error {
	s.stage = staging.New(s.db, staging.Options{
		Source:   source{s},
		Space:    layout.Stage(s.name),
		Outcomes: layout.Outcomes(s.name),
		PutBack:  s.announce,
		Observe:  s.observeStaging(),
	})
	return s.noteStaging(ctx, o)
}

// items returns the items in the order in which a side takes them. A key that is not an
// item's is an item that does not decode.
func (s *store) items(r kv.Reader, side staging.Side, limit int) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for item, err := range s.orders[side].Items(r, limit) {
			if err != nil {
				err = s.foreign(err)
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
	if signals := kv.SignalsOf(db); signals != nil {
		notify := func() { signals.Notify(name) }
		return func(tx kv.Tx) error {
			tx.OnCommit(notify)
			return nil
		}
	}
	return func(tx kv.Tx) error {
		var news [8]byte
		if _, err := rand.Read(news[:]); err != nil {
			return fmt.Errorf("conq: queue %q: no random bytes: %w", name, err)
		}
		tx.Set(layout.SignalKey(name), news[:])
		return nil
	}
}

// pollTime is how often waiters look for items that were enqueued by
// programs which announce nothing, such as the recipes in other languages.
const pollTime = time.Second

func (s *store) poll() time.Duration {
	if s.signals != nil {
		return 0 // others would have told
	}
	return pollTime
}

// operationsPerItem is what it may take to add or to take an item of one key:
// reads, writes, and its part in what is done once a transaction.
const operationsPerItem = 6

// combinable returns how many calls may share a transaction.
func (s *store) combinable() int {
	if s.limits.Operations == 0 {
		return maxCombinedCalls
	}
	return max(1, min(maxCombinedCalls, s.limits.Operations/operationsPerItem))
}

// maxItem returns the size of the largest payload.
func (s *store) maxItem() int { return layout.MaxPayload(s.limits) }

// ready returns the error for a queue that was not opened, or is closed, or nil.
func (s *store) ready() error {
	switch {
	case s.db == nil:
		return errUnopened
	case s.closed.Load():
		return s.closedError()
	}
	return nil
}

// readyFor is ready for a verb with a context.
func (s *store) readyFor(ctx context.Context) error {
	if ctx == nil {
		return reads.ErrContext
	}
	return s.ready()
}

// readyIn is ready for a verb that runs in tx.
func (s *store) readyIn(tx kv.Tx) error {
	if tx == nil {
		return errNoTx
	}
	if err := s.ready(); err != nil {
		return err
	}
	if kv.Foreign(s.db, tx) {
		return fmt.Errorf("conq: queue %q: In was given a transaction of another store: %w", s.name, kv.ErrInvalid)
	}
	return nil
}

// checkSizes returns the error for the first payload that is too large, or nil.
func (s *store) checkSizes(items []Item) error {
	for i, item := range items {
		if size := len(item.Payload); size > s.maxItem() {
			err := &kv.TooLargeError{What: "item", Size: size, Limit: s.maxItem(), Unit: "bytes"}
			return Nth(i, len(items), fmt.Errorf("conq: queue %q: %w", s.name, err))
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
func (s *store) foreign(err error) error {
	switch {
	case errors.Is(err, recipe.ErrKey):
		return fmt.Errorf("%w: queue %q: %w", errs.ErrDecode, s.name, err)
	case errors.Is(err, recipe.ErrFull), errors.Is(err, recipe.ErrRandom):
		return fmt.Errorf("conq: queue %q: %w", s.name, err)
	}
	return err
}
