package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv/embedded/internal/atomicfile"
	"github.com/conq-go/conq/kv/embedded/internal/wal"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// A store that has filled its disk must open, be read and be drained, and each of these writes. So
// it holds a reserve: a file of reserveSize without content. When the disk is full the reserve is
// removed, which leaves room to replay the write-ahead log and to remove items; what adds more than
// it removes is refused until there is room for a new reserve.
const (
	reserveFile = "RESERVE"
	reserveSize = 16 << 20

	// reserveEvery is how often a store without its reserve looks for room.
	reserveEvery = time.Second
)

// errNoReserve is what a transaction gets that would use up the room that is left for removals.
var errNoReserve = fmt.Errorf("embedded: the disk is full: the store takes no more items until there is room, and gives out those it has: %w", ErrFull)

// openInReserve opens the store, and if the disk is full does so once more with the room of the
// files that hold nothing.
func openInReserve(dir string, o Options, open func() error) error {
	if free, ok := freeSpace(o.FS, dir); ok && free < reserveSize {
		removeReserve(o.FS, dir)
	}
	err := open()
	if err == nil || !errors.Is(plain(err), ErrFull) {
		return err
	}
	if removeReserve(o.FS, dir) {
		return open()
	}
	return err
}

// removeReserve removes the reserve and the spare segment, and tells whether there was one of them.
func removeReserve(fs vfs.FS, dir string) (removed bool) {
	for _, name := range []string{wal.Spare, reserveFile} {
		removed = fs.Remove(fs.PathJoin(dir, name)) == nil || removed
	}
	return removed
}

// freeSpace returns how many bytes the disk of a directory has room for, where the file system tells.
func freeSpace(fs vfs.FS, dir string) (bytes uint64, ok bool) {
	usage, err := fs.GetDiskUsage(dir)
	return usage.AvailBytes, err == nil
}

// makeReserve makes the reserve if there is room for it and as much again. It returns false if the
// store has to do without because its disk is full; where it can't be known, or no file be made longer
// without content, there is none and nothing is refused.
func makeReserve(fs vfs.FS, dir string) bool {
	path := fs.PathJoin(dir, reserveFile)
	if _, err := fs.Stat(path); err == nil {
		return true
	}
	free, ok := freeSpace(fs, dir)
	if !ok {
		return true
	}
	if free < 2*reserveSize {
		return false
	}
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return !errors.Is(plain(err), ErrFull)
	}
	err = errors.Join(f.Preallocate(0, reserveSize), f.Close())
	if err != nil {
		_ = fs.Remove(path)
	}
	return !errors.Is(plain(err), ErrFull)
}

// awaitReserve makes the reserve of a store that lacks it when there is room, unless ctx ends.
func (db *DB) awaitReserve(ctx context.Context, dir string) {
	ticker := time.NewTicker(reserveEvery)
	defer ticker.Stop()
	for db.diskFull.Load() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			db.diskFull.Store(!makeReserve(db.guard, dir))
		}
	}
}

// fits returns errNoReserve if the disk is full and the transaction adds more keys than it removes.
func (t *tx) fits() error {
	if !t.db.diskFull.Load() || len(t.Writer.Cleared()) > 0 {
		return nil
	}
	more := 0
	for _, c := range t.Writer.All() {
		switch c.Kind {
		case overlay.Set:
			more++
		case overlay.Clear:
			more--
		}
	}
	if more > 0 {
		return errNoReserve
	}
	return nil
}

// noteOwner has the directory tell which process has the store open. It is for others to read: an error,
// as on a full disk, must not keep the store from being opened.
func noteOwner(fs vfs.FS, dir string) {
	if atomicfile.Write(fs, dir, ownerFile, fmt.Sprintf("pid %d\n", os.Getpid())) != nil {
		_ = fs.Remove(fs.PathJoin(dir, ownerFile)) // it would name another process
		_ = fs.Remove(fs.PathJoin(dir, ownerFile+atomicfile.Temporary))
	}
}

// isReserve tells whether a file holds no data: an error in making it is no failure of the store.
func isReserve(name string) bool { return strings.HasSuffix(name, reserveFile) }
