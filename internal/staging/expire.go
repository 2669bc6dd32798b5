package staging

import (
	"context"
	"errors"

	"github.com/conq-go/conq/kv"
)

// Expire puts back the items of results whose deadline has passed, if there are
// any, and removes such requests. Takes without staging call it now and then: the owner may have
// died, and no client may stage any more. It costs a read of two keys.
func (s *Stage) Expire(ctx context.Context) error {
	for {
		err := s.db.ReadTransact(ctx, func(r kv.Reader) error {
			if err := s.checkDue(r); err != nil {
				return err
			}
			return s.checkDead(r)
		})
		switch {
		case errors.Is(err, errDue):
			err = s.expire(ctx)
		case errors.Is(err, errAbandoned):
			err = s.dropDead(ctx)
		default:
			return err
		}
		if err != nil {
			return err
		}
	}
}

// errAbandoned means that the client of the first request has died.
var errAbandoned = errors.New("staging: a request is not wanted any more")

// checkDead returns errAbandoned if the deadline of the first request has passed.
func (s *Stage) checkDead(r kv.Reader) error {
	first, err := s.requests(r, 1)
	if len(first) > 0 && s.past(first[0].deadline) {
		return errAbandoned
	}
	return err
}

// dropDead removes the first requests, as far as their deadlines have passed, as a fulfiller does.
func (s *Stage) dropDead(ctx context.Context) error {
	err := s.dropSome(ctx, s.o.Requests)
	if errors.Is(err, kv.ErrTooLarge) {
		err = s.dropSome(ctx, 1)
	}
	if errors.Is(err, kv.ErrCommitUnknown) {
		return nil // the next look sees what is left to do
	}
	return err
}

// dropSome is dropDead for so many at most, in a transaction.
func (s *Stage) dropSome(ctx context.Context, limit int) error {
	return s.db.Transact(ctx, func(tx kv.Tx) error {
		first, err := s.requests(tx, limit)
		if err != nil {
			return err
		}
		for _, r := range first {
			if !s.past(r.deadline) {
				break
			}
			tx.AddReadConflict(kv.KeyRange(r.key)) // its client may live, and renew it
			tx.Clear(r.key)
		}
		return nil
	})
}

// checkDue returns errDue if a result has waited for too long.
func (s *Stage) checkDue(r kv.Reader) error {
	for first, err := range r.Snapshot().Range(s.keys.all(dueKind), kv.RangeOptions{Limit: 1}) {
		if err != nil {
			return err
		}
		deadline, _, err := s.keys.parseDue(first.Key)
		if err != nil {
			return err
		}
		if s.past(deadline) {
			return errDue
		}
	}
	return nil
}

// expire puts the items of results that nobody has collected by their deadline
// back under the keys that they had, so that they are as near to the head as
// they were. It can run any number of times: the result's key goes with the
// items. A result that is too large goes in parts: to put it back may take more
// than it took to serve it.
func (s *Stage) expire(ctx context.Context) error {
	most := s.o.Items
	e, err := s.expireSome(ctx, s.o.Requests, most)
	for errors.Is(err, kv.ErrTooLarge) && most > 0 {
		e, err = s.expireSome(ctx, 1, most)
		most /= 2
	}
	if errors.Is(err, kv.ErrCommitUnknown) {
		return nil // the next look sees what is left to do
	}
	if err == nil && e.Requests+e.Items > 0 {
		s.o.Observe(e)
	}
	return err
}

// expireSome puts back what is due, of so many results at most, and of each so many
// items, in a transaction.
func (s *Stage) expireSome(ctx context.Context, limit, most int) (e Event, err error) {
	err = s.db.Transact(ctx, func(tx kv.Tx) error {
		e = Event{Kind: Expired}
		bytes := 0
		for pair, err := range tx.Snapshot().Range(s.keys.all(dueKind), kv.RangeOptions{Limit: limit}) {
			if err != nil {
				return err
			}
			deadline, op, err := s.keys.parseDue(pair.Key)
			if err != nil {
				return err
			}
			if !s.past(deadline) || bytes > s.o.Bytes || e.Items >= s.o.Items {
				break
			}
			n, size, whole, err := s.putBack(tx, pair.Key, op, most)
			if err != nil {
				return err
			}
			if whole {
				e.Requests++
			}
			e.Items += n
			bytes += size
		}
		if e.Items == 0 {
			return nil
		}
		return s.o.PutBack(tx)
	})
	return e, err
}

// putBack puts the items of a result back, or the last ones, and no more than most: the
// others are due as before.
func (s *Stage) putBack(tx kv.Tx, due, op []byte, most int) (n, size int, whole bool, err error) {
	r, found, err := s.readResult(tx, op)
	if err != nil {
		return 0, 0, false, err
	}
	left := max(0, len(r.items)-most)
	if whole = left == 0; whole {
		tx.Clear(due)
	}
	if found {
		s.cutResult(tx, r, left)
	}
	for _, item := range r.items[left:] {
		tx.Set(item.Key, item.Value)
		size += 2*len(item.Key) + len(item.Value)
	}
	return len(r.items) - left, size, whole, nil
}
