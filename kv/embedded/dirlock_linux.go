package embedded

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ofdSetLock is F_OFD_SETLK, which package syscall does not have.
const ofdSetLock = 37

// lockPath locks a file that it makes, until the lock is closed. The lock is of the open file, so
// this process too can't have it twice. One of the process, as Pebble's is, would be given up when
// anything in it closes the file, such as who copies the directory.
func lockPath(fs vfs.FS, path string) (io.Closer, error) {
	if fs != vfs.Default {
		return fs.Lock(path)
	}
	f, err := os.Create(path)
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

// Close gives the lock up, too: a process that is being started has the file open until it runs, and
// would keep it.
func (f lockedFile) Close() error {
	return errors.Join(setLock(f.File, syscall.F_UNLCK), f.File.Close())
}
