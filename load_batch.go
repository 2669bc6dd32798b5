package conq

import (
	"context"
	"errors"
	"math"

	"github.com/conq-go/conq/internal/stream"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/tuple"
)

// loadBounds are those of what Load puts into one transaction.
type loadBounds struct {
	loadCost
	payload int // the largest there can be, in bytes
	value   int // the largest value, or 0
}

// loadCost is what items are to a transaction.
type loadCost struct{ items, bytes, operations int }

func newLoadBounds(l kv.Limits) loadBounds {
	s := store{limits: l}
	b := loadBounds{loadCost{maxCombinedCalls, maxCombinedBytes, math.MaxInt}, s.maxItem(), l.Value}
	b.bytes = min(b.bytes, s.maxItem())
	if l.Operations > 0 {
		b.operations = l.Operations
	}
	return b
}

// cost returns what an item of a queue takes, with all of its pieces.
func (b loadBounds) cost(queue string, it Item) loadCost {
	pieces := 1
	if b.value > 0 && len(it.Payload) > b.value {
		pieces = (len(it.Payload) + b.value - 1) / b.value
	}
	// Each piece has the key of the item, with a few bytes more.
	key := len(queue) + 2*9 + 2*recipe.RandomSize + 32
	return loadCost{1, len(it.Payload) + pieces*key, operationsPerItem - 1 + pieces}
}

// loadBatch is what goes in next.
type loadBatch struct {
	items []Item
	loadCost
}

func (b *loadBatch) full(more loadCost, of loadBounds) bool {
	return len(b.items) > 0 &&
		(b.loadCost.items+more.items > of.items || b.bytes+more.bytes > of.bytes || b.operations+more.operations > of.operations)
}

func (b *loadBatch) add(it Item, cost loadCost) {
	b.items = append(b.items, it)
	b.loadCost.items += cost.items
	b.bytes += cost.bytes
	b.operations += cost.operations
}

// value returns an item of the stream as what is put into the queue under way.
func (l *loader) value(item stream.Item) (Item, error) {
	if l.queue.Kind == KindQueue {
		if len(item.Priority) > 0 {
			return Item{}, l.stream.Broken("an item of a %s has a priority", l.queue.Kind)
		}
		return Item{Payload: item.Payload}, nil
	}
	elem, rest, err := tuple.Next(item.Priority)
	priority, ok := elem.(int64)
	if err != nil || !ok || len(rest) > 0 {
		return Item{}, l.stream.Broken("priority %.40x is not a packed integer of 64 bits", item.Priority)
	}
	return Item{Payload: item.Payload, Priority: priority}, nil
}

// isUnreadable tells whether an error is about the dump, not about the store.
func isUnreadable(err error) bool {
	var at *stream.ReadError
	return errors.Is(err, stream.ErrBroken) || errors.Is(err, stream.ErrTooLong) || errors.As(err, &at)
}

// openTries is how often a queue is opened if it stays unknown whether that was done, or
// takes too long. It does no harm to do it again.
const openTries = 10

// open opens the queue under way.
func (l *loader) open() (err error) {
	if l.o.DryRun {
		return nil
	}
	for range openTries {
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		o := Options{NoCombining: true, Staging: StagingNever} // one caller, which takes nothing
		l.target, err = openHandle(l.db, l.queue.Name, l.queue.Kind, nil, o)
		if !isTooOld(err) && !errors.Is(err, kv.ErrCommitUnknown) {
			break
		}
	}
	return err
}
