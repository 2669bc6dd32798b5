package wal

import (
	"bytes"
	"testing"

	manifests "github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
)

const manifest = "MANIFEST-000007"

// withManifest returns a directory with a manifest of records of such sizes, and what that holds.
func withManifest(t *testing.T, sizes ...int) (fs *vfs.MemFS, data []byte) {
	t.Helper()
	fs = newDir(t)
	data = manifestOf(t, sizes...)
	writeFile(t, fs, manifest, bytes.Clone(data)) // as this file system spoils what it gets
	marker, _, err := atomicfs.LocateMarker(fs, dir, "manifest")
	testkit.NoError(t, err)
	testkit.NoError(t, marker.Move(manifest))
	testkit.NoError(t, marker.Close())
	testkit.NoError(t, guardfs.SyncDir(fs, dir))
	return fs, data
}

func manifestOf(t *testing.T, sizes ...int) []byte {
	t.Helper()
	var data bytes.Buffer
	w := manifests.NewWriter(&data)
	for _, size := range sizes {
		_, err := w.WriteRecord(make([]byte, size))
		testkit.NoError(t, err)
		testkit.NoError(t, w.Flush())
	}
	return data.Bytes()
}

// What is noted of a manifest is on disk: else after a power failure the store would be taken for a
// damaged one.
func TestManifestNoted(t *testing.T) {
	fs, data := withManifest(t, 1, 100, 32<<10-7-114, 1, 40<<10, 100<<10, 7)
	_, number, end, err := manifestNow(fs, dir)
	if err != nil || number != 7 || end != int64(len(data)) {
		t.Fatalf("manifest %d up to %d of %d bytes, %v", number, end, len(data), err)
	}
	if after := readFile(t, fs.CrashClone(vfs.CrashCloneCfg{}), manifest); int64(len(after)) < end {
		t.Errorf("%d bytes are on disk, of %d that were noted", len(after), end)
	}
}

// A manifest is refused that is not the latest, has less than it had, or is missing; and tables without
// one.
func TestManifestRefused(t *testing.T) {
	fs, data := withManifest(t, 10, 1000, 10)
	_, number, end, err := manifestNow(fs, dir)
	testkit.NoError(t, err)
	sum, err := manifestSum(fs, fs.PathJoin(dir, manifest), end)
	testkit.NoError(t, err)
	testkit.NoError(t, checkpoint{first: 1, manifest: number, end: end, sum: sum}.write(fs, dir))
	mustOpen(t, copyOf(fs), usual)
	for _, n := range []int{0, 5, len(data) - 1} {
		cut := copyOf(fs)
		rewrite(t, cut, manifest, func(data []byte) []byte { return data[:n] })
		refused(t, cut, "a cut manifest", manifest, "damaged at byte")
	}
	other := copyOf(fs)
	rewrite(t, other, manifest, func([]byte) []byte { return manifestOf(t, 12, 1000, 10) })
	refused(t, other, "another store's manifest", manifest)
	later := copyOf(fs)
	testkit.NoError(t, checkpoint{first: 1, manifest: 8}.write(later, dir))
	refused(t, later, "an old manifest", manifest, "000008")

	names, err := fs.List(dir)
	testkit.NoError(t, err)
	for _, name := range names {
		if len(name) > len(manifestMarker) && name[:len(manifestMarker)] == manifestMarker {
			fs = copyWithout(t, fs, name)
		}
	}
	refused(t, fs, "no manifest", manifestMarker)

	fs = newDir(t)
	writeFile(t, fs, "000004.sst", nil)
	refused(t, fs, "a table without a manifest", manifestMarker)
}
