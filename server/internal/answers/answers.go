// Package answers remembers what was answered to requests that have a key, so that a client that has lost the answer can
// ask again, and nothing is done twice.
//
// An answer is stored in the transaction that does what was asked, so it is there exactly if that was done, whatever
// crashes. It lies under the day it was given on:
//
//	("conq") ("answer", day, hash of caller and key) -> (hash of the request, answer)
//
// and is found until the end of the next day, so for 24 hours at least. Two requests of one key at the same time
// conflict, as both read where the other writes, or share a transaction, where the second sees what the first has
// written: one of them gets the answer of the other.
//
// Requests that come while a transaction is under way share the next one, which looks up the keys of all of them. It may import
// internal/batch, internal/budget and internal/layout: what a request does its user says.
package answers

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/batch"
	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// ErrOther means that the key was used for another request.
var ErrOther = errors.New("the idempotency key was used for another request")

// Request is what is to be done once.
type Request struct {
	Caller  string // keys of different callers are different
	Key     string
	Content []byte // a hash of all that makes the request what it is, 32 bytes

	// Do does it, and returns the answer. It may run several times, as what kv.DB.Transact is given, and in the goroutine of
	// another call.
	Do func(tx kv.Tx) (answer []byte, err error)

	// Bytes and Operations say about how much of a transaction it takes, by which requests are put together. With 0 bytes
	// it has one of its own, as what conflicts with others should.
	Bytes, Operations int
}

// Store has the answers of a store. It is safe for concurrent use.
type Store struct {
	db      kv.DB
	now     func() time.Time
	cleared atomic.Int64 // the day on which old answers were cleared last
	batches batch.Batcher[task, []byte]
}

// task is a request with the hash of its key.
type task struct {
	Request
	hash []byte
}

type call = batch.Call[task, []byte]

const (
	maxBytes    = 1 << 20 // of requests that share a transaction
	operations  = 3       // that a key takes: of its days one is written, and all are read
	sharedCalls = 32      // of one of those: engines ask for 100 keys at once
)

// New returns the answers of a store. now is the clock.
func New(db kv.DB, now func() time.Time) *Store {
	s := &Store{db: db, now: now}
	o := batch.Options[task, []byte]{Run: s.run, Size: s.cost, MaxBytes: maxBytes}
	if db.Limits().Shared {
		o.Parallel, o.MaxCalls = batch.Eager(batch.Far), sharedCalls
	}
	s.batches.Init(o)
	return s
}

// cost is how much of a transaction a request takes, of maxBytes.
func (s *Store) cost(t task) int {
	return budget.Of(s.db.Limits()).Weight(t.Operations+operations, t.Bytes+len(t.Key), maxBytes)
}

// Do does what a request asks for, and returns the answer, or the one that it has got when it came first. The error is an
// ErrOther, or what its Do has returned. After an error the request can be tried again; after a
// kv.ErrCommitUnknown the next try tells what became of it.
func (s *Store) Do(ctx context.Context, r Request) (answer []byte, err error) {
	t := task{r, r.hash()}
	if r.Bytes == 0 {
		alone := &call{Context: ctx, Request: t}
		s.run([]*call{alone})
		return alone.Result, alone.Err
	}
	return s.batches.Do(ctx, t)
}

// run serves calls in one transaction. If that fails, each gets one of its own, unless it is not known which have failed.
func (s *Store) run(calls []*call) {
	calls, again := distinct(calls)
	err := s.transact(calls)
	switch {
	case err == nil:
	case len(calls) > 1 && !isUnknown(err):
		batch.Each(calls, func(c *call) { s.run([]*call{c}) })
	default:
		for _, c := range calls {
			c.Fail(err)
		}
	}
	if len(again) > 0 {
		s.run(again)
	}
}

func isUnknown(err error) bool { return errors.Is(err, kv.ErrCommitUnknown) }

// distinct returns the first call of each key, and the others, which get its answer when it has one.
func distinct(calls []*call) (first, again []*call) {
	seen := make(map[string]bool, len(calls))
	for _, c := range calls {
		if hash := string(c.Request.hash); seen[hash] {
			again = append(again, c)
		} else {
			seen[hash] = true
			first = append(first, c)
		}
	}
	return first, again
}

// transact runs a transaction for all calls.
func (s *Store) transact(calls []*call) error {
	ctx, cancel := batch.Context(calls)
	defer cancel()
	d := s.days()
	s.forget(ctx, d.today)
	unknown := false
	for {
		err := s.db.Transact(ctx, func(tx kv.Tx) error { return d.answer(tx, calls) })
		switch {
		case err != nil && unknown && !isUnknown(err): // it may be that only the answer can't be read
			return fmt.Errorf("%w: %w", kv.ErrCommitUnknown, err)
		case !isUnknown(err) || !s.db.Limits().UnknownCommits || ctx.Err() != nil:
			return err
		} // whoever commits next, that one or the next attempt, keeps the other from it
		unknown = true
	}
}

// days are those on which an answer is looked for.
type days struct{ today, last int64 }

// skew is how much the clocks of servers may differ.
const skew = time.Hour

func (s *Store) days() days {
	const day = int64(24 * time.Hour / time.Second)
	now := s.now()
	return days{now.Unix() / day, now.Add(skew).Unix() / day}
}

func (d days) keys(hash []byte) (all [][]byte) {
	for day := d.last; day >= d.today-1; day-- {
		all = append(all, keyOf(day, hash))
	}
	return all
}

// lookUps are the reads that lookUp makes for calls.
func (d days) lookUps(calls []*call) (all []kv.Read) {
	for _, c := range calls {
		for _, key := range d.keys(c.Request.hash) {
			all = append(all, kv.Read{Key: key})
		}
	}
	return all
}

// answer sets what calls get, and does what is new.
func (d days) answer(tx kv.Tx, calls []*call) error {
	kv.Prefetch(tx, d.lookUps(calls)...)
	var news []*call
	for _, c := range calls {
		var known bool
		c.Result, known, c.Err = d.lookUp(tx, &c.Request)
		switch {
		case known, c.Err == ErrOther:
		case c.Err != nil:
			return c.Err
		default:
			news = append(news, c)
		}
	}
	for _, c := range news {
		answer, err := c.Request.Do(tx)
		if err != nil {
			return err
		}
		c.Result = answer
		tx.Set(keyOf(d.today, c.Request.hash), tuple.AppendBytes(tuple.AppendBytes(nil, c.Request.Content), answer))
	}
	return nil
}

func (r Request) hash() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(r.Caller)))
	sum := sha256.Sum256(append(append(b, r.Caller...), r.Key...))
	return sum[:20]
}

func keyOf(day int64, hash []byte) []byte { return tuple.AppendBytes(daySpace(day), hash) }

func daySpace(day int64) []byte { return tuple.AppendInt(layout.System("answer"), day) }

// lookUp looks for the answer that a request has got.
func (d days) lookUp(tx kv.Tx, t *task) (answer []byte, known bool, err error) {
	for _, key := range d.keys(t.hash) {
		value, err := tx.Get(key)
		if err != nil {
			return nil, false, err
		}
		if value == nil {
			continue
		}
		content, rest, err := tuple.Next(value)
		if err == nil {
			var elem any
			elem, _, err = tuple.Next(rest)
			answer, _ = elem.([]byte)
		}
		of, _ := content.([]byte)
		switch {
		case err != nil || of == nil || answer == nil:
			return nil, false, fmt.Errorf("the answer at %x is not one: %x", key, value)
		case string(of) != string(t.Content):
			return nil, false, ErrOther
		}
		return answer, true, nil
	}
	return nil, false, nil
}

// forget clears the answers that are no longer looked for, once a day. If that fails, the next request tries again.
func (s *Store) forget(ctx context.Context, today int64) {
	last := s.cleared.Load()
	if last == today || !s.cleared.CompareAndSwap(last, today) {
		return
	}
	err := s.db.Transact(ctx, func(tx kv.Tx) error {
		tx.ClearRange(kv.Range{Begin: layout.System("answer"), End: daySpace(today - 1)})
		return nil
	})
	if err != nil {
		s.cleared.CompareAndSwap(today, last)
	}
}
