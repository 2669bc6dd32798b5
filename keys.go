package conq

import (
	"errors"
	"math"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// The key space. A queue's items are at
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

// system returns the packed tuple of ("conq", elems...), "conq" as a byte string.
func system(elems ...string) []byte {
	key := tuple.AppendBytes(nil, []byte("conq"))
	for _, elem := range elems {
		key = tuple.AppendString(key, elem)
	}
	return key
}

func formatKey() []byte             { return system("format") }
func entryKey(name string) []byte   { return system("queue", name) }
func catalogue() subspace.Subspace  { return subspace.FromBytes(system("queue")) }
func stageSpace(name string) []byte { return system("stage", name) }
func outcomes(name string) []byte   { return system("outcome", name) }
func signalKey(name string) []byte  { return system("signal", name) }
func pieceSpace(name string) []byte { return system("piece", name) }
func piecesOf(name string) kv.Range { return subspace.FromBytes(pieceSpace(name)).Range() }

// join and appendInt return a new slice: they never write behind the first one.
func join(a, b []byte) []byte              { return append(a[:len(a):len(a)], b...) }
func appendInt(key []byte, i int64) []byte { return tuple.AppendInt(key[:len(key):len(key)], i) }

var (
	errKey    = errors.New("its key is not that of an item")
	errPieces = errors.New("the number of pieces in its key is not an integer from 2 on")
)

// pieceCount returns over how many keys the payload of an item lies. fields is
// what follows the name in its key: so many integers, the random element, and
// the number of pieces unless it is 1.
func pieceCount(fields []byte, integers int) (int, error) {
	ok := true
	for i := 0; ok && i < integers; i++ {
		_, fields, ok = tuple.NextInt(fields)
	}
	if ok {
		fields, ok = tuple.SkipBytes(fields)
	}
	if !ok {
		return 0, errKey
	}
	if len(fields) == 0 {
		return 1, nil
	}
	n, rest, ok := tuple.NextInt(fields)
	if !ok || n < 2 || n > math.MaxInt32 || len(rest) > 0 {
		return 0, errPieces
	}
	return int(n), nil
}
