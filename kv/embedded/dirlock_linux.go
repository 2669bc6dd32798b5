package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ofdSetLock is F_OFD_SETLK, which package syscall does not have.
const ofdSetLock = 37

// lockPath locks a file that it makes, until the lock is closed. The lock is of the open file, so
// this process too can't have it twice. One of the process, as Pebble's is, would be given up when
// anything in it closes the file, such as who copies the directory. A file that is there stays as it
// is: some file systems have no room to cut one when they are full, though it is empty.
func lockPath(fs vfs.FS, path string) (io.Closer, error) {
	if fs != vfs.Default {
		return fs.Lock(path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err = setLock(f, syscall.F_WRLCK); err == nil {
		return lockedFile{f}, nil
	}
	f.Close()
	if errors.Is(err, syscall.EINVAL) { // the file system has no such locks
		return fs.Lock(path)
	}
	return nil, err
}

func setLock(f *os.File, kind int16) error {
	return syscall.FcntlFlock(f.Fd(), ofdSetLock, &syscall.Flock_t{Type: kind, Whence: io.SeekStart})
}

// lockedFile is a lock of an open file.
type lockedFile struct{ *os.File }

// inPlace returns an error if the file is no longer what is found by its name.
func (f lockedFile) inPlace() error {
	locked, err := f.Stat()
	if err != nil {
		return err
	}
	found, err := os.Stat(f.Name())
	if errors.Is(err, os.ErrNotExist) || err == nil && !os.SameFile(locked, found) {
		return fmt.Errorf("%s is not the file that was locked: the directory of the store was moved, or it was removed, while the store was open", f.Name())
	}
	return nil // what else is wrong is met by who uses files
}

// Close gives the lock up, too: a process that is being started has the file open until it runs, and
// would keep it.
func (f lockedFile) Close() error {
	return errors.Join(setLock(f.File, syscall.F_UNLCK), f.File.Close())
}
