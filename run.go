package conq

import (
	"context"
	"errors"
	"iter"

	"github.com/conq-go/conq/kv"
)

// view runs f in a read transaction, and a few times more if that was too old.
func view(ctx context.Context, db kv.DB, f func(kv.Reader) error) (err error) {
	if ctx == nil {
		return errContext
	}
	if db == nil {
		return errNoDB
	}
	for range 1 + kv.MaxTooOld {
		if err = db.ReadTransact(ctx, f); !isTooOld(err) {
			break
		}
	}
	return err
}

// visit is what walks over items: it calls f with each in turn until f returns
// an error.
type visit func(f func(kv.Reader, kv.KeyValue) error) error

// each visits the pairs of r.
func each(rd kv.Reader, r kv.Range, f func(kv.Reader, kv.KeyValue) error) error {
	for item, err := range rd.Range(r, kv.RangeOptions{}) {
		if err != nil {
			return err
		}
		if err := f(rd, item); err != nil {
			return err
		}
	}
	return nil
}

// scan visits the pairs of r on one snapshot unless that takes longer than the
// engine allows. Then it goes on in a new one, behind the last pair that f took.
func scan(ctx context.Context, db kv.DB, r kv.Range, f func(kv.Reader, kv.KeyValue) error) error {
	for {
		moved := false
		err := view(ctx, db, func(rd kv.Reader) error {
			return each(rd, r, func(rd kv.Reader, item kv.KeyValue) error {
				if err := f(rd, item); err != nil {
					return err
				}
				r.Begin, moved = kv.After(item.Key), true
				return nil
			})
		})
		if !isTooOld(err) || !moved {
			return err
		}
	}
}

// countAgain is up to how many items are counted again from the start when a snapshot
// becomes too old: it was an accident then, and not the length of the queue.
const countAgain = 10_000

// length counts the items: on one snapshot, or if that takes too long, on several.
func (s *store) length(ctx context.Context) (n int, err error) {
	var rest kv.Range // behind what was counted
	count := func(_ kv.Reader, item kv.KeyValue) error {
		n++
		rest.Begin = kv.After(item.Key)
		return nil
	}
	err = view(ctx, s.db, func(rd kv.Reader) error {
		n, rest = 0, s.span
		err := each(rd, rest, count)
		if isTooOld(err) && n > countAgain {
			return errStop
		}
		return err
	})
	if isTooOld(err) || errors.Is(err, errStop) {
		err = scan(ctx, s.db, rest, count)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

var errStop = errors.New("conq: loop was left")

// sequence returns the items that are visited.
func (s *store) sequence(over visit) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		err := over(func(r kv.Reader, pair kv.KeyValue) error {
			item := Item{Key: pair.Key, Payload: pair.Value}
			if err := s.read(r, &item); err != nil {
				return err
			}
			if err := s.decoded(&item); err != nil {
				return err
			}
			if !yield(item, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(Item{}, err)
		}
	}
}

// failing returns a sequence of nothing but an error.
func failing(err error) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) { yield(Item{}, err) }
}
