// Package wal is a store's write-ahead log, in place of Pebble's. It knows nothing of what a record
// means: a batch is bytes, in which the caller has its writes, and a version is a number that rises by
// one with each commit.
//
//	log, err := wal.Open(fs, dir, wal.Options{SegmentSize: 28 << 20})
//	err = log.Replay(apply)               // the batches that may be in no table, in order
//	log.Append(batch, operations, version) // in memory, in the order of versions
//	err = log.Commit(version)              // returns when the commit is durable
//	err = log.Write(version)               // returns when the operating system has it
//	last := log.Rotate()                   // begins a segment, when Full says so
//	err = log.Release(last)                // once all that is in those before is in tables
//	err = log.Close()
//
// # Group commit
//
// Append copies a batch to a buffer. Commit writes and syncs what is there, in the goroutine of one of
// the callers that wait, for all of them; that leader first waits a moment for as many as came last
// time. Two things are cheaper than with Pebble's log, which hands each write to a goroutine of its
// own and makes its files grow as it goes:
//
//   - a caller alone, with Written, need not switch to another goroutine and back;
//   - a sync of what overwrites a part of a file need not have the file system's own log written, and
//     takes 0.65 of the time. So segments are used again, and a new one has zeros written ahead.
//
// # Segments and records
//
// The log is a row of segments: files N.journal, of which only the last is written to. Each is a row
// of records:
//
//	check of what follows in the header   4 bytes
//	check of the batch                    4 bytes
//	length of the batch                   4 bytes
//	up to where the segment was on disk   4 bytes
//	batch
//	zeros, up to a multiple of 8 bytes
//
// all numbers little-endian. A batch of no bytes ends the segment. The checks are CRC-32C and begin with
// the number of the segment: what the file held when it was another segment is no record. The number
// of a store's first segment is random, so that nobody can put what would be a record into a value.
//
// # Invariants
//
//   - The log on disk is never behind the tables: the caller calls Sync before it writes a table of what
//     was appended. So to apply all records that are there, from any on that is not behind the
//     tables, leads to the state after the last one.
//   - A segment begins only when the one before it is on disk, with a record that ends it. So only the
//     last one can be torn by a crash.
//   - Segments are released in order. The file NEEDED, the checkpoint, tells which one is the first that
//     must be there; so a segment that is missing is not taken for one that was released. It names each segment before a commit in it
//     is durable, with how long its file is; so the last one is missed, too, and seen to have been cut.
//   - A record tells up to where its segment was on disk before it. So what a crash has torn can be told
//     from what was damaged later: Replay gives up the one, and refuses the other.
//   - No number of a segment comes again.
//
// # Failure
//
// The file system keeps the first error and changes nothing any more: see guardfs. Every method that
// promises something asks it afterwards, so nothing is durable that may not be on disk.
//
// All methods but Open, Replay and Close may be called by many goroutines at once. Append must be called
// in the order of versions.
package wal
