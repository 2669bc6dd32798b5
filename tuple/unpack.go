package tuple

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"unicode/utf8"
)

// Unpack returns the tuple that b is the encoding of. No bytes are the empty
// tuple. The error is an ErrMalformed.
func Unpack(b []byte) (Tuple, error) {
	d := decoder{b: b}
	t := Tuple{}
	for d.off < len(b) {
		e, err := d.element(0)
		if err != nil {
			return nil, err
		}
		t = append(t, e)
	}
	return t, nil
}

// Next decodes the first element of b and returns what follows it, which is a
// part of b. The error is an ErrMalformed, also when b is empty; rest is then b.
func Next(b []byte) (elem any, rest []byte, err error) {
	d := decoder{b: b}
	if elem, err = d.element(0); err != nil {
		return nil, b, err
	}
	return elem, b[d.off:], nil
}

// decoder walks over a packed tuple.
type decoder struct {
	b   []byte
	off int
}

// NextInt returns the integer that b begins with, and what follows it. ok is false if b
// begins with something else, or with an integer of more than 64 bits with its sign. It is
// Next for that case, and allocates nothing.
func NextInt(b []byte) (i int64, rest []byte, ok bool) {
	if len(b) == 0 || b[0] < codeZero-8 || b[0] > codeZero+8 {
		return 0, nil, false
	}
	size := int(b[0]) - codeZero
	negative := size < 0
	if negative {
		size = -size
	}
	if len(b) < 1+size {
		return 0, nil, false
	}
	var magnitude uint64
	for _, digit := range b[1 : 1+size] {
		if negative {
			digit = ^digit
		}
		magnitude = magnitude<<8 | uint64(digit)
	}
	switch {
	case size > 0 && magnitude>>(8*(size-1)) == 0: // there is a shorter form
		return 0, nil, false
	case !negative:
		i, ok = int64(magnitude), magnitude <= math.MaxInt64
	default:
		i, ok = -int64(magnitude), magnitude <= 1<<63
	}
	if !ok {
		return 0, nil, false
	}
	return i, b[1+size:], true
}

// SkipBytes returns what follows the byte string that b begins with. ok is false if b
// begins with something else. It is Next for that case, and allocates nothing.
func SkipBytes(b []byte) (rest []byte, ok bool) {
	if len(b) == 0 || b[0] != codeBytes {
		return nil, false
	}
	rest = b[1:]
	for {
		i := bytes.IndexByte(rest, end)
		if i < 0 {
			return nil, false
		}
		rest = rest[i+1:]
		if len(rest) == 0 || rest[0] != escape {
			return rest, true
		}
		rest = rest[1:]
	}
}

// malformed returns an error about the byte at off.
func malformed(off int, format string, args ...any) error {
	return fmt.Errorf("%w: byte %d: %s", ErrMalformed, off, fmt.Sprintf(format, args...))
}

// take returns the next n bytes, as a part of the input.
func (d *decoder) take(n int) ([]byte, error) {
	if len(d.b)-d.off < n {
		return nil, malformed(len(d.b), "truncated: %d more bytes expected", n-(len(d.b)-d.off))
	}
	d.off += n
	return d.b[d.off-n : d.off], nil
}

// element decodes one element, of a tuple at the given depth.
func (d *decoder) element(depth int) (any, error) {
	start := d.off
	head, err := d.take(1)
	if err != nil {
		return nil, err
	}
	switch code := head[0]; code {
	case codeNull:
		return nil, nil
	case codeBytes:
		return d.text()
	case codeString:
		return d.utf8()
	case codeNested:
		return d.nested(depth + 1)
	case codeFloat32:
		return d.fixed(code, 4)
	case codeFloat64:
		return d.fixed(code, 8)
	case codeUUID:
		return d.fixed(code, 16)
	case codeVersionstamp:
		return d.fixed(code, 12)
	case codeFalse, codeTrue:
		return code == codeTrue, nil
	default:
		if code >= codeNegativeBig && code <= codePositiveBig {
			return d.integer(code)
		}
		return nil, malformed(start, "unknown type code %#02x", code)
	}
}

// text decodes bytes up to their end, into a new slice.
func (d *decoder) text() ([]byte, error) {
	text := []byte{}
	for rest := d.b[d.off:]; ; rest = d.b[d.off:] {
		i := bytes.IndexByte(rest, end)
		if i < 0 {
			return nil, malformed(len(d.b), "truncated: end of bytes or string expected")
		}
		if i+1 == len(rest) || rest[i+1] != escape {
			d.off += i + 1
			return append(text, rest[:i]...), nil
		}
		text = append(text, rest[:i+1]...)
		d.off += i + 2
	}
}

func (d *decoder) utf8() (any, error) {
	start := d.off
	text, err := d.text()
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, malformed(start, "string %.40q is not valid UTF-8", text)
	}
	return string(text), nil
}

func (d *decoder) nested(depth int) (any, error) {
	if depth > MaxDepth {
		return nil, malformed(d.off-1, "tuples are nested deeper than %d", MaxDepth)
	}
	for t := (Tuple{}); ; {
		rest := d.b[d.off:]
		switch {
		case len(rest) == 0:
			return nil, malformed(d.off, "truncated: end of nested tuple expected")
		case rest[0] != end:
			e, err := d.element(depth)
			if err != nil {
				return nil, err
			}
			t = append(t, e)
		case len(rest) > 1 && rest[1] == escape:
			t = append(t, nil)
			d.off += 2
		default:
			d.off++
			return t, nil
		}
	}
}

// fixed decodes a type that takes size bytes.
func (d *decoder) fixed(code byte, size int) (any, error) {
	b, err := d.take(size)
	if err != nil {
		return nil, err
	}
	switch code {
	case codeFloat32:
		return math.Float32frombits(unsortable32(binary.BigEndian.Uint32(b))), nil
	case codeFloat64:
		return math.Float64frombits(unsortable64(binary.BigEndian.Uint64(b))), nil
	case codeUUID:
		return UUID(b), nil
	default:
		return Versionstamp{[10]byte(b), binary.BigEndian.Uint16(b[10:])}, nil
	}
}

// integer decodes any integer.
func (d *decoder) integer(code byte) (any, error) {
	start, negative := d.off-1, code < codeZero
	n, sized, err := d.integerSize(code)
	if err != nil {
		return nil, err
	}
	digits, err := d.take(n)
	if err != nil {
		return nil, err
	}
	if n > 8 {
		return bigInteger(start, digits, negative)
	}
	var magnitude uint64
	for _, digit := range digits {
		if negative {
			digit = ^digit
		}
		magnitude = magnitude<<8 | uint64(digit)
	}
	if size(magnitude) != n || sized && magnitude != math.MaxUint64 {
		return nil, errNotShortest(start)
	}
	return smallest(magnitude, negative), nil
}

// integerSize returns how many bytes the magnitude of an integer takes, and
// whether a length byte said so.
func (d *decoder) integerSize(code byte) (n int, sized bool, err error) {
	if code != codeNegativeBig && code != codePositiveBig {
		return max(int(code)-codeZero, codeZero-int(code)), false, nil
	}
	length, err := d.take(1)
	if err != nil {
		return 0, false, err
	}
	if code == codeNegativeBig {
		return int(^length[0]), true, nil
	}
	return int(length[0]), true, nil
}

// bigInteger decodes the digits of an integer of more than 64 bits, which began
// at start.
func bigInteger(start int, digits []byte, negative bool) (any, error) {
	digits = bytes.Clone(digits)
	if negative {
		invert(digits)
	}
	if digits[0] == 0 {
		return nil, errNotShortest(start)
	}
	i := new(big.Int).SetBytes(digits)
	if negative {
		i.Neg(i)
	}
	return i, nil
}

func errNotShortest(start int) error {
	return malformed(start, "integer is not in its shortest form")
}

// smallest returns an integer as the first of int64, uint64 and *big.Int that
// can hold it.
func smallest(magnitude uint64, negative bool) any {
	switch {
	case negative && magnitude <= 1<<63:
		return int64(-magnitude)
	case negative:
		i := new(big.Int).SetUint64(magnitude)
		return i.Neg(i)
	case magnitude <= math.MaxInt64:
		return int64(magnitude)
	default:
		return magnitude
	}
}

// unsortable32 is the inverse of sortable32.
func unsortable32(b uint32) uint32 {
	if b>>31 == 0 {
		return ^b
	}
	return b &^ (1 << 31)
}

// unsortable64 is the inverse of sortable64.
func unsortable64(b uint64) uint64 {
	if b>>63 == 0 {
		return ^b
	}
	return b &^ (1 << 63)
}
