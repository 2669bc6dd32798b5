// Package once remembers what was answered to requests that have a key, so that a client that has lost the answer can
// ask again, and nothing is done twice.
//
// An answer is stored in the transaction that does what was asked, so it is there exactly if that was done, whatever
// crashes. It lies under the day it was given on:
//
//	("conq") ("answer", day, hash of caller and key) -> (hash of the request, answer)
//
// and is found until the end of the next day, so for 24 hours at least. Two requests of one key at the same time
// conflict, as both read where the other writes: one of them gets the answer of the other.
package once

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/tuple"
)

// MaxKey is the length of the longest key, in bytes.
const MaxKey = 255

var (
	// ErrKey means a key that no request can have.
	ErrKey = errors.New("bad idempotency key")

	// ErrOther means that the key was used for another request.
	ErrOther = errors.New("the idempotency key was used for another request")
)

// Request is what is to be done once.
type Request struct {
	Caller  string // keys of different callers are different
	Key     string // 1 to MaxKey bytes
	Content []byte // a hash of all that makes the request what it is, 32 bytes
}

// Answers are those of a store. They are safe for concurrent use.
type Answers struct {
	db      kv.DB
	now     func() time.Time
	cleared atomic.Int64 // the day on which old answers were cleared last
}

// New returns the answers of a store. now is the clock.
func New(db kv.DB, now func() time.Time) *Answers { return &Answers{db: db, now: now} }

// Do runs f in a transaction, and returns its answer, or the one that f gave when the request came first. f may run
// several times, as with kv.DB.Transact. The error is an ErrKey, an ErrOther, or what f returned. After an error the
// request can be tried again; after a kv.ErrCommitUnknown the next try tells what became of it.
func (a *Answers) Do(ctx context.Context, r Request, f func(kv.Tx) ([]byte, error)) (answer []byte, err error) {
	if len(r.Key) < 1 || len(r.Key) > MaxKey {
		return nil, fmt.Errorf("%w: it has %d bytes, it can have 1 to %d", ErrKey, len(r.Key), MaxKey)
	}
	today := a.now().Unix() / int64(24*time.Hour/time.Second)
	a.forget(ctx, today)
	hash := r.hash()
	for {
		err = a.db.Transact(ctx, func(tx kv.Tx) error {
			found, known, err := lookUp(tx, today, hash, r)
			if err != nil || known {
				answer = found
				return err
			}
			if answer, err = f(tx); err != nil {
				return err
			}
			tx.Set(keyOf(today, hash), tuple.AppendBytes(tuple.AppendBytes(nil, r.Content), answer))
			return nil
		})
		if !errors.Is(err, kv.ErrCommitUnknown) || !a.db.Limits().UnknownCommits || ctx.Err() != nil {
			return answer, err
		} // whoever commits next, that one or the next attempt, keeps the other from it
	}
}

func (r Request) hash() []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(r.Caller)))
	sum := sha256.Sum256(append(append(b, r.Caller...), r.Key...))
	return sum[:20]
}

func keyOf(day int64, hash []byte) []byte { return tuple.AppendBytes(daySpace(day), hash) }

func daySpace(day int64) []byte { return tuple.AppendInt(layout.System("answer"), day) }

// lookUp looks for an answer of today or yesterday, or of tomorrow, as the clocks of servers differ.
func lookUp(tx kv.Tx, today int64, hash []byte, r Request) (answer []byte, known bool, err error) {
	for day := today + 1; day >= today-1; day-- {
		key := keyOf(day, hash)
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
		case string(of) != string(r.Content):
			return nil, false, ErrOther
		}
		return answer, true, nil
	}
	return nil, false, nil
}

// forget clears the answers that are no longer looked for, once a day. If that fails, the next request tries again.
func (a *Answers) forget(ctx context.Context, today int64) {
	last := a.cleared.Load()
	if last >= today || !a.cleared.CompareAndSwap(last, today) {
		return
	}
	err := a.db.Transact(ctx, func(tx kv.Tx) error {
		tx.ClearRange(kv.Range{Begin: layout.System("answer"), End: daySpace(today - 1)})
		return nil
	})
	if err != nil {
		a.cleared.CompareAndSwap(today, last)
	}
}
