package tuple

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"strings"
)

// Compare returns -1, 0 or +1 as a sorts before, with or after b, which is the
// order of their encodings; integers of the same value are equal, whatever
// their Go types. It does not pack them.
//
// What Pack refuses has a place too: elements of other types are equal to each
// other and sort behind the supported ones, and tuples nested deeper than
// MaxDepth are equal.
func Compare(a, b Tuple) int { return compareTuples(a, b, 0) }

func compareTuples(a, b Tuple, depth int) int {
	if depth > MaxDepth {
		return 0
	}
	for i := range min(len(a), len(b)) {
		if c := compareElements(a[i], b[i], depth); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

func compareElements(a, b any, depth int) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch a := a.(type) {
	case []byte:
		return bytes.Compare(a, b.([]byte))
	case string:
		return strings.Compare(a, b.(string))
	case Tuple:
		return compareTuples(a, b.(Tuple), depth+1)
	case float32:
		return cmp.Compare(sortable32(math.Float32bits(a)), sortable32(math.Float32bits(b.(float32))))
	case float64:
		return cmp.Compare(sortable64(math.Float64bits(a)), sortable64(math.Float64bits(b.(float64))))
	case UUID:
		b := b.(UUID)
		return bytes.Compare(a[:], b[:])
	case Versionstamp:
		b := b.(Versionstamp)
		return cmp.Or(bytes.Compare(a.Transaction[:], b.Transaction[:]), cmp.Compare(a.User, b.User))
	}
	if x, ok := bigOf(a); ok {
		y, _ := bigOf(b)
		return x.Cmp(y)
	}
	return 0 // nil, bool (each has its own rank), or not supported
}

// The places of the types in the order of types.
const (
	rankNull = iota
	rankBytes
	rankString
	rankNested
	rankInteger
	rankFloat32
	rankFloat64
	rankFalse
	rankTrue
	rankUUID
	rankVersionstamp
	rankUnsupported
)

func rank(e any) int {
	switch e := e.(type) {
	case nil:
		return rankNull
	case []byte:
		return rankBytes
	case string:
		return rankString
	case Tuple:
		return rankNested
	case float32:
		return rankFloat32
	case float64:
		return rankFloat64
	case bool:
		if e {
			return rankTrue
		}
		return rankFalse
	case UUID:
		return rankUUID
	case Versionstamp:
		return rankVersionstamp
	}
	if _, ok := bigOf(e); ok {
		return rankInteger
	}
	return rankUnsupported
}

// bigOf returns the value of any integer.
func bigOf(e any) (*big.Int, bool) {
	if i, ok := e.(*big.Int); ok {
		return i, i != nil
	}
	magnitude, negative, ok := integer(e)
	i := new(big.Int).SetUint64(magnitude)
	if negative {
		i.Neg(i)
	}
	return i, ok
}
