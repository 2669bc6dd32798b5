//go:build !linux

package embedded

import (
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockPath locks a file that it makes, until the lock is closed.
func lockPath(fs vfs.FS, path string) (io.Closer, error) { return fs.Lock(path) }
