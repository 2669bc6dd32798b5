package conq

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/internal/progress"
	"github.com/conq-go/conq/internal/staging"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// store is what both kinds of queues are below their order and their values:
// items, and payloads that may lie over several keys.
type store struct {
	db       kv.DB
	closed   atomic.Bool
	layout   layout
	orders   []recipe.Order            // in which items are taken, by staging.Side
	decode   func([]byte) (any, error) // or nil
	priority bool                      // it is a priority queue
	span     kv.Range                  // of items: behind (name)
	signals  *kv.Signals               // nil where waiters may be in other processes
	notify   func()                    // tells the signals that something was added
	staged   *atomic.Bool              // something was staged in the store; nil if that can't be known
	observer func(Event)               // or nil
	limits   kv.Limits
	closing  closing
	lanes    outcome.Lanes // for all transactions of the handle but those of stage
	name     string
	stage    *staging.Stage // of all who take from the queue
	pieces   []byte         // ("conq", "piece", name), packed
	log      *slog.Logger   // or nil
	present  present        // for observer
	tally    tally
}

// open checks the arguments of openHandle and enters the queue in the catalogue.
func (s *store) open(ctx context.Context, db kv.DB, name string, kind Kind, o *Options) error {
	if o.Random == nil {
		o.Random = rand.Reader
	} else {
		o.Random = progress.Reader(o.Random)
	}
	switch err := checkName(name); {
	case err != nil:
		return err
	case db == nil:
		return errNoDB
	case o.Staging < StagingAuto || o.Staging > StagingNever:
		return fmt.Errorf("conq: queue %q: Options.Staging is %d: it can be StagingAuto, StagingAlways or StagingNever", name, o.Staging)
	}
	if err := register(ctx, db, name, kind); err != nil {
		return err
	}
	s.db, s.name, s.limits, s.observer, s.log = db, name, db.Limits(), o.Observe, o.Logger
	s.pieces = pieceSpace(name)
	s.priority = kind == KindPriorityQueue
	if s.signals = kv.SignalsOf(db); s.signals != nil {
		s.notify = func() { s.signals.Notify(s.name) }
	}
	s.lanes.Init(db, subspace.FromBytes(outcomes(name)), nil)
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

func (s source) Place(key []byte) (group, place []byte) { return s.place(key) }

func (s source) Keys(key []byte) int { return s.keys(key) }

// openStage makes the staging.
func (s *store) openStage(ctx context.Context, o Options) error {
	s.stage = staging.New(s.db, staging.Options{
		Source:   source{s},
		Space:    subspace.FromBytes(stageSpace(s.name)),
		Outcomes: subspace.FromBytes(outcomes(s.name)),
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

// announce has those look again who wait for items, once tx has committed.
func (s *store) announce(tx kv.Tx) error {
	if s.signals != nil {
		tx.OnCommit(s.notify)
		return nil
	}
	var news [8]byte
	if _, err := rand.Read(news[:]); err != nil {
		return fmt.Errorf("conq: queue %q: no random bytes: %w", s.name, err)
	}
	tx.Set(signalKey(s.name), news[:])
	return nil
}

// pollTime is how often those who wait look for items that were enqueued by
// programs which announce nothing, such as the recipes in other languages.
const pollTime = time.Second

func (s *store) poll() time.Duration {
	if s.signals != nil {
		return 0 // nobody else can be there
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

// maxItem returns the size of the largest payload: half of a transaction, so that
// one transaction can move it elsewhere.
func (s *store) maxItem() int {
	if s.limits.Transaction == 0 {
		return math.MaxInt
	}
	return s.limits.Transaction / 2
}

// prefix returns what all keys of items begin with.
func (s *store) prefix() []byte {
	n := len(s.span.Begin) - 1
	return s.span.Begin[:n:n]
}

// integers returns how many there are in an item's key, between name and random element.
func (s *store) integers() int {
	if s.priority {
		return 2
	}
	return 1
}

// keySize is about the size of an item's key.
func (s *store) keySize() int { return len(s.prefix()) + 9*s.integers() + recipe.RandomSize + 2 }

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
		return errContext
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
			return nth(i, len(items), fmt.Errorf("conq: queue %q: %w", s.name, err))
		}
	}
	return nil
}

// nth says which of several values an error is about.
func nth(i, n int, err error) error {
	if n == 1 {
		return err
	}
	return fmt.Errorf("conq: value %d of %d: %w", i+1, n, err)
}

func (s *store) decodeError(key []byte, err error) error {
	return fmt.Errorf("%w: queue %q, key %x: %w", ErrDecode, s.name, key, err)
}

// foreign names the queue in an error of the recipe. A key that is not an item's
// is an item that does not decode.
func (s *store) foreign(err error) error {
	switch {
	case errors.Is(err, recipe.ErrKey):
		return fmt.Errorf("%w: queue %q: %w", ErrDecode, s.name, err)
	case errors.Is(err, recipe.ErrFull), errors.Is(err, recipe.ErrRandom):
		return fmt.Errorf("conq: queue %q: %w", s.name, err)
	}
	return err
}

// set stores an item under a key of the recipe. A payload over the engine's
// limit for values goes over several keys: the first piece under the item's key,
// which tells how many there are, the others beside it.
func (s *store) set(tx kv.Tx, key, payload []byte) {
	size := s.limits.Value
	if size == 0 || len(payload) <= size {
		tx.Set(key, payload)
		return
	}
	n := (len(payload) + size - 1) / size
	key = appendInt(key, int64(n))
	tx.Set(key, payload[:size])
	beside := s.beside(key)
	for i := 1; i < n; i++ {
		tx.Set(appendInt(beside, int64(i)), payload[i*size:min((i+1)*size, len(payload))])
	}
}

// payload returns what set stored.
func (s *store) payload(r kv.Reader, item kv.KeyValue) ([]byte, error) {
	n, err := s.count(item.Key)
	if err != nil || n == 1 {
		return item.Value, err
	}
	return s.joined(r, item, n)
}

// maxReserved is how many bytes of memory are taken for a payload before its pieces are read: any
// number of them can stand in a key that others wrote.
const maxReserved = 32 << 20

// joined returns a payload of n pieces, all of one size, but for the last, which may be
// smaller. Its reads leave no conflict: pieces are written and cleared only together with
// the item's key, which has been read.
func (s *store) joined(r kv.Reader, item kv.KeyValue, n int) ([]byte, error) {
	beside := s.beside(item.Key)
	all := kv.PrefixRange(beside)
	next, size := 1, len(item.Value)
	payload := append(make([]byte, 0, min(int64(n)*int64(size), maxReserved)), item.Value...)
	for piece, err := range r.Snapshot().Range(all, kv.RangeOptions{Limit: n - 1}) {
		if err != nil {
			return nil, err
		}
		if string(piece.Key) != string(appendInt(beside, int64(next))) {
			break
		}
		next++
		if got := len(piece.Value); got > size || got < size && next < n || got == 0 {
			return nil, s.decodeError(item.Key, fmt.Errorf("piece %d of %d has %d bytes, and the first one %d", next, n, got, size))
		}
		payload = append(payload, piece.Value...)
	}
	if next < n {
		return nil, s.decodeError(item.Key, fmt.Errorf("piece %d of %d is missing", next+1, n))
	}
	return payload, nil
}

// clear removes an item that payload has read. The pieces are cleared one by one:
// there are few, and a range tombstone for each item burdens the reads of an LSM
// store.
func (s *store) clear(tx kv.Tx, key []byte) {
	tx.Clear(key)
	s.clearPieces(tx, key)
}

// clearPieces removes the pieces of a payload but for the first.
func (s *store) clearPieces(tx kv.Tx, key []byte) {
	n, err := s.count(key)
	if err != nil || n == 1 {
		return
	}
	beside := s.beside(key)
	for i := 1; i < n; i++ {
		tx.Clear(appendInt(beside, int64(i)))
	}
}

// clearAll removes all items, also those that are staged and not collected: their
// pieces go, and who died while he was taking them must not bring them back. Who
// is still there finds that his request is gone, and comes again.
func (s *store) clearAll(tx kv.Tx) {
	tx.ClearRange(s.span)
	tx.ClearRange(subspace.FromBytes(stageSpace(s.name)).Range())
	tx.ClearRange(piecesOf(s.name))
}

// count returns the number of keys of an item.
func (s *store) count(key []byte) (int, error) {
	n, err := pieceCount(s.fields(key), s.integers())
	if err != nil {
		return 0, s.decodeError(key, err)
	}
	return n, nil
}

// keys is count for who only weighs an item: if it is damaged, decoding it will tell.
func (s *store) keys(key []byte) int {
	n, err := s.count(key)
	if err != nil {
		return 1
	}
	return n
}

// beside returns the prefix of the further pieces of an item.
func (s *store) beside(key []byte) []byte { return join(s.pieces, s.fields(key)) }

// fields returns the key of an item without the name.
func (s *store) fields(key []byte) []byte { return key[len(s.prefix()):] }

// integer returns the i-th of the integers in the key of an item.
func (s *store) integer(key []byte, i int) (n int64, err error) {
	fields, ok := s.fields(key), true
	for j := 0; ok && j <= i; j++ {
		n, fields, ok = tuple.NextInt(fields)
	}
	if !ok {
		return 0, fmt.Errorf("conq: queue %q, key %x: element %d is not a 64-bit integer", s.name, key, i+2)
	}
	return n, nil
}
