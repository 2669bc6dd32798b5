package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
	"github.com/conq-go/conq/kv/embedded/internal/wal"
)

const (
	formatFile  = "CONQ"
	formatLine  = "conq embedded store, format %d\n"
	formatKnown = 4 // 1 had a log of Pebble's in place of package wal, 2 no file NEEDED, and in 3 that did not say which segment was begun
	ownerFile   = "OWNER"
	lockFile    = "LOCK"
)

// leftovers are the files that an opening which was interrupted may have left
// in a new directory.
var leftovers = []string{lockFile, reserveFile, ownerFile, ownerFile + guardfs.Temporary, formatFile + guardfs.Temporary, wal.File, wal.File + guardfs.Temporary}

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
	err := fs.MkdirAll(dir, 0o755)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s is a symbolic link to what is not there: make that, or remove the link", dir)
	}
	if err != nil {
		return err
	}
	return guardfs.SyncDir(fs, parent)
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
			if slices.Contains(names, wal.File) {
				return fmt.Errorf("its file %s is missing, which says that it is a store", formatFile)
			}
			return fmt.Errorf("it holds other files (%s) and no store; use an empty or a new directory", name)
		}
	}
	return nil
}

func checkFormat(fs vfs.FS, dir string) error {
	text, err := guardfs.ReadWhole(fs, fs.PathJoin(dir, formatFile))
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

// lockPatience is how long an opening that finds the store locked goes on trying: if its owner was killed while it started another
// process, that one has the lock until it runs a program of its own.
const lockPatience = 100 * time.Millisecond

func lockDir(fs vfs.FS, dir string) (io.Closer, error) {
	lock, err := lockPath(fs, fs.PathJoin(dir, lockFile))
	for pause := time.Millisecond; isLocked(err) && pause < lockPatience; pause *= 2 {
		<-time.After(pause)
		lock, err = lockPath(fs, fs.PathJoin(dir, lockFile))
	}
	switch {
	case err == nil:
		return lock, nil
	case errors.As(err, new(*os.PathError)):
		return nil, err // the lock file can't be made
	case !isLocked(err):
		return nil, fmt.Errorf("its file %s can't be locked, as must be possible where a store is: %w", lockFile, err)
	}
	owner := "another process"
	if text, err := guardfs.ReadWhole(fs, fs.PathJoin(dir, ownerFile)); err == nil {
		owner = "the process with " + strings.TrimSpace(text)
	}
	return nil, fmt.Errorf("%w: %s has it open; close it there: one process at a time can, and others through it, if it is `conq serve`, "+
		"or on etcd and FoundationDB", ErrInUse, owner)
}

// isLocked tells whether the lock is another's: what is no error of the system is Pebble's, of a lock that this process has.
func isLocked(err error) bool {
	errno := syscall.Errno(0)
	return err != nil && !errors.As(err, new(*os.PathError)) && (!errors.As(err, &errno) || errno == syscall.EAGAIN || errno == syscall.EACCES)
}

// writeFormat has the directory say that it has the latest format, with what that needs. Of format 1
// all can be read: Pebble finds its log.
func writeFormat(fs vfs.FS, dir string) error {
	line := fmt.Sprintf(formatLine, formatKnown)
	if text, err := guardfs.ReadWhole(fs, fs.PathJoin(dir, formatFile)); err == nil && text == line {
		return nil
	}
	if err := wal.Create(fs, dir); err != nil {
		return err
	}
	return guardfs.WriteWhole(fs, dir, formatFile, line)
}

// noteOwner has the directory tell which process has the store open. It is for others to read: an error,
// as on a full disk, must not keep the store from being opened.
func noteOwner(fs vfs.FS, dir string) {
	if guardfs.WriteWhole(fs, dir, ownerFile, fmt.Sprintf("pid %d\n", os.Getpid())) != nil {
		_ = fs.Remove(fs.PathJoin(dir, ownerFile)) // it would name another process
		_ = fs.Remove(fs.PathJoin(dir, ownerFile+guardfs.Temporary))
	}
}
