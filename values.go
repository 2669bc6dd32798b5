package conq

import "github.com/conq-go/conq/queue"

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
