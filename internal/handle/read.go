package handle

import (
	"context"
	"errors"
	"iter"

	"github.com/conq-go/conq/errs"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
)

// peek returns the first item and leaves it. If there is none it is an ErrEmpty, and as
// durable as the commit that has emptied the queue.
func (t *taker) peek(ctx context.Context) (Item, error) {
	if err := t.q.readyFor(ctx); err != nil {
		return Item{}, err
	}
	lazily, found := true, false
	var item Item
	look := func(r kv.Reader) (err error) {
		if lazily {
			kv.Lazily(r)
		}
		var pair kv.KeyValue
		if pair, found, err = t.q.first(r, t.side); err != nil || !found {
			return err
		}
		item = Item{Key: pair.Key, Payload: pair.Value}
		return t.q.read(r, &item)
	}
	err := reads.View(ctx, t.q.db, look)
	if errors.Is(err, kv.ErrConflict) { // what it has read has changed meanwhile
		lazily = false
		err = reads.View(ctx, t.q.db, look)
	}
	switch {
	case err != nil:
		return Item{}, err
	case !found:
		return Item{}, errs.ErrEmpty
	}
	if err := t.q.decoded(&item); err != nil {
		return Item{}, err
	}
	return item, nil
}

// visit is what walks over items: it calls f with each in turn until f returns
// an error.
type visit func(f func(kv.Reader, kv.KeyValue) error) error

// countAgain is up to how many items are counted again from the start when a snapshot
// becomes too old: it was an accident then, and not the length of the queue.
const countAgain = 10_000

// length counts the items: on one snapshot, or if that takes too long, on several.
func (q *queue) length(ctx context.Context) (n int, err error) {
	var rest kv.Range // behind what was counted
	count := func(_ kv.Reader, item kv.KeyValue) error {
		n++
		rest.Begin = kv.After(item.Key)
		return nil
	}
	err = reads.View(ctx, q.db, func(rd kv.Reader) error {
		n, rest = 0, q.space.Items
		err := reads.Each(rd, rest, count)
		if reads.TooOld(err) && n > countAgain {
			return errStop
		}
		return err
	})
	if reads.TooOld(err) || errors.Is(err, errStop) {
		err = reads.Scan(ctx, q.db, rest, count)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

var errStop = errors.New("conq: loop was left")

// sequence returns the items that are visited.
func (q *queue) sequence(over visit) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		err := over(func(r kv.Reader, pair kv.KeyValue) error {
			item := Item{Key: pair.Key, Payload: pair.Value}
			if err := q.read(r, &item); err != nil {
				return err
			}
			if err := q.decoded(&item); err != nil {
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
