package outcome

import (
	"encoding/binary"
	"time"
)

// Written returns when a value was written at an outcome key, by the clock of its
// writer, and whether it is what kv.Once of format 1 writes there.
func Written(value []byte) (at time.Time, ok bool) {
	const format, size = 1, 1 + 16 + 4 + 8 // version, call, attempt, time
	if len(value) != size || value[0] != format {
		return time.Time{}, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(value[size-8:]))), true
}
