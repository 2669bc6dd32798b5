package layout

import (
	"bytes"
	"fmt"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// Queue is where one queue lies in a store. It never changes, and may be used
// concurrently.
type Queue struct {
	Name     string
	Integers int      // in the key of an item: 1, or 2 in a priority queue
	Items    kv.Range // the range of all items

	prefix []byte // of the keys of items
	pieces []byte // of the keys of further pieces
	limits kv.Limits
}

// New returns the layout of a queue in a store of the given limits.
func New(name string, kind queue.Kind, limits kv.Limits) *Queue {
	items := subspace.Named(name)
	q := &Queue{Name: name, Integers: 1, Items: items.Range(), limits: limits}
	if kind == queue.KindPriorityQueue {
		q.Integers = 2
	}
	q.prefix = items.Bytes()
	q.pieces = Pieces(name).Bytes()
	return q
}

// Prefix returns what the keys of all items begin with.
func (q *Queue) Prefix() []byte { return q.prefix[:len(q.prefix):len(q.prefix)] }

// Fields returns the key of an item without the name.
func (q *Queue) Fields(key []byte) []byte { return key[len(q.prefix):] }

// Key returns the key of an item in this queue by what follows the name.
func (q *Queue) Key(fields []byte) []byte { return join(q.prefix, fields) }

// KeySize is about the size of the key of an item.
func (q *Queue) KeySize() int { return len(q.prefix) + 9*q.Integers + recipe.RandomSize + 2 }

// OfPriority returns the range of the items of one priority.
func (q *Queue) OfPriority(priority int64) kv.Range {
	return subspace.FromBytes(appendInt(q.prefix, priority)).Range()
}

// Integer returns the i-th of the integers in the key of an item.
func (q *Queue) Integer(key []byte, i int) (int64, error) {
	k, _ := Parse(q.Fields(key), q.Integers)
	if k.read <= i {
		return 0, fmt.Errorf("conq: queue %q, key %x: element %d is not a 64-bit integer", q.Name, key, i+2)
	}
	return k.Integers[i], nil
}

// Place returns the integers in the key of an item, packed, and all but the last of them.
// Both are nil if key is not an item's.
func (q *Queue) Place(key []byte) (group, place []byte) {
	fields, ok := bytes.CutPrefix(key, q.prefix)
	if !ok {
		return nil, nil // what staging has kept is damaged
	}
	k, _ := Parse(fields, q.Integers)
	if k.read < q.Integers {
		return nil, nil
	}
	if q.Integers > 1 {
		group = fields[:k.ends[q.Integers-2]]
	}
	return fields[:len(group):len(group)], fields[:k.ends[q.Integers-1]]
}

// Check returns over how many keys the payload of an item lies, and what is wrong with its
// key.
func (q *Queue) Check(key []byte) (pieces int, err error) {
	fields, ok := bytes.CutPrefix(key, q.prefix)
	if !ok {
		return 0, errKey
	}
	k, integers, err := ParseAny(fields)
	if err == nil && integers != q.Integers {
		return 0, OtherShape(integers, q.Integers)
	}
	return k.Pieces, err
}

// OtherShape is the error for a key with the wrong number of integers.
func OtherShape(got, want int) error {
	return fmt.Errorf("its key has %d integers in front of the random bytes, and should have %d", got, want)
}

// DecodeError is the error for an item whose payload can't be read.
func (q *Queue) DecodeError(key []byte, err error) error {
	return fmt.Errorf("%w: queue %q, key %x: %w", queue.ErrDecode, q.Name, key, err)
}

// Set stores an item under a key of the recipe. A payload over the engine's
// limit for values goes over several keys: the first piece under the item's key,
// which tells how many there are, the others beside it.
func (q *Queue) Set(tx kv.Tx, key, payload []byte) {
	size := q.limits.Value
	if size == 0 || len(payload) <= size {
		tx.Set(key, payload)
		return
	}
	n := (len(payload) + size - 1) / size
	key = appendInt(key, int64(n))
	tx.Set(key, payload[:size])
	beside := q.Beside(key)
	for i := 1; i < n; i++ {
		tx.Set(appendInt(beside, int64(i)), payload[i*size:min((i+1)*size, len(payload))])
	}
}

// maxReserved is how many bytes of memory are taken for a payload before its pieces are read: any
// number of them can stand in a key that others wrote.
const maxReserved = 32 << 20

// Payload returns what Set stored.
func (q *Queue) Payload(r kv.Reader, item kv.KeyValue) ([]byte, error) {
	k, err := Parse(q.Fields(item.Key), q.Integers)
	if err != nil {
		return nil, q.DecodeError(item.Key, err)
	}
	return q.Joined(r, item, k.Pieces)
}

// Joined is Payload for an item that is known to lie over n keys. All pieces are of one size, but for the last, which may be
// smaller. The reads leave no conflict: pieces are written and cleared only together with the item's key, which has been read.
func (q *Queue) Joined(r kv.Reader, item kv.KeyValue, n int) ([]byte, error) {
	if n == 1 {
		return item.Value, nil
	}
	beside := q.Beside(item.Key)
	all := kv.PrefixRange(beside)
	next, size := 1, len(item.Value)
	payload := append(make([]byte, 0, min(int64(n)*int64(size), maxReserved)), item.Value...)
	for piece, err := range r.Snapshot().Range(all, kv.RangeOptions{Limit: n - 1}) {
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(piece.Key, appendInt(beside, int64(next))) {
			break
		}
		next++
		if got := len(piece.Value); got > size || got < size && next < n || got == 0 {
			return nil, q.DecodeError(item.Key, fmt.Errorf("piece %d of %d has %d bytes, and the first one %d", next, n, got, size))
		}
		payload = append(payload, piece.Value...)
	}
	if next < n {
		return nil, q.DecodeError(item.Key, fmt.Errorf("piece %d of %d is missing", next+1, n))
	}
	return payload, nil
}

// Clear removes an item that lies over n keys. The pieces are cleared one by one: there are few, and a range tombstone for each item
// burdens the reads of an LSM store.
func (q *Queue) Clear(tx kv.Tx, key []byte, n int) {
	tx.Clear(key)
	q.ClearPieces(tx, key, n)
}

// ClearPieces removes the pieces of a payload over n keys but for the first.
func (q *Queue) ClearPieces(tx kv.Tx, key []byte, n int) {
	if n == 1 {
		return
	}
	beside := q.Beside(key)
	for i := 1; i < n; i++ {
		tx.Clear(appendInt(beside, int64(i)))
	}
}

// ClearAll removes all items, also those that are staged and not collected: their
// pieces go, and a client that died while it was taking them must not bring them back. One
// that is still there finds that its request is gone, and comes again.
func (q *Queue) ClearAll(tx kv.Tx) {
	tx.ClearRange(q.Items)
	tx.ClearRange(Stage(q.Name).Range())
	tx.ClearRange(Pieces(q.Name).Range())
}

// Keys returns over how many keys an item lies, for callers who only weigh it: if its key is
// damaged, that is 1, and decoding it will tell.
func (q *Queue) Keys(key []byte) int {
	k, _ := Parse(q.Fields(key), q.Integers)
	return max(1, k.Pieces)
}

// Beside returns the prefix of the further pieces of an item.
func (q *Queue) Beside(key []byte) []byte { return join(q.pieces, q.Fields(key)) }

// Piece returns the key of a further piece of an item, from 1 on.
func (q *Queue) Piece(key []byte, number int64) []byte {
	return appendInt(q.Beside(key), number)
}

// CutPiece takes apart what follows the name in the key of a piece: the fields of its item, over
// how many keys that lies, and the number of the piece.
func (q *Queue) CutPiece(rest []byte) (fields []byte, pieces int, number int64, ok bool) {
	k, last, err := parse(rest, q.Integers)
	if err != nil || k.Pieces < 2 {
		return nil, 0, 0, false
	}
	number, behind, ok := tuple.NextInt(last)
	if !ok || len(behind) > 0 {
		return nil, 0, 0, false
	}
	return rest[:len(rest)-len(last)], k.Pieces, number, true
}
