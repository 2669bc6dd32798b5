//go:build cgo

package embedded

// usualMemTable is the default of Options.MemTable. With cgo Pebble's memory is C's: from this
// size on glibc gives what is freed back to the system, where it keeps a few memtables of half
// the size.
const usualMemTable = 32 << 20
