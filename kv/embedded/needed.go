package embedded

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"

	manifests "github.com/cockroachdb/pebble/v2/record" // whose format they have
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// needed is what must be in a store's directory, as its file NEEDED says: the first segment of
// the journal that has what may be in no table, the last one that was ended, if one was, and how
// much of Pebble's manifest was on disk when segments before the first were given up. Without it,
// a segment that is missing could not be told from one that was given up; and where a manifest is
// damaged Pebble takes what is before for all of it, and removes the tables of which it does not
// know.
//
// What a manifest has beyond that is of no account: tables that are lost with it have what is in
// the journal, too.
type needed struct {
	first, last uint64
	manifest    uint64
	end         int64
}

const (
	neededFile = "NEEDED"
	neededLine = "segments %d %d, manifest %d up to %d"
)

// text returns what the file has: with a check, as whoever believed a number too high would give
// up segments that are needed.
func (n needed) text() string {
	line := fmt.Sprintf(neededLine, n.first, n.last, n.manifest, n.end)
	return fmt.Sprintf("%s, check %08x\n", line, crc32.Checksum([]byte(line), castagnoli))
}

func (n needed) write(fs vfs.FS, dir string) error {
	return writeFile(fs, dir, neededFile, n.text())
}

func readNeeded(fs vfs.FS, dir string) (n needed, err error) {
	text, err := readFile(fs, fs.PathJoin(dir, neededFile))
	if err != nil {
		return n, fmt.Errorf("without its file %s, what is missing can't be told: %w", neededFile, err)
	}
	if _, err := fmt.Sscanf(text, neededLine, &n.first, &n.last, &n.manifest, &n.end); err != nil || n.text() != text {
		return n, fmt.Errorf("its file %s is damaged: it holds %.100q", neededFile, text)
	}
	return n, nil
}

// segmentsIn returns the segments of a directory, in order.
func segmentsIn(fs vfs.FS, dir string) (segments []uint64, err error) {
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if n, ok := segmentNumber(name); ok {
			segments = append(segments, n)
		}
	}
	slices.Sort(segments)
	return segments, nil
}

// segments returns those of the journal, in order. It removes those before the first that is
// needed: they were given up, and are there because they could not be removed, or have come back
// in a crash.
func (n needed) segments(fs vfs.FS, dir string) ([]uint64, error) {
	all, err := segmentsIn(fs, dir)
	if err != nil {
		return nil, err
	}
	for len(all) > 0 && all[0] < n.first {
		if err := fs.Remove(fs.PathJoin(dir, segmentName(all[0]))); err != nil {
			return nil, err
		}
		all = all[1:]
	}
	if len(all) == 0 && n.last == 0 { // nothing was written yet
		return nil, nil
	}
	next := n.first
	for _, number := range all {
		if number != next {
			break
		}
		next++
	}
	if there := next - n.first; there < uint64(len(all)) || there == 0 || next <= n.last {
		return nil, fmt.Errorf("its file %s is missing, which has commits that may be nowhere else", segmentName(next))
	}
	return all, nil
}

// checkManifest refuses a manifest that is not what it was.
func (n needed) checkManifest(fs vfs.FS, dir string) error {
	name, number, err := manifestIn(fs, dir)
	switch {
	case err != nil, name == "" && n.manifest == 0:
		return err
	case name == "":
		return fmt.Errorf("its file %s* is missing, which is empty, and without which its tables can't be found", manifestMarker)
	}
	end, err := manifestEnd(fs, fs.PathJoin(dir, name), 0, false)
	switch {
	case err != nil:
		return err
	case number < n.manifest:
		return fmt.Errorf("its tables are listed in %q, and were in the manifest %06d, which came later", name, n.manifest)
	case number == n.manifest && end < n.end:
		return fmt.Errorf("its file %s, which lists its tables, is damaged at byte %d", name, end)
	}
	return nil
}

// manifestIn returns the name and the number of the manifest that counts, if there is one.
func manifestIn(fs vfs.FS, dir string) (name string, number uint64, err error) {
	if name, err = atomicfs.ReadMarker(fs, dir, "manifest"); err != nil || name == "" {
		return "", 0, err
	}
	if _, err := fmt.Sscanf(name, "MANIFEST-%d", &number); err != nil {
		return "", 0, fmt.Errorf("a file %s* names %q, not a manifest", manifestMarker, name)
	}
	return name, number, nil
}

// manifestEnd returns where the records of a manifest end, of which one begins, or all end, at a
// place. With sync set, they are on disk up to there.
func manifestEnd(fs vfs.FS, path string, from int64, sync bool) (end int64, err error) {
	const block = 32 << 10 // a reader can begin at multiples of that
	f, err := fs.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	start := from / block * block
	r := manifests.NewReader(io.NewSectionReader(f, start, info.Size()-start), 0)
	end = from
	for {
		one, err := r.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, one)
		}
		if err != nil {
			break
		}
		end = start + r.Offset()
	}
	if sync {
		err = f.Sync()
	}
	return end, err
}

// list notes how much of the manifest there is by now.
func (n *needed) list(fs vfs.FS, dir string) error {
	name, number, err := manifestIn(fs, dir)
	if err != nil || name == "" {
		return err
	}
	if number != n.manifest {
		n.manifest, n.end = number, 0
	}
	n.end, err = manifestEnd(fs, fs.PathJoin(dir, name), n.end, true)
	return err
}

// firstNeeded is what is needed of a store that has no such file: a new one, or one of an older format,
// whose segments before a gap were given up.
func firstNeeded(fs vfs.FS, dir string) (needed, error) {
	segments, err := segmentsIn(fs, dir)
	n := needed{first: firstSegment()}
	for i, number := range segments {
		if i == 0 || number != segments[i-1]+1 {
			n.first = number
		}
	}
	return n, err
}
