package wal

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	headerSize  = 16
	recordAlign = 8
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	padding    [headerSize]byte
)

// check returns the check of data in a segment.
func check(segment uint64, data []byte) uint32 {
	return crc32.Update(uint32(segment)^uint32(segment>>32)^0xc09c09, castagnoli, data)
}

// appendRecord appends a record of a segment that is on disk up to synced.
func appendRecord(records []byte, segment uint64, synced int64, batch []byte) []byte {
	n := len(records)
	records = append(records, padding[:headerSize]...)
	records = append(records, batch...)
	records = append(records, padding[:-len(batch)&(recordAlign-1)]...)
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
