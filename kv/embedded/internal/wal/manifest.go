package wal

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"

	manifests "github.com/cockroachdb/pebble/v2/record" // whose format they have
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// manifestMarker is how the name of Pebble's file begins that says which manifest counts.
const manifestMarker = "marker.manifest."

// checkManifest refuses a manifest that is not what it was, and tables without one: Pebble would take the
// store for a new one, and remove them.
func (c checkpoint) checkManifest(fs vfs.FS, dir string) error {
	name, number, end, err := manifestNow(fs, dir)
	switch {
	case err != nil:
		return err
	case name == "":
		return c.checkNoTables(fs, dir)
	case number < c.manifest:
		return fmt.Errorf("its tables are listed in %q, and were in the manifest %06d, which came later", name, c.manifest)
	case number != c.manifest:
		return nil
	case end < c.end:
		return fmt.Errorf("its file %s, which lists its tables, is damaged at byte %d", name, end)
	}
	switch sum, err := manifestSum(fs, fs.PathJoin(dir, name), c.end); {
	case err != nil:
		return err
	case sum != c.sum:
		return fmt.Errorf("its file %s, which lists its tables, is not what it was: is it another store's?", name)
	}
	return nil
}

// manifestSum returns the check of what a manifest has up to a byte.
func manifestSum(fs vfs.FS, path string, end int64) (uint32, error) {
	f, err := fs.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	h := crc32.New(castagnoli)
	_, err = io.Copy(h, io.NewSectionReader(f, 0, end))
	return h.Sum32(), err
}

// checkNoTables refuses a directory that has, or had, tables.
func (c checkpoint) checkNoTables(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	if c.manifest == 0 && !slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, ".sst") }) {
		return nil
	}
	return fmt.Errorf("its file %s* is missing, which is empty, and without which its tables can't be found: was the store copied without its empty files?", manifestMarker)
}

// manifestNow returns the name and the number of the manifest that counts, if there is one, and up to
// where it is on disk.
func manifestNow(fs vfs.FS, dir string) (name string, number uint64, end int64, err error) {
	if name, err = atomicfs.ReadMarker(fs, dir, "manifest"); err != nil || name == "" {
		return "", 0, 0, err
	}
	if _, err := fmt.Sscanf(name, "MANIFEST-%d", &number); err != nil {
		return "", 0, 0, fmt.Errorf("a file %s* names %q, not a manifest", manifestMarker, name)
	}
	end, err = manifestEnd(fs, fs.PathJoin(dir, name))
	return name, number, end, err
}

// manifestEnd returns where the records of a manifest end, which are on disk then.
func manifestEnd(fs vfs.FS, path string) (end int64, err error) {
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := manifests.NewReader(f, 0)
	for {
		one, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, one)
		}
		if err != nil {
			return end, f.Sync()
		}
		end = r.Offset()
	}
}
