package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
	"github.com/conq-go/conq/kv/embedded/internal/wal"
)

func init() {
	kv.Register("embedded", openURL)
}

func openURL(ctx context.Context, name string) (kv.DB, error) {
	dir, o, err := ParseURL(name)
	if err != nil {
		return nil, err
	}
	return Open(ctx, dir, o)
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
// process, can't be written to, or has a newer format; it is left as it was. Opening ends with
// ctx also while the log of a process that died is read, and is done anew the next time. At most
// one Options may be given.
func Open(ctx context.Context, dir string, opts ...Options) (*DB, error) {
	o, err := options.Only(opts)
	if err == nil {
		err = options.Context(ctx)
	}
	if err == nil {
		o, err = o.withDefaults()
	}
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
	db, err := open(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("embedded: cannot open store %s: %w", dir, plain(err))
	}
	return db, nil
}

func open(ctx context.Context, dir string, o Options) (*DB, error) {
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
		return db.openLocked(ctx, dir, lock)
	})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return db, nil
}

// plain names the usual troubles by what to do about them.
func plain(err error) error {
	switch {
	case vfs.IsNoSpaceError(err), errors.Is(err, syscall.EDQUOT): // or the user may have no more of it
		return fmt.Errorf("%w: %w", err, kv.ErrFull)
	case errors.Is(err, os.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: %w: this process must be able to write to the directory", kv.ErrReadOnly, err)
	}
	return err
}

// openLocked opens the store in a directory of which this process has the lock. That is the
// store's then.
func (db *DB) openLocked(opening context.Context, dir string, lock io.Closer) error {
	db.dir, db.lock = dir, lock
	noteOwner(db.o.FS, dir)
	if err := writeFormat(db.o.FS, dir); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	db.stop, db.stopped = stop, ctx.Done()
	db.guard = guardfs.New(db.o.FS, db.failed)
	db.guard.Stopped = db.stopped
	if l, ok := lock.(interface{ inPlace() error }); ok {
		db.guard.InPlace = l.inPlace
	}
	err := guardfs.Run(func() error { return db.openFiles(opening, dir) })
	if failure := db.guard.Err(); failure != nil { // whatever became of it
		stop() // first, as in openFiles
		if err == nil {
			_ = db.closePebble()
		}
		err = failure
	}
	if err != nil {
		stop()
		return err
	}
	db.diskFull.Store(!makeReserve(db.o.FS, dir))
	db.background.Go(func() { db.applyBacklog(ctx) })
	switch db.o.Durability {
	case Interval:
		db.background.Go(func() { db.syncEvery(ctx, db.o.Interval) })
	case Always:
		db.background.Go(func() { db.syncWritten(ctx, db.o.Interval) })
	}
	return nil
}

// openFiles opens Pebble and the log, and applies what is in the one and perhaps not
// in the other.
func (db *DB) openFiles(ctx context.Context, dir string) (err error) {
	db.wal, err = wal.Open(db.guard, dir, wal.Options{
		SegmentSize: int64(db.o.MemTable - db.o.MemTable/8),
		Durability:  map[Durability]wal.Durability{Always: wal.OnDisk, Interval: wal.Written, Memory: wal.Appended}[db.o.Durability],
		Version:     firstVersion,
	})
	if err != nil {
		return err
	}
	if err := checkOptions(db.guard, dir); err != nil {
		return err
	}
	if db.pebble, err = pebble.Open(dir, db.pebbleOptions()); err != nil {
		return namingFile(err)
	}
	db.backlog = newBacklog(db.pebble)
	if err := db.replay(ctx); err != nil {
		db.stop() // first, as Pebble's readers of a failed disk wait for better times
		return errors.Join(err, db.pebble.Close())
	}
	return nil
}

// checkOptions refuses a store whose file of Pebble's options is damaged: Pebble would, too, and not name it.
func checkOptions(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	latest := ""
	for _, name := range names {
		if strings.HasPrefix(name, "OPTIONS-") && !strings.Contains(name, ".") {
			latest = max(latest, name)
		}
	}
	if latest == "" {
		return nil
	}
	f, err := fs.Open(fs.PathJoin(dir, latest))
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err == nil {
		err = new(pebble.Options).Parse(string(text), &pebble.ParseHooks{SkipUnknown: func(string, string) bool { return true }})
	}
	if err != nil {
		return fmt.Errorf("its file %s is damaged: %w", latest, err)
	}
	return nil
}

var pebbleTable = regexp.MustCompile(`file (\d+) \(type sstable\)`)

// namingFile has an error of Pebble's say which file of the store is missing.
func namingFile(err error) error {
	if errors.Is(err, pebble.ErrDBNotPristine) {
		return fmt.Errorf("its file marker.format-version.* is missing, or another one of no bytes: was the store copied without its empty files? %w", err)
	}
	if found := pebbleTable.FindStringSubmatch(err.Error()); found != nil {
		return fmt.Errorf("its file %s.sst is missing: %w", found[1], err)
	}
	return err
}

// A log that is no longer than this when it is opened is kept: to write its commits
// to a table at each opening costs more than to read them at each.
const (
	fewSegments = 8
	littleBytes = 1 << 20
)

// replay applies what is in the log.
func (db *DB) replay(ctx context.Context) error {
	bytes := 0
	segments := db.wal.Ended()
	err := db.wal.Replay(func(repr []byte) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
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
