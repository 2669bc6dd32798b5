// Package tuple packs tuples of values into bytes, and unpacks them, in
// FoundationDB's tuple encoding: the bytes sort as the tuples do, and programs
// in other languages that use FoundationDB's tuple layer read and write the
// same keys. It imports the standard library only.
//
// # Layout
//
// A packed tuple is its packed elements, one after another. An element is a
// type code and what follows it. Numbers are big-endian, so that they sort:
//
//	code     Go type, as unpacked  what follows the code
//	00       nil                   nothing; ff inside a nested tuple
//	01       []byte                the bytes, each 00 as 00 ff, then 00
//	02       string                the same, in UTF-8
//	05       Tuple                 the elements, then 00
//	0b       *big.Int, negative    length xor ff, complement of the magnitude
//	0c..13   int64, negative       8..1 bytes, complement of the magnitude
//	14       int64, zero           nothing
//	15..1c   int64, uint64         1..8 bytes, the magnitude
//	1d       *big.Int              length, magnitude of so many bytes
//	20       float32               4 bytes of IEEE 754, see below
//	21       float64               8 bytes of IEEE 754
//	26, 27   bool                  nothing; false, true
//	30       UUID                  16 bytes
//	33       Versionstamp          10 bytes of the transaction, 2 of the user
//
// A float with its sign bit set has all its bits inverted, another one its sign
// bit only. So -NaN < -Inf < -0 < +0 < +Inf < NaN, and every bit of a NaN
// survives.
//
// Elements sort by type first, in the order of the table; all integers are one
// type, whatever their size. A tuple sorts before all tuples that it begins.
// [Compare] is this order.
//
// # What is refused
//
// No input makes this package panic. Packing refuses what it could not unpack
// again: other types, a string that is not UTF-8, an integer of more than 255
// bytes, tuples nested deeper than [MaxDepth]. Unpacking refuses what packing
// would not have written, so that no two keys stand for one tuple: a truncated
// element, an unknown code, an integer that is not in its shortest form, a
// string that is not UTF-8, too deep a nesting.
//
// There is one exception. FoundationDB's bindings differ in the two integers of
// 64 bits all set, 2^64-1 and its negative. This package writes them as Python
// does (1d 08, 0b f7), but also reads the form without a length byte (1c, 0c).
//
// Versionstamps are 12 bytes like any other; an incomplete one (10 times ff)
// has no special meaning.
//
// # Ownership and concurrency
//
// Nothing that is returned shares memory with the bytes that were unpacked.
// All functions are safe for concurrent use; a Tuple is as safe as any slice.
package tuple

import "errors"

// MaxDepth is how deep tuples may be nested: a tuple in a tuple is at depth 1.
const MaxDepth = 100

// maxIntBytes is the largest magnitude of an integer, as its length is one byte.
const maxIntBytes = 255

// The type codes.
const (
	codeNull         = 0x00
	codeBytes        = 0x01
	codeString       = 0x02
	codeNested       = 0x05
	codeNegativeBig  = 0x0b
	codeZero         = 0x14
	codePositiveBig  = 0x1d
	codeFloat32      = 0x20
	codeFloat64      = 0x21
	codeFalse        = 0x26
	codeTrue         = 0x27
	codeUUID         = 0x30
	codeVersionstamp = 0x33

	end    = 0x00 // of bytes, strings and nested tuples
	escape = 0xff // behind a 00 that is not an end
)

var (
	// ErrElement means that an element of a tuple can't be packed. The error
	// says which one and why.
	ErrElement = errors.New("tuple: cannot pack")

	// ErrMalformed means that bytes are not a packed tuple. The error says at
	// which byte and why.
	ErrMalformed = errors.New("tuple: malformed")
)

// Tuple is a sequence of elements: nil, []byte, string, bool, the signed and
// unsigned integer types, *big.Int, float32, float64, [UUID], [Versionstamp]
// and Tuple itself.
//
// An unpacked Tuple has integers as int64, as uint64 if they are larger than
// that, as *big.Int if they fit neither; and an empty byte string as one that
// is not nil.
type Tuple []any

// UUID is a 128-bit identifier in its usual byte order, by which it sorts.
type UUID [16]byte

// Versionstamp is FoundationDB's position of a write in the order of all
// commits.
type Versionstamp struct {
	// Transaction is the order of the transaction, as the database gave it.
	Transaction [10]byte
	// User is the order within the transaction.
	User uint16
}
