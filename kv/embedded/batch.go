package embedded

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
	"github.com/conq-go/conq/kv"
)

// batch is writes as Pebble represents them, which is how the journal has them:
//
//	zeros                                 8 bytes
//	how many writes there are             4 bytes, little-endian
//	of each its kind                      1 byte
//	  and its key and its value           each behind its length, a varint
//
// A removal has no value, and a removed range has its end in place of one. Most are never
// Pebble's: see backlog. So they are made without it, in memory that is used again: with
// Interval, that lets a lone caller do 1.02 to 1.05 times as much.
type batch struct {
	repr  []byte
	count int
}

const batchHeader = 12

// reset empties the batch.
func (b *batch) reset() {
	if cap(b.repr) > maxBatchKept {
		b.repr = nil
	}
	b.repr, b.count = append(b.repr[:0], zeros[:batchHeader]...), 0
}

// maxBatchKept is how many bytes of memory a transaction that is used again keeps.
const maxBatchKept = 64 << 10

func (b *batch) set(key, value []byte) {
	b.add(pebble.InternalKeyKindSet, key)
	b.append(value)
}

func (b *batch) remove(key []byte) { b.add(pebble.InternalKeyKindDelete, key) }

func (b *batch) removeRange(r kv.Range) {
	b.add(pebble.InternalKeyKindRangeDelete, tombstoneBegin(r.Begin))
	b.append(r.End)
}

func (b *batch) add(kind pebble.InternalKeyKind, key []byte) {
	b.repr = append(b.repr, byte(kind))
	b.append(key)
	b.count++
	binary.LittleEndian.PutUint32(b.repr[batchHeader-4:], uint32(b.count))
}

func (b *batch) append(data []byte) {
	b.repr = append(binary.AppendUvarint(b.repr, uint64(len(data))), data...)
}

// leastKey stands for the empty key where a cleared range begins. Pebble 2.1.7 can't
// tell an empty beginning from none everywhere: in a compaction, with its invariants
// on, such a tombstone has hidden another one, and what that had cleared came back.
var leastKey = []byte{0}

// tombstoneBegin returns where Pebble is to begin to clear, for where a cleared range
// begins.
func tombstoneBegin(begin []byte) []byte {
	if len(begin) == 0 {
		return leastKey
	}
	return begin
}

// apply has Pebble apply a batch, whose memory it may keep.
func apply(db *pebble.DB, repr []byte) error {
	b := db.NewBatch()
	if err := b.SetRepr(repr); err != nil {
		return err
	}
	return db.Apply(b, pebble.NoSync) // not closed: its memory is not Pebble's to use again
}
