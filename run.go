package conq

import (
	"context"
	"errors"
	"iter"

	"github.com/conq-go/conq/internal/outcome"
	"github.com/conq-go/conq/kv"
)

// transact runs a verb in a transaction of its own.
func transact[V any](ctx context.Context, s *store, verb func(kv.Tx) (V, error)) (V, error) {
	if err := s.readyFor(ctx); err != nil {
		var none V
		return none, err
	}
	return outcome.Do(ctx, &s.lanes, verb)
}

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

// visit walks over the items of the queue in read transactions of its own.
func (s *store) visit(ctx context.Context) visit {
	return func(f func(kv.Reader, kv.KeyValue) error) error {
		if err := s.readyFor(ctx); err != nil {
			return err
		}
		return scan(ctx, s.db, s.span, f)
	}
}

// visitIn walks over the items of the queue in tx.
func (s *store) visitIn(tx kv.Tx) visit {
	return func(f func(kv.Reader, kv.KeyValue) error) error {
		if err := s.readyIn(tx); err != nil {
			return err
		}
		return each(tx, s.span, f)
	}
}

// countAgain is up to how many items are counted again from the start when a snapshot
// becomes too old: it was an accident then, and not the length of the queue.
const countAgain = 10_000

// length counts the items: on one snapshot, or if that takes too long, on several.
func (s *store) length(ctx context.Context) (n int, err error) {
	if err := s.readyFor(ctx); err != nil {
		return 0, err
	}
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

// length counts what is visited.
func length(over visit) (n int, err error) {
	err = over(func(kv.Reader, kv.KeyValue) error {
		n++
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

var errStop = errors.New("conq: loop was left")

// sequence returns the values of what is visited.
func sequence[V any](over visit, read func(kv.Reader, kv.KeyValue) (V, error)) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		err := over(func(r kv.Reader, item kv.KeyValue) error {
			v, err := read(r, item)
			if err != nil {
				return err
			}
			if !yield(v, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			var none V
			yield(none, err)
		}
	}
}

// failing returns a sequence of nothing but an error.
func failing[V any](err error) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		var none V
		yield(none, err)
	}
}
