package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"unicode/utf8"

	"github.com/conq-go/conq/tuple"
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
func Bytes() Codec[[]byte] { return bytesCodec{} }

// String stores strings as they are. Both ways it refuses what is not UTF-8.
func String() Codec[string] { return stringCodec{} }

// JSON stores values as encoding/json writes them.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

// Tuple stores a value as a tuple of that one element, in FoundationDB's tuple
// encoding. With T = []byte it is what FoundationDB's Java recipe stores. T is a
// type that package tuple has as an element (a byte slice, string, bool, number,
// UUID, Tuple and so on), or any: then what comes back is as tuple.Unpack
// returns it.
func Tuple[T any]() Codec[T] { return tupleCodec[T]{} }

type bytesCodec struct{}

func (bytesCodec) Encode(v []byte) ([]byte, error) { return v, nil }
func (bytesCodec) Decode(b []byte) ([]byte, error) { return b, nil }

type stringCodec struct{}

var errNotUTF8 = errors.New("string is not UTF-8")

func (stringCodec) Encode(v string) ([]byte, error) {
	if !utf8.ValidString(v) {
		return nil, errNotUTF8
	}
	return []byte(v), nil
}

func (stringCodec) Decode(b []byte) (string, error) {
	if !utf8.Valid(b) {
		return "", errNotUTF8
	}
	return string(b), nil
}

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Encode(v T) ([]byte, error) { return json.Marshal(v) }

func (jsonCodec[T]) Decode(b []byte) (T, error) {
	var v T
	err := json.Unmarshal(b, &v)
	return v, err
}

type tupleCodec[T any] struct{}

func (tupleCodec[T]) Encode(v T) ([]byte, error) { return tuple.Tuple{v}.Pack() }

func (tupleCodec[T]) Decode(b []byte) (T, error) {
	var v T
	t, err := tuple.Unpack(b)
	if err != nil {
		return v, err
	}
	if len(t) != 1 {
		return v, fmt.Errorf("tuple has %d elements, not 1", len(t))
	}
	return v, assign(&v, t[0])
}

// assign stores an unpacked element in a variable of the type that was packed.
// They differ where several types of Go have one encoding.
func assign[T any](dst *T, elem any) error {
	switch v := elem.(type) {
	case T:
		*dst = v
		return nil
	case int64:
		if big, ok := any(dst).(**big.Int); ok {
			*big = newBig(v)
			return nil
		}
		if setInt(reflect.ValueOf(dst).Elem(), v) {
			return nil
		}
	case uint64:
		if big, ok := any(dst).(**big.Int); ok {
			*big = newBig(0).SetUint64(v)
			return nil
		}
		if setUint(reflect.ValueOf(dst).Elem(), v) {
			return nil
		}
	case nil:
		if reflect.TypeFor[T]().Kind() == reflect.Interface {
			return nil
		}
	}
	return fmt.Errorf("tuple element of type %T does not fit into %s", elem, reflect.TypeFor[T]())
}

func newBig(i int64) *big.Int { return big.NewInt(i) }

func setInt(dst reflect.Value, i int64) bool {
	switch {
	case dst.CanInt() && !dst.OverflowInt(i):
		dst.SetInt(i)
	case i >= 0:
		return setUint(dst, uint64(i))
	default:
		return false
	}
	return true
}

func setUint(dst reflect.Value, u uint64) bool {
	if !dst.CanUint() || dst.OverflowUint(u) {
		return false
	}
	dst.SetUint(u)
	return true
}
