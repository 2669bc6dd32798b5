// Package recipe is FoundationDB's two published recipes, "Queues" and "Priority
// Queues", on one transaction each: every method is a part of the caller's
// transaction, and does no more than the recipe says. Values are bytes. What
// users need beyond that (typed values, their own transactions, contention,
// waiting) is built on top of this package.
//
// # The recipe
//
// An ordered store is a queue already: items are kept in the order of their
// keys, so the first key is the head. [Queue.Enqueue] looks up the last key and
// writes one with the next index; [Queue.Dequeue] reads the first key and
// clears it. A [PriorityQueue] has the priority in front of the index, which
// counts the items of one priority; so the first key is the head of the lowest
// priority, and the last key is an item of the highest one.
//
// # Keys
//
// Keys are packed tuples behind the subspace of the items, values are as given:
//
//	queue           (index, random)            index: 1 in an empty queue, else the last one + 1
//	priority queue  (priority, count, random)  count: 0 in an empty priority, else the last one + 1
//
// Index, priority and count are integers of 64 bits, random is 20 bytes. A
// caller may add one integer more to a key from NextKey before it sets it; the
// order stays the same, and it is an item key like any other. Python and Java
// programs that follow the recipes write, and understand, the same keys.
//
// # Several at once
//
// [Queue.NextKeys] and [PriorityQueue.NextKeys] are Enqueue and Push for several items, and an
// [Order] is what Dequeue and the pops take from: callers that do more in a transaction than the
// recipe, as package conq does, build on these.
//
// # Why enqueues never conflict
//
// A transaction conflicts when something that it read was written by another
// one since. The last key is written by every enqueue; so it is read through a
// snapshot, which leaves no conflict. Two transactions may then see the same
// last index and both write the next one. That would be the same key, and one
// of the two items would be lost; with 20 random bytes behind the index it is
// two keys, next to each other, in either order. Both halves are needed: without
// the snapshot enqueues conflict, without the random bytes they lose items.
//
// # Concurrency and ownership
//
// Queue and PriorityQueue are small values that never change. They are safe for
// concurrent use if their random source is; a transaction is not. Keys and
// values that are returned belong to the caller; ranges must not be modified.
package recipe

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// RandomSize is the size of the random element of a key, in bytes.
const RandomSize = 20

var (
	// ErrKey means that a key among the items is not an item's key, so somebody
	// else has written it. The error has the key in hexadecimal. Nothing is
	// cleared; the queue goes on once that key is gone.
	ErrKey = errors.New("recipe: not an item's key")

	// ErrNoIndex means that the last item has the largest index there is, 2^63-1.
	// Indexes begin anew when the queue, or that priority, is empty.
	ErrNoIndex = errors.New("recipe: no index left")

	// ErrRandom means that the random source failed. Nothing was written.
	ErrRandom = errors.New("recipe: no random bytes for a key")
)

// made returns the range of a queue. Without one it would be that of the whole store, which Clear
// would remove.
func made(span kv.Range) kv.Range {
	if span.Begin == nil {
		panic("recipe: a queue must be made by NewQueue or NewPriorityQueue")
	}
	return span
}

// InUse tells which index items have had last that are not in the queue and may come back
// under their keys, and whether there are any: of a group, the packed priority, which is empty
// in a Queue. New items get larger ones. It is called after the group's last key was read.
type InUse func(tx kv.Tx, group []byte) (last int64, found bool, err error)

// last returns the last index of a group, which is at in the queue.
func (f InUse) last(tx kv.Tx, group []byte, at int64) (int64, error) {
	if f == nil {
		return at, nil
	}
	last, found, err := f(tx, group)
	if !found || err != nil {
		return at, err
	}
	return max(at, last), nil
}

// draw returns the random elements of n keys, one behind the other, from crypto/rand if source is nil.
func draw(source io.Reader, n int) ([]byte, error) {
	if source == nil {
		source = rand.Reader // never fails
	}
	random := make([]byte, n*RandomSize)
	if _, err := io.ReadFull(source, random); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRandom, err)
	}
	return random, nil
}

// keyRoom is what a key may need behind the prefix of its subspace: for an integer, and for the
// random bytes, which may have to be escaped.
const keyRoom = 9 + 2*RandomSize + 2

// newKey returns a key: the prefix of its subspace, its index there, and a random element.
func newKey(prefix []byte, index int64, random []byte) []byte {
	key := append(make([]byte, 0, len(prefix)+keyRoom), prefix...)
	return tuple.AppendBytes(tuple.AppendInt(key, index), random)
}

// next returns the index behind one.
func next(index int64) (int64, error) {
	if index == math.MaxInt64 {
		return 0, fmt.Errorf("%w: the last item has index %d; indexes begin anew once those items are gone",
			ErrNoIndex, index)
	}
	return index + 1, nil
}

// parse returns the n integers between the prefix of a key's subspace and its random
// element.
func parse(prefix, key []byte, n int) (ints [2]int64, err error) {
	rest, ok := bytes.CutPrefix(key, prefix)
	for i := 0; ok && i < n; i++ {
		ints[i], rest, ok = tuple.NextInt(rest)
	}
	if ok {
		rest, ok = tuple.SkipBytes(rest)
	}
	if ok && len(rest) > 0 { // the caller's integer
		_, rest, ok = tuple.NextInt(rest)
	}
	if !ok || len(rest) > 0 {
		return ints, notItem(prefix, key, n)
	}
	return ints, nil
}

// notItem says what is wrong with a key.
func notItem(prefix, key []byte, n int) error {
	t, err := subspace.FromBytes(prefix).Unpack(key)
	if err != nil {
		return fmt.Errorf("%w: key %x: %w", ErrKey, key, err)
	}
	return fmt.Errorf("%w: key %x: its tuple %.200s is not %d integers of 64 bits and random bytes",
		ErrKey, key, fmt.Sprint(t), n)
}

// checked returns the pairs of r up to the first whose key fails.
func checked(from kv.Reader, r kv.Range, opts kv.RangeOptions, check func([]byte) error) iter.Seq2[kv.KeyValue, error] {
	return func(yield func(kv.KeyValue, error) bool) {
		for item, err := range from.Range(r, opts) {
			if err == nil {
				err = check(item.Key)
			}
			if err != nil {
				yield(kv.KeyValue{}, err)
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

// prefix returns that of all keys in a range which a subspace has returned.
func prefix(span kv.Range) []byte { return span.Begin[:len(span.Begin)-1] }
