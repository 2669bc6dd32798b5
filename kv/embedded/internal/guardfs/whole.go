package guardfs

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Temporary is what the name of a file ends with that is being written. A crash may leave it.
const Temporary = ".tmp"

// ReadWhole returns what a file holds, up to 4096 bytes.
func ReadWhole(fs vfs.FS, path string) (string, error) {
	f, err := fs.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	return string(data), err
}

// WriteWhole has a file hold text. The file is there whole or not at all, whatever crash comes between. When it returns, that is on disk, and so is the file's name.
func WriteWhole(fs vfs.FS, dir, name, text string) error {
	path := fs.PathJoin(dir, name)
	f, err := fs.Create(path+Temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename(path+Temporary, path); err != nil {
		return err
	}
	return SyncDir(fs, dir)
}

// SyncDir has the names in a directory on disk.
func SyncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
