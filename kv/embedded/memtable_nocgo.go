//go:build !cgo

package embedded

// usualMemTable is the default of Options.MemTable. Without cgo memtables are in Go's heap, which
// grows to twice what is in use. With as large ones as with cgo, to drain 10,000,000 items took
// 356 to 443 MB, and takes 197 to 263 now. It costs some speed: with Interval and 16 callers,
// 5,000,000 items were put in 0.87 (priority queue) and 0.98 times as fast, and taken 1.07 and
// 1.01 times.
const usualMemTable = 16 << 20
