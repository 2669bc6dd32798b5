package tuple

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"unicode/utf8"
)

// Pack returns t's encoding in a new slice. The error is an ErrElement.
func (t Tuple) Pack() ([]byte, error) { return t.Append(nil) }

// Append appends t's encoding to dst and returns the longer slice. The error is
// an ErrElement; dst is then returned as it was.
func (t Tuple) Append(dst []byte) ([]byte, error) {
	packed := dst
	for i, e := range t {
		var err error
		if packed, err = appendElement(packed, e, 0); err != nil {
			return dst, fmt.Errorf("%w: element %d: %w", ErrElement, i, err)
		}
	}
	return packed, nil
}

// AppendInt appends the encoding of the tuple (i) to dst. It allocates nothing
// if dst has room for 9 bytes more.
func AppendInt(dst []byte, i int64) []byte {
	if i < 0 {
		return appendMagnitude(dst, -uint64(i), true)
	}
	return appendMagnitude(dst, uint64(i), false)
}

// AppendBytes appends the encoding of the tuple (b) to dst. It needs room for
// len(b)+2 bytes, and one for each zero byte in b.
func AppendBytes(dst, b []byte) []byte { return appendText(dst, codeBytes, b) }

// AppendString appends the encoding of the tuple (s) to dst. It needs as much
// room as AppendBytes. s must be UTF-8, which is not checked here: [Unpack]
// refuses what is not.
func AppendString(dst []byte, s string) []byte { return appendText(dst, codeString, s) }

func appendText[T []byte | string](dst []byte, code byte, text T) []byte {
	dst = append(dst, code)
	begin := len(dst)
	dst = append(dst, text...)
	if bytes.IndexByte(dst[begin:], end) < 0 { // mostly
		return append(dst, end)
	}
	dst = dst[:begin]
	for i := range len(text) {
		if dst = append(dst, text[i]); text[i] == end {
			dst = append(dst, escape)
		}
	}
	return append(dst, end)
}

// appendElement appends one element, of a tuple at the given depth.
func appendElement(dst []byte, e any, depth int) ([]byte, error) {
	if magnitude, negative, ok := integer(e); ok {
		return appendMagnitude(dst, magnitude, negative), nil
	}
	switch e := e.(type) {
	case nil:
		return append(dst, codeNull), nil
	case []byte:
		return AppendBytes(dst, e), nil
	case string:
		if !utf8.ValidString(e) {
			return dst, fmt.Errorf("string %.40q is not valid UTF-8", e)
		}
		return AppendString(dst, e), nil
	case Tuple:
		return appendNested(dst, e, depth+1)
	case *big.Int:
		return appendBig(dst, e)
	case float32:
		return binary.BigEndian.AppendUint32(append(dst, codeFloat32), sortable32(math.Float32bits(e))), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(dst, codeFloat64), sortable64(math.Float64bits(e))), nil
	case bool:
		if e {
			return append(dst, codeTrue), nil
		}
		return append(dst, codeFalse), nil
	case UUID:
		return append(append(dst, codeUUID), e[:]...), nil
	case Versionstamp:
		dst = append(append(dst, codeVersionstamp), e.Transaction[:]...)
		return binary.BigEndian.AppendUint16(dst, e.User), nil
	}
	return dst, fmt.Errorf("type %T is not supported", e)
}

func appendNested(dst []byte, t Tuple, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return dst, fmt.Errorf("tuples are nested deeper than %d", MaxDepth)
	}
	dst = append(dst, codeNested)
	for i, e := range t {
		var err error
		if dst, err = appendElement(dst, e, depth); err != nil {
			return dst, fmt.Errorf("element %d: %w", i, err)
		}
		if e == nil {
			dst = append(dst, escape) // or it would be the end
		}
	}
	return append(dst, end), nil
}

// integer returns the value of an integer type other than *big.Int.
func integer(e any) (magnitude uint64, negative, ok bool) {
	var i int64
	switch e := e.(type) {
	case int:
		i = int64(e)
	case int8:
		i = int64(e)
	case int16:
		i = int64(e)
	case int32:
		i = int64(e)
	case int64:
		i = e
	case uint:
		return uint64(e), false, true
	case uint8:
		return uint64(e), false, true
	case uint16:
		return uint64(e), false, true
	case uint32:
		return uint64(e), false, true
	case uint64:
		return e, false, true
	default:
		return 0, false, false
	}
	if i < 0 {
		return -uint64(i), true, true
	}
	return uint64(i), false, true
}

// size returns how many bytes an integer of at most 64 bits takes.
func size(magnitude uint64) int { return (bits.Len64(magnitude) + 7) / 8 }

// appendMagnitude appends an integer of at most 64 bits.
func appendMagnitude(dst []byte, magnitude uint64, negative bool) []byte {
	n := byte(size(magnitude))
	sized := magnitude == math.MaxUint64 // as Python, see the package's doc
	var digits [8]byte
	switch {
	case negative && sized:
		dst = append(dst, codeNegativeBig, n^0xff)
	case negative:
		dst = append(dst, codeZero-n)
	case sized:
		dst = append(dst, codePositiveBig, n)
	default:
		dst = append(dst, codeZero+n)
	}
	if negative {
		magnitude = ^magnitude
	}
	binary.BigEndian.PutUint64(digits[:], magnitude)
	return append(dst, digits[8-n:]...)
}

func appendBig(dst []byte, i *big.Int) ([]byte, error) {
	if i == nil {
		return dst, fmt.Errorf("nil %T", i)
	}
	n := (i.BitLen() + 7) / 8
	negative := i.Sign() < 0
	if n > maxIntBytes {
		return dst, fmt.Errorf("integer of %d bytes is over the limit of %d", n, maxIntBytes)
	}
	if n <= 8 {
		return appendMagnitude(dst, new(big.Int).Abs(i).Uint64(), negative), nil
	}
	digits := i.FillBytes(make([]byte, n))
	if negative {
		return append(append(dst, codeNegativeBig, byte(n)^0xff), invert(digits)...), nil
	}
	return append(append(dst, codePositiveBig, byte(n)), digits...), nil
}

// invert replaces b by its complement.
func invert(b []byte) []byte {
	for i := range b {
		b[i] = ^b[i]
	}
	return b
}

// sortable32 turns the bits of a float into an integer of the same order.
func sortable32(b uint32) uint32 {
	if b>>31 != 0 {
		return ^b
	}
	return b | 1<<31
}

// sortable64 is sortable32 for a float64.
func sortable64(b uint64) uint64 {
	if b>>63 != 0 {
		return ^b
	}
	return b | 1<<63
}
