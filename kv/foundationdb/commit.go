package foundationdb

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/internal/overlay"
	"github.com/conq-go/conq/kv/internal/retry"
)

const (
	// maxSent is the limit of FoundationDB for a commit: what it sends of keys, values
	// and conflict ranges, with so much for each mutation and each range.
	maxSent        = 10_000_000
	perMutation    = 44
	perConflict    = 24
	maxTransaction = 9_500_000 // of it, which leaves the rest for that
)

// commit ends the attempt.
func (t *txn) commit() error {
	if err := t.alive(); err != nil {
		return err
	}
	if t.writes.Bad != nil {
		return t.writes.Bad
	}
	writes := !t.writes.Empty() || len(t.writes.Conflicts) > 0
	if writes {
		if err := t.db.limits.CheckTransaction(t.writes.Bytes(), 0); err != nil {
			return err
		}
	}
	if err := t.look(); err != nil {
		return err
	}
	if writes {
		if err := t.send(); err != nil {
			return err
		}
	}
	t.writes.Ended = true
	t.startWatches()
	retry.Committed(t.writes.Committed)
	return nil
}

// send gives all that the attempt has read and written to the library, and commits.
func (t *txn) send() error {
	size, err := t.fill()
	if err != nil {
		return err
	}
	if t.uncancel != nil && !t.uncancel() {
		return t.alive() // as the context has ended
	}
	t.uncancel = nil
	if !t.db.enter() {
		return kv.ErrClosed
	}
	defer t.db.commits.Done()
	failed := t.awaitCommit(t.tr.commit())
	if failed == nil {
		t.committed = true
		return nil
	}
	switch code := t.db.client.code(failed); {
	case maybeCommitted(code):
		t.outcome = t.unknown(failed)
		return t.outcome
	case code == codeTransactionTooLarge, code == codeKeyTooLarge, code == codeValueTooLarge:
		return t.tooLarge(code, size)
	}
	return t.fault(failed)
}

// unknown returns the error of a commit of which it is unknown whether it happened:
// with the reason why it was given up, if it was.
func (t *txn) unknown(failed error) error {
	err := failed
	switch {
	case t.working.Err() != nil:
		err = context.Cause(t.working)
	case t.db.closed():
		err = kv.ErrClosed
	}
	return fmt.Errorf("%w: %w", kv.ErrCommitUnknown, err)
}

// fill adds the conflicts to the library's transaction, and then the writes. The
// order matters: it leaves out of a read conflict what the transaction has written
// before, but others must not take what this one takes. It returns about how large
// the commit is for FoundationDB.
func (t *txn) fill() (size int, err error) {
	for _, r := range t.reads {
		begin, end := t.db.bounds(r)
		if bytes.Compare(begin, end) >= 0 {
			continue
		}
		if err := t.tr.addReadConflict(begin, end); err != nil {
			return 0, t.fault(err)
		}
		size += perConflict + len(begin) + len(end)
	}
	for _, r := range t.writes.Cleared() {
		begin, end := t.db.bounds(r)
		if bytes.Compare(begin, end) < 0 {
			t.tr.clearRange(begin, end)
			size += perMutation + perConflict + 2*(len(begin)+len(end))
		}
	}
	t.writes.Changes(func(c *overlay.Change) {
		key := t.db.key(c.Key)
		switch c.Kind {
		case overlay.Set:
			t.tr.set(key, c.Value)
		case overlay.Clear:
			t.tr.clear(key)
			size += len(key) + 1
		case overlay.Add:
			t.tr.add(key, binary.LittleEndian.AppendUint64(nil, uint64(c.Delta)))
			size += 8
		}
		size += perMutation + perConflict + 3*len(key) + 1 + len(c.Value)
	})
	for _, r := range t.writes.Conflicts {
		begin, end := t.db.bounds(r)
		if bytes.Compare(begin, end) >= 0 {
			continue
		}
		if err := t.tr.addWriteConflict(begin, end); err != nil {
			return 0, t.fault(err)
		}
		size += perConflict + len(begin) + len(end)
	}
	return size, nil
}

// tooLarge returns what a commit has exceeded. Keys and values were checked when
// they were written, so that an error of theirs would come of a cluster with other
// limits.
func (t *txn) tooLarge(code, size int) error {
	what := &kv.TooLargeError{What: "transaction", Size: max(size, maxSent+1), Limit: maxSent, Unit: "bytes"}
	key, value := 0, 0
	t.writes.Changes(func(c *overlay.Change) { key, value = max(key, len(c.Key)), max(value, len(c.Value)) })
	switch code {
	case codeKeyTooLarge:
		what.What, what.Size, what.Limit = "key", key, t.db.limits.Key
	case codeValueTooLarge:
		what.What, what.Size, what.Limit = "value", value, t.db.limits.Value
	}
	return what
}
