package handle

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	types "github.com/conq-go/conq/queue"
)

// peek returns the first item and leaves it. If there is none it is an ErrEmpty, and as
// durable as the commit that has emptied the queue.
func (t *taker) peek(ctx context.Context) (Item, error) {
	lazily, found := true, false
	var item Item
	look := func(r kv.Reader) (err error) {
		if lazily {
			kv.Lazily(r)
		}
		if item, found, err = t.q.first(r, t.side); err != nil || !found {
			return err
		}
		item, err = t.q.whole(r, item)
		return err
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
		return Item{}, types.ErrEmpty
	}
	return item, nil
}

// visit is what walks over items: it calls f with each in turn until f returns
// an error.
type visit func(f func(kv.Reader, kv.KeyValue) error) error

var errStop = errors.New("conq: loop was left")

// sequence returns the items that are visited.
func (q *queue) sequence(over visit) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		err := over(func(r kv.Reader, pair kv.KeyValue) error {
			item, err := q.whole(r, q.found(pair))
			if err != nil {
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

// pageBytes is up to how many bytes of payloads a page has, unless its first item alone has more.
const pageBytes = 8 << 20

// Page returns up to n items of one snapshot in the order of their keys, or the reverse, from behind the key after on
// if that is not nil, and leaves them. next is the key for the next page, or nil if there is none.
func (h *Handle) Page(ctx context.Context, from types.End, after []byte, n int) (items []Item, next []byte, err error) {
	if err := h.readyFor(ctx); err != nil {
		return nil, nil, err
	}
	if n < 1 {
		return nil, nil, fmt.Errorf("%w: queue %q: a page of %d items: it can be from 1 on", kv.ErrInvalid, h.name, n)
	}
	rest, reverse := h.space.Items, from == types.Max
	if after != nil {
		if !rest.Contains(after) {
			return nil, nil, fmt.Errorf("%w: queue %q has no place %.60q to go on from", kv.ErrInvalid, h.name, after)
		}
		if reverse {
			rest.End = after
		} else {
			rest.Begin = kv.After(after)
		}
	}
	err = reads.View(ctx, h.db, func(r kv.Reader) error {
		items, next, err = h.page(r, rest, reverse, n)
		return err
	})
	return items, next, err
}

func (q *queue) page(r kv.Reader, rest kv.Range, reverse bool, n int) (items []Item, next []byte, err error) {
	size := 0
	for pair, err := range r.Range(rest, kv.RangeOptions{Reverse: reverse, Limit: n + 1}) {
		if err != nil {
			return nil, nil, err
		}
		if len(items) == n || size > pageBytes {
			return items, items[len(items)-1].Key, nil
		}
		item, err := q.whole(r, q.found(pair))
		if err != nil {
			return nil, nil, err
		}
		size += len(item.Payload)
		items = append(items, item)
	}
	return items, nil, nil
}
