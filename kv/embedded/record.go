package embedded

import (
	"encoding/binary"
	"hash/crc32"
)

// A record of a segment is
//
//	check of what follows in the header   4 bytes
//	check of the batch                    4 bytes
//	length of the batch                   4 bytes
//	up to where the segment was on disk   4 bytes
//	a batch, as Pebble represents it
//	zeros, up to a multiple of 8 bytes
//
// all numbers little-endian. A batch of no bytes ends the segment. The checks are CRC-32C,
// and begin with the number of the segment: what the file held when it was another one is
// no record.
const (
	headerSize  = 16
	recordAlign = 8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// check returns the check of data in a segment.
func check(segment uint64, data []byte) uint32 {
	return crc32.Update(uint32(segment)^uint32(segment>>32)^0xc09c09, castagnoli, data)
}

func appendRecord(records []byte, segment uint64, synced int64, batch []byte) []byte {
	n := len(records)
	records = append(records, zeros[:headerSize]...)
	records = append(records, batch...)
	records = append(records, zeros[:-len(batch)&(recordAlign-1)]...)
	header := records[n : n+headerSize]
	binary.LittleEndian.PutUint32(header[4:], check(segment, batch))
	binary.LittleEndian.PutUint32(header[8:], uint32(len(batch)))
	binary.LittleEndian.PutUint32(header[12:], uint32(synced))
	binary.LittleEndian.PutUint32(header, check(segment, header[4:]))
	return records
}

// record is one that was read.
type record struct {
	batch  []byte
	synced int64
	size   int64 // of it all
}

// readRecord returns the record that data begins with, if there is one.
func readRecord(segment uint64, data []byte) (r record, ok bool) {
	if len(data) < headerSize || binary.LittleEndian.Uint32(data) != check(segment, data[4:headerSize]) {
		return r, false
	}
	length := int64(binary.LittleEndian.Uint32(data[8:]))
	r.size = (headerSize + length + recordAlign - 1) / recordAlign * recordAlign
	if r.size > int64(len(data)) {
		return r, false
	}
	r.batch = data[headerSize : headerSize+length : headerSize+length]
	r.synced = int64(binary.LittleEndian.Uint32(data[12:]))
	return r, binary.LittleEndian.Uint32(data[4:]) == check(segment, r.batch)
}
