package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/atomicfile"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
	"github.com/conq-go/conq/kv/embedded/internal/wal"
)

const (
	formatFile  = "CONQ"
	formatLine  = "conq embedded store, format %d\n"
	formatKnown = 3 // 1 had a log of Pebble's in place of package wal, 2 no file NEEDED
	ownerFile   = "OWNER"
	lockFile    = "LOCK"
)

// leftovers are the files that an opening which was interrupted may have left
// in a new directory.
var leftovers = []string{lockFile, reserveFile, ownerFile, ownerFile + atomicfile.Temporary, formatFile + atomicfile.Temporary, wal.File, wal.File + atomicfile.Temporary}

func init() {
	kv.Register("embedded", openURL)
}

func openURL(name string) (kv.DB, error) {
	dir, o, err := ParseURL(name)
	if err != nil {
		return nil, err
	}
	return Open(dir, o)
}

// ParseURL returns what the URL of a store stands for: "embedded:DIR", with the options
// durability and interval as query parameters, as in
// "embedded:data?durability=interval&interval=20ms". Its error wraps kv.ErrInvalid.
func ParseURL(name string) (dir string, o Options, err error) {
	invalid := func(err error) (string, Options, error) {
		return "", Options{}, fmt.Errorf("%w: embedded: %.200q: %w", kv.ErrInvalid, name, err)
	}
	dir, query, _ := strings.Cut(strings.TrimPrefix(name, "embedded:"), "?")
	if dir == "" {
		return invalid(errNoDirectory)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return invalid(err)
	}
	for option, all := range values {
		if len(all) > 1 {
			return invalid(fmt.Errorf("option %q is given twice", option))
		}
		if err := o.set(option, all[0]); err != nil {
			return invalid(err)
		}
	}
	return dir, o, nil
}

var errNoDirectory = errors.New("no directory given")

func (o *Options) set(option, value string) (err error) {
	switch option {
	case "durability":
		o.Durability, err = ParseDurability(value)
	case "interval":
		if o.Interval, err = time.ParseDuration(value); err != nil || o.Interval <= 0 {
			return fmt.Errorf("interval %.40q is not a positive duration such as 10ms", value)
		}
	default:
		return fmt.Errorf("unknown option %.40q; there are durability and interval", option)
	}
	return err
}

// Open opens the store in a directory, which it makes if it is not there. An
// error tells if the directory is something else's, is in use by another
// process, can't be written to, or has a newer format; it is left as it was.
func Open(dir string, o Options) (*DB, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		return nil, fmt.Errorf("%w: embedded: %w", kv.ErrInvalid, errNoDirectory)
	}
	if o.FS == vfs.Default {
		if dir, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
	}
	db, err := open(dir, o)
	if err != nil {
		return nil, fmt.Errorf("embedded: cannot open store %s: %w", dir, plain(err))
	}
	return db, nil
}

func open(dir string, o Options) (*DB, error) {
	fs := o.FS
	if err := checkDir(fs, dir); err != nil {
		return nil, err
	}
	if err := makeDir(fs, dir); err != nil {
		return nil, err
	}
	if fs == vfs.Default { // the same directory must have one name in a process, which is known when it is there
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, err
		}
		dir = real
	}
	lock, err := lockDir(fs, dir)
	if err != nil {
		return nil, err
	}
	var db *DB
	err = openInReserve(dir, o, func() error {
		db = newDB(o)
		return db.openLocked(dir, lock)
	})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return db, nil
}

// makeDir makes a directory, and has its name on disk, and those of all above it that are new.
func makeDir(fs vfs.FS, dir string) error {
	if _, err := fs.Stat(dir); err == nil {
		return nil
	}
	parent := fs.PathDir(dir)
	if parent == dir {
		return nil
	}
	if err := makeDir(fs, parent); err != nil {
		return err
	}
	if err := fs.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return atomicfile.SyncDir(fs, parent)
}

// plain names the usual troubles by what to do about them.
func plain(err error) error {
	switch {
	case vfs.IsNoSpaceError(err), errors.Is(err, syscall.EDQUOT): // or the user may have no more of it
		return fmt.Errorf("%w: %w", err, ErrFull)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w: this process must be able to write to the directory", kv.ErrReadOnly, err)
	}
	return err
}

// checkDir refuses a path that is there and is not a store of this format.
func checkDir(fs vfs.FS, dir string) error {
	info, err := fs.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is a file; a store is a directory")
	}
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	if slices.Contains(names, formatFile) {
		return checkFormat(fs, dir)
	}
	for _, name := range names {
		if !slices.Contains(leftovers, name) {
			return fmt.Errorf("it holds other files (%s) and no store; use an empty or a new directory", name)
		}
	}
	return nil
}

func checkFormat(fs vfs.FS, dir string) error {
	text, err := atomicfile.Read(fs, fs.PathJoin(dir, formatFile))
	if err != nil {
		return err
	}
	var format int
	if _, err := fmt.Sscanf(text, formatLine, &format); err != nil || format < 1 {
		return fmt.Errorf("its file %s holds %.60q, not a format: is it another program's?", formatFile, text)
	}
	if format > formatKnown {
		return fmt.Errorf("it has format %d, and this build knows formats up to %d: use a newer build", format, formatKnown)
	}
	return nil
}

func lockDir(fs vfs.FS, dir string) (io.Closer, error) {
	lock, err := lockPath(fs, fs.PathJoin(dir, lockFile))
	if err == nil {
		return lock, nil
	}
	if path := new(os.PathError); errors.As(err, &path) {
		return nil, err // the lock file can't be made; otherwise it is locked
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) && errno != syscall.EAGAIN && errno != syscall.EACCES {
		return nil, fmt.Errorf("its file %s can't be locked, as must be possible where a store is: %w", lockFile, err)
	}
	owner := "another process"
	if text, err := atomicfile.Read(fs, fs.PathJoin(dir, ownerFile)); err == nil {
		owner = "the process with " + strings.TrimSpace(text)
	}
	return nil, fmt.Errorf("%w: %s has it open; close it there: one process at a time can (more will through `conq serve`, "+
		"which is to come, and do on etcd and FoundationDB)", ErrInUse, owner)
}

// openLocked opens the store in a directory of which this process has the lock. That is the
// store's then.
func (db *DB) openLocked(dir string, lock io.Closer) error {
	db.lock = lock
	noteOwner(db.o.FS, dir)
	if err := writeFormat(db.o.FS, dir); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	db.stop, db.stopped = stop, ctx.Done()
	db.guard = guardfs.New(db.o.FS, db.failed, isReserve)
	db.guard.Stopped = db.stopped
	if l, ok := lock.(interface{ inPlace() error }); ok {
		db.guard.InPlace = l.inPlace
	}
	err := guardfs.Run(func() error { return db.openFiles(dir) })
	if failure := db.guard.Err(); failure != nil { // whatever became of it
		if err == nil {
			_ = db.closePebble()
		}
		err = failure
	}
	if err != nil {
		stop()
		return err
	}
	if !makeReserve(db.guard, dir) {
		db.diskFull.Store(true)
		db.background.Go(func() { db.awaitReserve(ctx, dir) })
	}
	db.background.Go(func() { db.applyBacklog(ctx) })
	wanted := db.prefetches
	db.background.Go(func() { db.prefetchUntil(ctx, wanted) })
	if db.o.Durability == Interval {
		db.background.Go(func() { db.syncEvery(ctx, db.o.Interval) })
	}
	return nil
}

// writeFormat has the directory say that it has the latest format, with what that needs. Of format 1
// all can be read: Pebble finds its log.
func writeFormat(fs vfs.FS, dir string) error {
	line := fmt.Sprintf(formatLine, formatKnown)
	if text, err := atomicfile.Read(fs, fs.PathJoin(dir, formatFile)); err == nil && text == line {
		return nil
	}
	if err := wal.Create(fs, dir); err != nil {
		return err
	}
	return atomicfile.Write(fs, dir, formatFile, line)
}

// openFiles opens Pebble and the log, and applies what is in the one and perhaps not
// in the other.
func (db *DB) openFiles(dir string) (err error) {
	db.wal, err = wal.Open(db.guard, dir, wal.Options{
		SegmentSize: int64(db.o.MemTable - db.o.MemTable/8),
		Durability:  map[Durability]wal.Durability{Always: wal.OnDisk, Interval: wal.Written, Memory: wal.Appended}[db.o.Durability],
		Version:     firstVersion,
	})
	if err != nil {
		return err
	}
	if db.pebble, err = pebble.Open(dir, db.pebbleOptions()); err != nil {
		return err
	}
	db.backlog = newBacklog(db.pebble)
	if err := db.replay(); err != nil {
		return errors.Join(err, db.pebble.Close())
	}
	return nil
}

// A log that is no longer than this when it is opened is kept: to write its commits
// to a table at each opening costs more than to read them at each.
const (
	fewSegments = 8
	littleBytes = 1 << 20
)

// replay applies what is in the log.
func (db *DB) replay() error {
	bytes := 0
	segments := db.wal.Ended()
	err := db.wal.Replay(func(repr []byte) error {
		bytes += len(repr)
		b := db.pebble.NewBatch()
		if err := b.SetRepr(repr); err != nil {
			return err
		}
		return db.pebble.Apply(b, pebble.NoSync) // not closed: its memory is not Pebble's to use again
	})
	if err != nil || len(segments) <= fewSegments && bytes <= littleBytes {
		return err
	}
	if err := db.pebble.Flush(); err != nil {
		return err
	}
	return db.wal.Release(segments[len(segments)-1])
}

// syncEvery has the log synced at each interval until ctx ends.
func (db *DB) syncEvery(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = db.wal.Sync()
		}
	}
}

// Tables are larger than Pebble's, whose first ones have 2 MB: a store of 1 GB has some dozens, and not
// hundreds.
var tableSizes = [7]int64{16 << 20, 32 << 20, 32 << 20, 64 << 20, 64 << 20, 64 << 20, 64 << 20}

// openTables is how many tables may be open: on some systems a process may have 256 files. The others are
// opened again when they are read.
const openTables = 100

// mostMemTables is how many memtables there may be until Pebble has writers wait.
const mostMemTables = 4

// pebbleOptions pins the version of Pebble's format: a newer Pebble must not
// make a store that an older build of format 3 can't read. Pebble takes its
// memtables out of the cache's size, so the two that it mostly has are added to
// it: without that nothing would ever be cached. With all four that it can have,
// to drain 10,000,000 items took 246 to 303 MB, and not 190 to 234, no faster.
func (db *DB) pebbleOptions() *pebble.Options {
	return &pebble.Options{
		FS:                          db.guard,
		Logger:                      pebbleLogger{db},
		FormatMajorVersion:          pebble.FormatValueSeparation,
		CacheSize:                   db.o.Cache + 2*int64(db.o.MemTable),
		MemTableSize:                uint64(db.o.MemTable),
		MemTableStopWritesThreshold: mostMemTables,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       1000,
		LBaseMaxBytes:               64 << 20,
		Levels:                      [7]pebble.LevelOptions{{BlockSize: blockSize}}, // and so for all below
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		DisableWAL:                  true, // see package wal
		TargetFileSizes:             tableSizes,
		MaxOpenFiles:                openTables,
		FlushDelayDeleteRange:       10 * time.Second,
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

// blockSize is what is read of a table at once. With it, and not Pebble's 4 KiB, a priority queue
// of 3,000,000 items was filled 1.08 to 1.15 times as fast and drained 1.2 times (16 callers,
// Interval), as compactions take less; the disk has 0.95 of it. The first operation on each of
// 100,000 queues, in any order, takes 0.96 to 1.12 of the time.
const blockSize = 32 << 10

// nothingFlushed is how Pebble calls a flush in which all keys were deleted
// again, which is no failure. It does not export the error.
const nothingFlushed = "pebble: empty table"
