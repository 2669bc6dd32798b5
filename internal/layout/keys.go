// Package layout is how queues lie in a store: their keys, the pieces of large
// payloads, and the catalogue of which there are. docs/reference/format.md describes all of it.
//
// A queue's items are at
//
//	(name, index, random [, pieces])
//	(name, priority, count, random [, pieces])
//
// and everything else is behind the packed tuple of one byte string, "conq". The
// name of a queue is a string, whose type sorts apart, so no queue's range meets
// it:
//
//	("conq") ("format")                  -> (format)
//	("conq") ("queue", name)             -> (kind, format)
//	("conq") ("piece", name, item..., i) -> i-th further piece of a payload, from 1
//	("conq") ("stage", name, ...)        -> see internal/staging
//	("conq") ("outcome", name, lane)     -> see kv.Once; lane is 16 random bytes
//	("conq") ("signal", name)            -> 8 random bytes, new with each enqueue
//
// The last three are there only where the engine's Limits ask for them: staging
// where several processes take from the queue, or wait, outcomes where commits may be
// unknown, signals where other processes may wait.
//
// item... is all that follows the name in the key of the item, pieces included.
package layout

import (
	"errors"
	"math"

	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// System returns the packed tuple of ("conq", elems...), "conq" as a byte string.
func System(elems ...string) []byte {
	key := tuple.AppendBytes(nil, []byte("conq"))
	for _, elem := range elems {
		key = tuple.AppendString(key, elem)
	}
	return key
}

// FormatKey is where the format of the store is.
func FormatKey() []byte { return System("format") }

// EntryKey is where the entry of a queue is, and Entries where all are.
func EntryKey(name string) []byte { return System("queue", name) }
func Entries() subspace.Subspace  { return subspace.FromBytes(System("queue")) }

// Stage is where internal/staging keeps what it has of a queue.
func Stage(name string) subspace.Subspace { return subspace.FromBytes(System("stage", name)) }

// Outcomes is where the outcomes of transactions on a queue are.
func Outcomes(name string) subspace.Subspace { return subspace.FromBytes(System("outcome", name)) }

// Pieces is where the further pieces of payloads of a queue are.
func Pieces(name string) subspace.Subspace { return subspace.FromBytes(System("piece", name)) }

// SignalKey is written when something is added to a queue.
func SignalKey(name string) []byte { return System("signal", name) }

// maxPieces is the largest number of pieces of a payload.
const maxPieces = math.MaxInt32

var (
	errKey    = errors.New("its key is not that of an item")
	errPieces = errors.New("the number of pieces in its key is not an integer from 2 on")
)

// Key is the key of an item without the name, taken apart.
type Key struct {
	Integers [2]int64 // the index, or the priority and the count
	Pieces   int      // over so many keys the payload lies

	ends [2]int // of the integers
	read int    // integers
}

// Parse takes apart what follows the name in the key of an item: so many integers, the
// random bytes, and the number of pieces unless it is 1. After an error Key.Pieces is 0, and
// Key.Integers has those in front of what is wrong.
func Parse(fields []byte, integers int) (Key, error) {
	k, rest, err := parse(fields, integers)
	if err == nil && len(rest) > 0 {
		k.Pieces, err = 0, errKey
	}
	return k, err
}

// parse is Parse for fields with something behind them.
func parse(fields []byte, integers int) (k Key, rest []byte, err error) {
	rest = fields
	ok := true
	for k.read < integers {
		if k.Integers[k.read], rest, ok = tuple.NextInt(rest); !ok {
			return k, nil, errKey
		}
		k.ends[k.read] = len(fields) - len(rest)
		k.read++
	}
	if rest, ok = tuple.SkipBytes(rest); !ok {
		return k, nil, errKey
	}
	if len(rest) == 0 {
		k.Pieces = 1
		return k, rest, nil
	}
	n, rest, ok := tuple.NextInt(rest)
	if !ok || n < 2 || n > maxPieces {
		return k, nil, errPieces
	}
	k.Pieces = int(n)
	return k, rest, nil
}

// ParseAny is Parse for an item of a queue of either kind. It returns how many integers there
// are.
func ParseAny(fields []byte) (k Key, integers int, err error) {
	for integers = 1; integers <= 2; integers++ {
		if k, err = Parse(fields, integers); err == nil {
			return k, integers, nil
		}
		if err != errKey {
			break
		}
	}
	if _, bad := tuple.Unpack(fields); bad != nil {
		err = bad // says more
	}
	return k, 0, err
}

// join and appendInt return a new slice: they never write behind the first one.
func join(a, b []byte) []byte              { return append(a[:len(a):len(a)], b...) }
func appendInt(key []byte, i int64) []byte { return tuple.AppendInt(key[:len(key):len(key)], i) }
