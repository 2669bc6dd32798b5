package conq

import (
	"context"
	"errors"

	"github.com/conq-go/conq/kv"
)

// peek returns the first item and leaves it. If there is none it is an ErrEmpty, and as
// durable as the commit that has emptied the queue.
func (t *taker) peek(ctx context.Context) (Item, error) {
	if err := t.s.readyFor(ctx); err != nil {
		return Item{}, err
	}
	lazily, found := true, false
	var item Item
	look := func(r kv.Reader) (err error) {
		if lazily {
			kv.Lazily(r)
		}
		var pair kv.KeyValue
		if pair, found, err = t.s.first(r, t.side); err != nil || !found {
			return err
		}
		item = Item{Key: pair.Key, Payload: pair.Value}
		return t.s.read(r, &item)
	}
	err := view(ctx, t.s.db, look)
	if errors.Is(err, kv.ErrConflict) { // what it has read has changed meanwhile
		lazily = false
		err = view(ctx, t.s.db, look)
	}
	switch {
	case err != nil:
		return Item{}, err
	case !found:
		return Item{}, ErrEmpty
	}
	if err := t.s.decoded(&item); err != nil {
		return Item{}, err
	}
	return item, nil
}
