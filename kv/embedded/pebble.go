package embedded

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Tables are larger than Pebble's, whose first ones have 2 MB: a store of 1 GB has some dozens, and not
// hundreds.
var tableSizes = [7]int64{16 << 20, 32 << 20, 32 << 20, 64 << 20, 64 << 20, 64 << 20, 64 << 20}

// openTables is how many tables may be open: on some systems a process may have 256 files. The others are
// opened again when they are read.
const openTables = 100

// mostMemTables is how many memtables there may be until Pebble has writers wait.
const mostMemTables = 4

// pebbleOptions pins the version of Pebble's format: a newer Pebble must not
// make a store that an older build of format 4 can't read. Pebble takes its
// memtables out of the cache's size, so the two that it mostly has are added to
// it: without that nothing would ever be cached.
func (db *DB) pebbleOptions() *pebble.Options {
	return &pebble.Options{
		FS:                          db.guard,
		Logger:                      pebbleLogger{db},
		FormatMajorVersion:          pebble.FormatValueSeparation,
		CacheSize:                   db.o.Cache + 2*int64(db.o.MemTable),
		MemTableSize:                uint64(db.o.MemTable),
		MemTableStopWritesThreshold: mostMemTables,
		L0StopWritesThreshold:       1000,
		Levels:                      [7]pebble.LevelOptions{{BlockSize: blockSize}}, // and so for all below
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		DisableWAL:                  true, // see package wal
		TargetFileSizes:             tableSizes,
		MaxOpenFiles:                openTables,
		EventListener: &pebble.EventListener{
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				db.guard.Fail(fmt.Errorf("%s is damaged: %w", info.Path, info.Details))
			},
			// Of a flush: see package wal. When that begins Pebble holds the lock that snapshots need.
			TableCreated: func(info pebble.TableCreateInfo) {
				if info.Reason != "compacting" {
					_ = db.wal.Sync()
				}
			},
			CompactionEnd: func(info pebble.CompactionInfo) {
				if info.Err != nil && !errors.Is(info.Err, pebble.ErrCancelledCompaction) {
					db.guard.CompactionFailed()
				}
			},
			FlushEnd: func(info pebble.FlushInfo) {
				if info.Err != nil && info.Err.Error() != nothingFlushed {
					db.guard.Fail(fmt.Errorf("flushing a memtable: %w", info.Err))
				}
			},
		},
	}
}

// blockSize is what is read of a table at once. With it, and not Pebble's 4 KiB, compactions take less:
// a priority queue of 3,000,000 items was drained 1.2 times as fast.
const blockSize = 32 << 10

// nothingFlushed is how Pebble calls a flush in which all keys were deleted
// again, which is no failure. It does not export the error.
const nothingFlushed = "pebble: empty table"

// pebbleLogger passes Pebble's messages on and keeps its fatal ones from ending
// the process.
type pebbleLogger struct{ db *DB }

func (l pebbleLogger) Infof(string, ...any) {}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.db.o.Logger.Error("pebble", "message", fmt.Sprintf(format, args...))
}

// Fatalf must not return.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = cause // what it is matters more than what it kept from being done
		}
	}
	l.db.guard.Fatal(err, l.db.maim)
}
