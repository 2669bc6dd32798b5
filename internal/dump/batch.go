package dump

import (
	"context"
	"errors"
	"math"

	"github.com/conq-go/conq/internal/dump/stream"
	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/internal/reads"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/tuple"
)

// What Load puts into one transaction, at most.
const (
	maxLoadItems = 1000
	maxLoadBytes = 1 << 20

	// operationsOfItem is what it may take to add an item of one key: reads, writes, and its part
	// in what is done once a transaction.
	operationsOfItem = 6
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
	b := loadBounds{loadCost{maxLoadItems, maxLoadBytes, math.MaxInt}, layout.MaxPayload(l), l.Value}
	b.bytes = min(b.bytes, b.payload)
	if l.Operations > 0 {
		b.operations = l.Operations
	}
	return b
}

// cost returns what an item of a queue takes, with all of its pieces.
func (b loadBounds) cost(queue string, it handle.Item) loadCost {
	pieces := 1
	if b.value > 0 && len(it.Payload) > b.value {
		pieces = (len(it.Payload) + b.value - 1) / b.value
	}
	// Each piece has the key of the item, with a few bytes more.
	key := len(queue) + 2*9 + 2*recipe.RandomSize + 32
	return loadCost{1, len(it.Payload) + pieces*key, operationsOfItem - 1 + pieces}
}

// loadBatch is what goes in next.
type loadBatch struct {
	items []handle.Item
	loadCost
}

func (b *loadBatch) full(more loadCost, of loadBounds) bool {
	return len(b.items) > 0 &&
		(b.loadCost.items+more.items > of.items || b.bytes+more.bytes > of.bytes || b.operations+more.operations > of.operations)
}

func (b *loadBatch) add(it handle.Item, cost loadCost) {
	b.items = append(b.items, it)
	b.loadCost.items += cost.items
	b.bytes += cost.bytes
	b.operations += cost.operations
}

// value returns an item of the stream as what is put into the queue under way.
func (l *loader) value(item stream.Item) (handle.Item, error) {
	if l.queue.Kind == layout.KindQueue {
		if len(item.Priority) > 0 {
			return handle.Item{}, l.stream.Broken("an item of a %s has a priority", l.queue.Kind)
		}
		return handle.Item{Payload: item.Payload}, nil
	}
	elem, rest, err := tuple.Next(item.Priority)
	priority, ok := elem.(int64)
	if err != nil || !ok || len(rest) > 0 {
		return handle.Item{}, l.stream.Broken("priority %.40x is not a packed integer of 64 bits", item.Priority)
	}
	return handle.Item{Payload: item.Payload, Priority: priority}, nil
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
		o := handle.Options{NoCombining: true, Staging: handle.StagingNever} // one caller, which takes nothing
		l.target, err = handle.Open(l.db, l.queue.Name, l.queue.Kind, nil, o)
		if !reads.TooOld(err) && !errors.Is(err, kv.ErrCommitUnknown) {
			break
		}
	}
	return err
}
