package demo

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
)

// maker makes payloads and recognises them.
type maker struct {
	size       int
	seed, salt uint64
}

// payload returns the bytes of item id: the id, then what follows from it.
func (m maker) payload(id uint64) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, m.size+8), id)
	for random := rand.NewPCG(m.seed^m.salt, id); len(b) < m.size; {
		b = binary.BigEndian.AppendUint64(b, random.Uint64())
	}
	return b[:m.size]
}

// recognise returns the id of a payload, and whether it is one.
func (m maker) recognise(payload []byte) (id uint64, ok bool) {
	if len(payload) != m.size {
		return 0, false
	}
	id = binary.BigEndian.Uint64(payload)
	return id, bytes.Equal(payload, m.payload(id))
}
