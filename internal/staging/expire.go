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

// dueRead reads the result that is due first.
func (s *Stage) dueRead() kv.Read {
	return kv.Read{Range: s.keys.all(resultKind), Options: kv.RangeOptions{Limit: 1, KeysOnly: true}}
}

// checkDue returns errDue if a result has waited for too long.
func (s *Stage) checkDue(r kv.Reader) error {
	due := s.dueRead()
	for first, err := range r.Snapshot().Range(due.Range, due.Options) {
		if err != nil {
			return err
		}
		deadline, op, _, err := s.keys.parseResult(first)
		if err == nil && s.isDue(deadline, op) {
			err = errDue
		}
		return err
	}
	s.noneIsDue()
	return nil
}

// expire puts the items of results that nobody has collected by their deadline
// back under the keys that they had, so that they are as near to the head as
// they were. It can run any number of times. That writes less than it took to serve the result, so
// it fits into a transaction.
func (s *Stage) expire(ctx context.Context) error {
	e, err := s.expireSome(ctx, s.o.Requests)
	if errors.Is(err, kv.ErrTooLarge) {
		e, err = s.expireSome(ctx, 1)
	}
	if errors.Is(err, kv.ErrCommitUnknown) {
		return nil // the next look sees what is left to do
	}
	if err == nil && e.Requests > 0 {
		s.o.Observe(e)
	}
	return err
}

// expireSome puts back what is due, of so many results at most, in a transaction.
func (s *Stage) expireSome(ctx context.Context, limit int) (e Event, err error) {
	err = s.db.Transact(ctx, func(tx kv.Tx) error {
		e = Event{Kind: Expired}
		due, err := s.due(tx, limit)
		if err != nil {
			return err
		}
		var items []kv.KeyValue
		for _, r := range due {
			r, found, err := s.takeResult(tx, r.deadline, r.op)
			if err != nil {
				return err
			}
			if found {
				e.Requests++
				items = append(items, r.items...)
			}
		}
		e.Items = len(items)
		return s.putBack(tx, items)
	})
	return e, err
}

// due returns the first results whose deadline has passed, as many as go back at a time.
func (s *Stage) due(tx kv.Tx, limit int) (due []result, err error) {
	items, bytes := 0, 0
	for pair, err := range tx.Snapshot().Range(s.keys.all(resultKind), kv.RangeOptions{}) {
		if err != nil {
			return nil, err
		}
		deadline, op, item, err := s.keys.parseResult(pair)
		if err != nil {
			return nil, err
		}
		if len(due) == 0 || string(op) != string(due[len(due)-1].op) {
			if !s.isDue(deadline, op) || len(due) == limit || items >= s.o.Items || bytes > s.o.Bytes {
				break
			}
			due = append(due, result{deadline: deadline, op: op})
		}
		items++
		bytes += 2*len(item.Key) + len(item.Value)
	}
	return due, nil
}
