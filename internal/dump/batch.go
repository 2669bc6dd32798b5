package dump

import (
	"errors"
	"math"

	"github.com/conq-go/conq/internal/budget"
	"github.com/conq-go/conq/internal/dump/stream"
	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/internal/jobs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
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

	// operationsOfRecord is the same for a record of a work queue, whose job has a claim, a slot and a result.
	operationsOfRecord = 16
)

// loadBounds are those of what Load puts into one transaction.
type loadBounds struct {
	loadCost
	payload int // the largest there can be, in bytes
	limits  kv.Limits
}

// loadCost is what items are to a transaction.
type loadCost struct{ items, bytes, operations int }

func newLoadBounds(l kv.Limits) loadBounds {
	room := budget.Of(l)
	return loadBounds{loadCost{maxLoadItems, min(maxLoadBytes, room.Bytes), room.Operations}, budget.MaxPayload(l), l}
}

// element returns how many bytes an element of a queue has at most in the stream.
func (b loadBounds) element(kind queue.Kind) int {
	if kind != queue.KindWorkQueue || b.payload > math.MaxInt/2-recordBytes {
		return b.payload
	}
	return 2*b.payload + recordBytes // there may be a result, too
}

// cost returns what an element of a queue takes, with all of its pieces.
func (b loadBounds) cost(queue string, e element) loadCost {
	payload, key, operations := e.item.Payload, len(queue)+2*9+2*recipe.RandomSize+32, operationsOfItem
	if e.record != nil {
		payload, key, operations = e.record.Payload, len(queue)+64, operationsOfRecord
	}
	pieces := budget.Pieces(b.limits, len(payload))
	if e.record != nil {
		pieces += budget.Pieces(b.limits, len(e.record.Result))
	}
	// Each piece has the key of the item, with a few bytes more.
	bytes := len(payload) + pieces*key
	if e.record != nil {
		bytes += e.size - len(payload) + 4*key // header, index, claim, slots
	}
	return loadCost{1, bytes, operations - 1 + pieces}
}

// element is an item, or a record of a work queue, with its bytes in the stream.
type element struct {
	item   handle.Item
	record *jobs.Record
	size   int
}

// loadBatch is what goes in next.
type loadBatch struct {
	items []element
	loadCost
}

func (b *loadBatch) full(more loadCost, of loadBounds) bool {
	return len(b.items) > 0 &&
		(b.loadCost.items+more.items > of.items || b.bytes+more.bytes > of.bytes || b.operations+more.operations > of.operations)
}

func (b *loadBatch) add(e element, cost loadCost) {
	b.items = append(b.items, e)
	b.loadCost.items += cost.items
	b.bytes += cost.bytes
	b.operations += cost.operations
}

// element returns an item of the stream as what is put into the queue under way.
func (l *loader) element(item stream.Item) (e element, err error) {
	e.size = len(item.Payload)
	switch l.queue.Kind {
	case queue.KindWorkQueue:
		e.record, err = l.recordOf(item)
		if err == nil && len(e.record.Payload) > l.bounds.payload {
			err = &stream.TooLongError{Queue: l.queue.Name, Item: l.done + len(l.batch.items) + 1, Size: len(e.record.Payload), Limit: l.bounds.payload}
		}
	case queue.KindQueue:
		if len(item.Priority) > 0 {
			err = l.stream.Broken("an item of a %s has a priority", l.queue.Kind)
		}
		e.item = handle.Item{Payload: item.Payload}
	default:
		elem, rest, failed := tuple.Next(item.Priority)
		priority, ok := elem.(int64)
		if failed != nil || !ok || len(rest) > 0 {
			err = l.stream.Broken("priority %.40x is not a packed integer of 64 bits", item.Priority)
		}
		e.item = handle.Item{Payload: item.Payload, Priority: priority}
	}
	return e, err
}

// isUnreadable tells whether an error is about the dump, not about the store.
func isUnreadable(err error) bool {
	var at *stream.ReadError
	return errors.Is(err, stream.ErrBroken) || errors.Is(err, stream.ErrTooLong) || errors.As(err, &at)
}
