package conq

import (
	"context"
	"fmt"
	"iter"

	"github.com/conq-go/conq/internal/handle"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
)

// Codec turns a queue's values into the bytes that are stored, and back.
//
// Encode may return memory that it shares with the value: the bytes are copied
// before the verb that was called returns. Decode may keep the bytes that it is
// given. It may be called several times for an item, within transactions, and when
// items are handed over also by the call that adds them. A codec is used by many
// goroutines at once, and must not add to the queue, take from it or close it by the
// handle that it belongs to: that would wait for itself.
type Codec[T any] interface {
	Encode(T) ([]byte, error)
	Decode([]byte) (T, error)
}

// Bytes stores byte slices as they are. It is what FoundationDB's Python recipe
// stores. A nil slice comes back as an empty one.
func Bytes() Codec[[]byte] { return queue.Bytes() }

// String stores strings as they are. Both ways it refuses what is not UTF-8.
func String() Codec[string] { return queue.String() }

// JSON stores values as encoding/json writes them.
func JSON[T any]() Codec[T] { return queue.JSON[T]() }

// Tuple stores a value as a tuple of that one element, in FoundationDB's tuple
// encoding. With T = []byte it is what FoundationDB's Java recipe stores. T is a
// type that package tuple has as an element (a byte slice, string, bool, number,
// UUID, Tuple and so on), or any: then what comes back is as tuple.Unpack
// returns it.
func Tuple[T any]() Codec[T] { return queue.Tuple[T]() }

// End is an end of a priority queue.
type End = queue.End

const (
	Min = queue.Min // the lowest priority
	Max = queue.Max // the highest priority
)

// open opens a handle whose items have values of type T.
func open[T any](ctx context.Context, db kv.DB, name string, kind Kind, c Codec[T], opts []Options) (*handle.Handle, error) {
	o, err := options.Only(opts)
	switch {
	case err != nil:
		return nil, fmt.Errorf("conq: queue %q: %w", name, err)
	case c == nil:
		return nil, fmt.Errorf("conq: queue %q: codec is nil: %w", name, kv.ErrInvalid)
	}
	return handle.Open(ctx, db, name, kind, func(payload []byte) (any, error) { return c.Decode(payload) }, o.inner())
}

// encode returns the payload of a value.
func encode[T any](h *handle.Handle, c Codec[T], v T) ([]byte, error) {
	if err := h.Ready(); err != nil {
		return nil, err
	}
	payload, err := c.Encode(v)
	if err != nil {
		return nil, fmt.Errorf("conq: queue %q: item does not encode: %w", h.Name(), err)
	}
	return payload, nil
}

// typed returns the value of an item. That of an interface type may be nil.
func typed[T any](item handle.Item) T {
	v, _ := item.Value.(T)
	return v
}

func prioritizedOf[T any](item handle.Item) Prioritized[T] {
	return Prioritized[T]{Value: typed[T](item), Priority: item.Priority}
}

func peeked[T any](item handle.Item, err error) (T, error) { return typed[T](item), err }

// single returns the value of the only item.
func single[T any](items []handle.Item, err error) (v T, _ error) {
	if err != nil {
		return v, err
	}
	return typed[T](items[0]), nil
}

func several[T any](items []handle.Item, err error) ([]T, error) { return mapped(items, err, typed[T]) }

func severalPrioritized[T any](items []handle.Item, err error) ([]Prioritized[T], error) {
	return mapped(items, err, prioritizedOf[T])
}

func mapped[V any](items []handle.Item, err error, of func(handle.Item) V) ([]V, error) {
	if err != nil {
		return nil, err
	}
	all := make([]V, len(items))
	for i, item := range items {
		all[i] = of(item)
	}
	return all, nil
}

// sequence returns what of makes of items.
func sequence[V any](items iter.Seq2[handle.Item, error], of func(handle.Item) V) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for item, err := range items {
			if !yield(of(item), err) {
				return
			}
		}
	}
}
