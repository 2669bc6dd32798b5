// Package embedded is conq's default engine: strictly serializable optimistic
// transactions on Pebble, an LSM tree, in one directory owned by one process.
// It needs no cgo.
//
// # Transactions
//
// Each commit has a version, one more than the last. A transaction reads from a
// Pebble snapshot, taken at its first read, with its own writes laid over it; or from the
// cache, see below, which for one that is lazy (kv.Lazily) spares the snapshot. To commit, it
// takes the store's lock, compares its read conflict ranges with what was
// written since its version (the conflict log), applies its batch, and gives the lock
// back. The log keeps the written keys and ranges of each commit for as long
// as an open transaction is older; ranges are compared as ranges, so an empty
// one cannot hide a phantom. A transaction that has been open for longer than
// [Options.Age] fails with kv.ErrTooOld, so that a forgotten one can't make the
// log grow for ever.
//
// # Durability
//
// A commit is applied first and synced after. As soon as it is applied it is
// visible to the next transaction, so two transactions conflict only if they
// overlap within microseconds, not within an fsync; and one fsync serves all that
// wait for theirs, for which its leader waits a little: see package wal.
// Nothing is acknowledged too early: each acknowledgement, that of a transaction
// which only read included, waits until the write-ahead log is on disk up to the version
// that it saw. One that has waived that for its own writes (kv.NoSync) waits until the log is
// written, and on disk up to the last commit of which it has read something: see unsynced. The log is our own (package wal; Pebble's is turned off). It is written in
// version order, and a segment of it is synced before the next is begun, so a version that
// is on disk has all earlier ones there too.
//
// An error in writing the log or the manifest, or in flushing a memtable,
// poisons the store: what may not be on disk is never acknowledged, all later
// calls fail with [ErrFailed], and nothing more is written to the directory
// until it is opened again. Pebble itself would end the process, or wait for
// ever; the guard file system around it does not let it come to that.
//
// # Memory
//
// What lies where reads begin, the heads and tails of queues, is kept in memory, and so are ranges
// with nothing but tombstones: see internal/cache. Pebble gets commits later, and not what was taken
// before: see backlog.
//
// # Directory
//
//	CONQ       "conq embedded store, format N\n"; a higher N than this build's is refused
//	OWNER      "pid N\n", of the process that has, or had, the store open
//	LOCK       locked for as long as a process has the store open
//	NEEDED     the checkpoint of the write-ahead log: what must be there
//	RESERVE    takes space, to be given back when the disk is full
//	*.journal  segments of the write-ahead log, and a spare one
//	others     Pebble's
package embedded
