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
	err = syscall.FcntlFlock(f.Fd(), ofdSetLock, &syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart})
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, syscall.EINVAL) { // the file system has no such locks
		return fs.Lock(path)
	}
	return nil, err
}
