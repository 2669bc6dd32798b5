package wal

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/embedded/internal/guardfs"
)

const dir = "store"

// newDir returns a file system with the directory of a new store.
func newDir(t *testing.T) *vfs.MemFS {
	t.Helper()
	fs := vfs.NewCrashableMem()
	testkit.NoError(t, fs.MkdirAll(dir, 0o755))
	testkit.NoError(t, guardfs.SyncDir(fs, "."))
	testkit.NoError(t, Create(fs, dir))
	return fs
}

func guard(fs vfs.FS) *guardfs.FS {
	return guardfs.New(fs, func(error) {})
}

// usual has what is committed on disk.
var usual = Options{SegmentSize: 16 << 10}

// mustOpen opens a log and returns the batches that were in it.
func mustOpen(t *testing.T, fs vfs.FS, o Options) (l *Log, batches []string) {
	t.Helper()
	l, batches, err := openLog(fs, o)
	testkit.NoError(t, err)
	return l, batches
}

func openLog(fs vfs.FS, o Options) (l *Log, batches []string, err error) {
	if l, err = Open(guard(fs), dir, o); err != nil {
		return nil, nil, err
	}
	err = l.Replay(func(batch []byte) error { batches = append(batches, string(batch)); return nil })
	return l, batches, err
}

// refused checks that a log can't be opened, and that the error says what is wrong.
func refused(t *testing.T, fs vfs.FS, what string, says ...string) {
	t.Helper()
	_, batches, err := openLog(fs, usual)
	if err == nil {
		t.Errorf("%s: it was opened, with %.100q", what, batches)
		return
	}
	for _, want := range says {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %q does not say %q", what, err, want)
		}
	}
}

// commit commits batches, each for itself.
func commit(t *testing.T, l *Log, batches ...string) {
	t.Helper()
	for _, batch := range batches {
		version := l.version + 1
		l.Append([]byte(batch), 1, version)
		testkit.NoError(t, l.Commit(version))
	}
}

// killed returns what the death of the process would leave of a log with n commits in one segment.
func killed(t *testing.T, n int) *vfs.MemFS {
	t.Helper()
	fs := newDir(t)
	l, _ := mustOpen(t, fs, usual)
	for i := range n {
		commit(t, l, fmt.Sprintf("batch %02d", i))
	}
	return copyOf(fs)
}

// closedLog returns a log that was opened so many times, with a commit each time.
func closedLog(t *testing.T, times int) *vfs.MemFS {
	t.Helper()
	fs := newDir(t)
	for i := range times {
		l, _ := mustOpen(t, fs, usual)
		commit(t, l, fmt.Sprintf("batch %02d", i))
		testkit.NoError(t, l.Close())
	}
	return fs
}

// copyOf returns the files as the death of the process would leave them.
func copyOf(fs *vfs.MemFS) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
}

// copyWithout is copyOf without a file.
func copyWithout(t *testing.T, fs *vfs.MemFS, name string) *vfs.MemFS {
	t.Helper()
	fs = copyOf(fs)
	testkit.NoError(t, fs.Remove(fs.PathJoin(dir, name)))
	return fs
}

func segmentsOf(t *testing.T, fs vfs.FS) []uint64 {
	t.Helper()
	segments, err := segmentsIn(fs, dir)
	testkit.NoError(t, err)
	return segments
}

func onlySegment(t *testing.T, fs vfs.FS) uint64 {
	t.Helper()
	segments := segmentsOf(t, fs)
	if len(segments) != 1 {
		t.Fatalf("there are segments %d, want one", segments)
	}
	return segments[0]
}

func rewrite(t *testing.T, fs vfs.FS, name string, change func(data []byte) []byte) {
	t.Helper()
	writeFile(t, fs, name, change(readFile(t, fs, name)))
}

func readFile(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(fs.PathJoin(dir, name))
	testkit.NoError(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	testkit.NoError(t, err)
	return data
}

func writeFile(t *testing.T, fs vfs.FS, name string, data []byte) {
	t.Helper()
	f, err := fs.Create(fs.PathJoin(dir, name), vfs.WriteCategoryUnspecified)
	testkit.NoError(t, err)
	_, err = f.Write(data)
	testkit.NoError(t, err)
	testkit.NoError(t, f.Close())
}
