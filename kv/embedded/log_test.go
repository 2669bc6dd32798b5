package embedded

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/wal"
)

// segmentsOf returns the files of a store's log, in order of their names.
func segmentsOf(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List("store")
	testkit.NoError(t, err)
	names = slices.DeleteFunc(names, func(name string) bool { return !isSegment(name) })
	slices.Sort(names)
	return names
}

func rewrite(t *testing.T, fs vfs.FS, name string, change func(data []byte) []byte) {
	t.Helper()
	path := fs.PathJoin("store", name)
	writeBytes(t, fs, path, change(bytesOf(t, fs, path)))
}

func bytesOf(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	testkit.NoError(t, err)
	defer f.Close()
	data, err := io.ReadAll(f)
	testkit.NoError(t, err)
	return data
}

func writeBytes(t *testing.T, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	testkit.NoError(t, err)
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	testkit.NoError(t, f.Close())
}

// However much is written, few segments are there, and one that was given up is used
// again; what was in it before is not taken for what is in it now.
func TestJournalTurns(t *testing.T) {
	fs := memFS()
	o := Options{FS: fs, MemTable: smallMemTable}
	db := mustOpen(t, "store", o)
	reused := false
	for i := range 2000 {
		mustTransact(t, db, func(tx kv.Tx) {
			tx.Set(fmt.Appendf(nil, "%03d", i%50), fmt.Appendf(nil, "%d %0*d", i, 200+i%100, 0))
		})
		names := segmentsOf(t, fs)
		reused = reused || slices.Contains(names, wal.Spare)
		if len(names) > 12 {
			t.Fatalf("after %d commits there are %v", i, names)
		}
		if i%100 == 99 {
			image, err := Open(t.Context(), "store", Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
			testkit.NoError(t, err)
			checkLatest(t, image, i)
			image.Close()
		}
	}
	if !reused {
		t.Error("no segment was kept to be used again")
	}
	testkit.NoError(t, db.Close())
	checkLatest(t, mustOpen(t, "store", o), 1999)
}

// checkLatest checks that each of the keys has its latest value, after so many commits.
func checkLatest(t *testing.T, db *DB, last int) {
	t.Helper()
	all := contents(t, db)
	if len(all) != 50 {
		t.Fatalf("%d keys, want 50", len(all))
	}
	for key, pair := range all {
		want := last - (last-key)%50
		if !strings.HasPrefix(pair, fmt.Sprintf("%03d=%d ", key, want)) {
			t.Fatalf("after commit %d: %.20s, want the value of commit %d", last, pair, want)
		}
	}
}

// A store of format 1, whose log is Pebble's, is opened and brought up to date.
func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	testkit.NoError(t, os.CopyFS(dir, os.DirFS("testdata/format1")))
	for round := range 2 {
		db, err := Open(t.Context(), dir, Options{})
		testkit.NoError(t, err)
		items := 0
		for _, pair := range contents(t, db) {
			for _, item := range []string{"one", "two", "three"} {
				if strings.HasSuffix(pair, "="+item) {
					items++
				}
			}
		}
		if items != 3 {
			t.Errorf("opening %d: %d of 3 items", round+1, items)
		}
		testkit.NoError(t, db.Close())
	}
	text, err := os.ReadFile(dir + "/" + formatFile)
	if want := fmt.Sprintf(formatLine, formatKnown); err != nil || string(text) != want {
		t.Errorf("CONQ says %q, %v; want %q", text, err, want)
	}
}

// Opening and closing writes no segment.
func TestJournalOfReaders(t *testing.T) {
	fs := memFS()
	for range 2 {
		db := mustOpen(t, "store", Options{FS: fs})
		testkit.NoError(t, db.ReadTransact(context.Background(), func(r kv.Reader) error {
			_, err := r.Get([]byte("a"))
			return err
		}))
		testkit.NoError(t, db.Close())
	}
	if names := segmentsOf(t, fs); len(names) > 0 {
		t.Errorf("segments %v", names)
	}
}

// closedStore returns a store that was opened so many times, and had a commit each time.
func closedStore(t *testing.T, times int) *vfs.MemFS {
	t.Helper()
	fs := memFS()
	for i := range times {
		db := mustOpen(t, "store", Options{FS: fs})
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%03d", i), []byte("value")) })
		testkit.NoError(t, db.Close())
	}
	return fs
}

// A manifest that is damaged, or cut, anywhere is found out, or nothing is missing.
func TestManifestDamage(t *testing.T) {
	fs := memFS()
	db := mustOpen(t, "store", Options{FS: fs, MemTable: smallMemTable})
	for i := range 1500 {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte("v"), 300)) })
	}
	testkit.NoError(t, db.Close())
	want := contents(t, mustOpen(t, "store", Options{FS: copyOf(fs)}))
	name := fileOf(t, fs, "MANIFEST-")
	size := len(bytesOf(t, fs, fs.PathJoin("store", name)))
	found := 0
	for _, change := range []func(data []byte, at int) []byte{
		func(data []byte, at int) []byte { data[at] ^= 1; return data },
		func(data []byte, at int) []byte { return data[:at] },
	} {
		for at := 0; at < size; at += 1 + size/97 {
			spoilt := copyOf(fs)
			rewrite(t, spoilt, name, func(data []byte) []byte { return change(data, at) })
			db, err := Open(t.Context(), "store", Options{FS: spoilt})
			if err != nil {
				if found++; !strings.Contains(err.Error(), name) {
					t.Errorf("byte %d of %d: error %q does not name %s", at, size, err, name)
				}
				continue
			}
			if got := contents(t, db); !slices.Equal(got, want) {
				t.Errorf("byte %d of %d: opened with %d of %d pairs", at, size, len(got), len(want))
			}
			db.Close()
		}
	}
	if found < 100 {
		t.Errorf("%d of 194 changes were found out", found)
	}
}

// fileOf returns the latest file of a store whose name begins so.
func fileOf(t *testing.T, fs vfs.FS, prefix string) (latest string) {
	t.Helper()
	names, err := fs.List("store")
	testkit.NoError(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, prefix) {
			latest = max(latest, name)
		}
	}
	return latest
}

// Of format 2 all can be read.
func TestFormat2(t *testing.T) {
	fs := closedStore(t, 3)
	testkit.NoError(t, fs.Remove(fs.PathJoin("store", wal.File)))
	writeBytes(t, fs, fs.PathJoin("store", formatFile), fmt.Appendf(nil, formatLine, 2))
	for range 2 {
		db := mustOpen(t, "store", Options{FS: fs})
		if got := contents(t, db); len(got) != 3 {
			t.Errorf("contents are %q, want 3 pairs", got)
		}
		testkit.NoError(t, db.Close())
	}
	if text := string(bytesOf(t, fs, fs.PathJoin("store", formatFile))); text != fmt.Sprintf(formatLine, formatKnown) {
		t.Errorf("%s says %q", formatFile, text)
	}
}

// Of format 3 all can be read, and what its checkpoint told is told by the new one.
func TestFormat3(t *testing.T) {
	fs := closedStore(t, 3)
	text := string(bytesOf(t, fs, fs.PathJoin("store", wal.File)))
	var n [8]uint64
	if _, err := fmt.Sscanf(text, "segments %d %d, begun %d of %d with %d, manifest %d up to %d sum %x", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7]); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	line := fmt.Sprintf("segments %d %d, manifest %d up to %d", n[0], n[1], n[5], n[6])
	line = fmt.Sprintf("%s, check %08x\n", line, crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli)))
	writeBytes(t, fs, fs.PathJoin("store", wal.File), []byte(line))
	writeBytes(t, fs, fs.PathJoin("store", formatFile), fmt.Appendf(nil, formatLine, 3))
	cut := copyOf(fs)
	testkit.NoError(t, cut.Remove(cut.PathJoin("store", segmentsOf(t, cut)[2])))
	if _, err := Open(t.Context(), "store", Options{FS: cut}); err == nil {
		t.Error("a store of format 3 without its last segment was opened")
	}
	for range 2 {
		db := mustOpen(t, "store", Options{FS: fs})
		if got := contents(t, db); len(got) != 3 {
			t.Errorf("contents are %q, want 3 pairs", got)
		}
		testkit.NoError(t, db.Close())
	}
}
