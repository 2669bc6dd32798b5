package embedded

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/wal"
	"github.com/conq-go/conq/kv/internal/overlay"
)

// A store that has filled its disk must open, be read and be drained, and each of these writes. So
// it holds a reserve: a file of reserveSize without content. When the disk is full the reserve is
// removed, which leaves room to replay the write-ahead log and to remove items; what adds more than
// it removes is refused until there is room for a new one, which is not smaller on a small disk: the log is not either.
const (
	reserveFile = "RESERVE"
	reserveSize = 16 << 20
)

// errNoReserve is what a transaction gets that would use up the room that is left for removals.
var errNoReserve = fmt.Errorf("embedded: the disk is full: fewer than %d MB are free, and until they are the store only gives out items: %w", 2*reserveSize>>20, kv.ErrFull)

// openInReserve opens the store, and if the disk is full does so once more with the room of the
// files that hold nothing.
func openInReserve(dir string, o Options, open func() error) error {
	if usage, err := o.FS.GetDiskUsage(dir); err == nil && usage.AvailBytes < reserveSize {
		removeReserve(o.FS, dir)
	}
	err := open()
	if err == nil || !errors.Is(plain(err), kv.ErrFull) {
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

// makeReserve makes the reserve if there is room for it and as much again. It returns false if the
// store has to do without because its disk is full; where it can't be known, or no file be made longer
// without content, there is none and nothing is refused.
func makeReserve(fs vfs.FS, dir string) bool {
	path := fs.PathJoin(dir, reserveFile)
	if _, err := fs.Stat(path); err == nil {
		return true
	}
	usage, err := fs.GetDiskUsage(dir)
	if err != nil || usage.AvailBytes < 2*reserveSize {
		return err != nil
	}
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(f.Preallocate(0, reserveSize), f.Close())
	}
	if err != nil {
		_ = fs.Remove(path)
	}
	return !errors.Is(plain(err), kv.ErrFull)
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
