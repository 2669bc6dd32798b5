package kv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// OutcomeAge is how long an outcome key stays at least that nobody removes: see
// [ForgetOutcomes].
const OutcomeAge = 7 * 24 * time.Hour

// conclusive is how long after an attempt the absence of its outcome key is a sign
// that it has not committed. It leaves room for clocks that do not agree before
// anybody may have removed the key.
const conclusive = 24 * time.Hour

var errTooLate = fmt.Errorf("kv: the outcome was looked up more than %v later, and its key may have been removed", conclusive)

// tooLate uses the clock of the wall: it goes on while a machine is asleep.
func tooLate(at int64) bool { return time.Now().UnixNano()-at > int64(conclusive) }

// ForgetOutcomes removes outcome keys in r that have not been written for
// [OutcomeAge], by the clock of this process and those of their writers: their lanes
// are of processes that have died, or are idle. It looks at up to limit keys, and
// leaves values alone that are no outcomes. Where Limits().UnknownCommits is not set
// there are none, and it does nothing.
//
// It is safe to remove the key of a lane that is still in use. Its next transaction
// conflicts if the key is removed while it is under way, and otherwise does not
// depend on it. Only a call that still has to find out about an attempt of its own
// does: if it has not in 24 hours, and the key is not there, it gives up with
// ErrCommitUnknown. So what has to hold is that clocks agree within 6 days.
//
// After an error some keys may be gone; a further call is safe.
func ForgetOutcomes(ctx context.Context, db DB, r Range, limit int) error {
	if !db.Limits().UnknownCommits {
		return nil
	}
	var old [][]byte
	err := db.ReadTransact(ctx, func(rd Reader) error {
		old = nil
		for pair, err := range rd.Snapshot().Range(r, RangeOptions{Limit: limit}) {
			if err != nil {
				return err
			}
			if isOld(pair.Value) {
				old = append(old, bytes.Clone(pair.Key))
			}
		}
		return nil
	})
	const atOnce = 20 // fits any engine's transaction
	for ; err == nil && len(old) > 0; old = old[min(len(old), atOnce):] {
		err = forgetOld(ctx, db, old[:min(len(old), atOnce)])
	}
	return err
}

// forgetOld removes those of keys that are still old: their lanes may have begun to
// use them again.
func forgetOld(ctx context.Context, db DB, keys [][]byte) error {
	err := db.Transact(ctx, func(tx Tx) error {
		for _, key := range keys {
			value, err := tx.Get(key)
			if err != nil {
				return err
			}
			if isOld(value) {
				tx.Clear(key)
			}
		}
		return nil
	})
	if errors.Is(err, ErrCommitUnknown) {
		return nil // they are gone, or somebody else will see to it
	}
	return err
}

func isOld(value []byte) bool {
	at, ok := OutcomeTime(value)
	return ok && time.Since(at) > OutcomeAge
}

// OutcomeTime returns when a value was written at an outcome key, by the clock of its writer,
// and whether it is what lanes of this version write there.
func OutcomeTime(value []byte) (at time.Time, ok bool) {
	v, err := parseOutcome(nil, value)
	return time.Unix(0, v.at), err == nil
}
