package embedded

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	manifests "github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv"
)

// refused checks that a store can't be opened, and that the error names what is wrong.
func refused(t *testing.T, fs vfs.FS, what, name string) {
	t.Helper()
	db, err := Open("store", Options{FS: fs})
	if err == nil {
		t.Errorf("%s: it was opened, with %q", what, contents(t, db))
		db.Close()
	} else if !strings.Contains(err.Error(), name) {
		t.Errorf("%s: error %q does not name %q", what, err, name)
	}
}

// closedStore returns a store that was opened so many times, and had a commit each time.
func closedStore(t *testing.T, times int) *vfs.MemFS {
	t.Helper()
	fs := memFS()
	for i := range times {
		db := mustOpen(t, "store", Options{FS: fs})
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%03d", i), []byte("value")) })
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return fs
}

// A segment that is missing or cut is not taken for one that was given up, or never was: also not the
// last, once the store was closed, and after segments were given up.
func TestMissingSegments(t *testing.T) {
	for _, times := range []int{1, 5, fewSegments + 5} {
		fs := closedStore(t, times)
		want := contents(t, mustOpen(t, "store", Options{FS: copyOf(fs)}))
		if len(want) != times {
			t.Fatalf("contents are %q, want %d pairs", want, times)
		}
		names := slices.DeleteFunc(segmentsOf(t, fs), func(name string) bool { return name == spareSegment })
		for _, name := range names {
			path := fs.PathJoin("store", name)
			spoilt := copyOf(fs)
			if err := spoilt.Remove(path); err != nil {
				t.Fatal(err)
			}
			refused(t, spoilt, fmt.Sprintf("%d openings, without %s of %v", times, name, names), name)
			number, _ := segmentNumber(name)
			_, records, err := readSegment(fs, path, number)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int64{0, recordAlign, records.end} {
				spoilt := copyOf(fs)
				rewrite(t, spoilt, name, func(data []byte) []byte { return data[:n] })
				refused(t, spoilt, fmt.Sprintf("%d openings, %d bytes of %s of %v", times, n, name, names), name)
			}
		}
	}
}

// Also where the store was not closed, what must have been before the last segment is missed.
func TestMissingSegmentsAfterCrash(t *testing.T) {
	fs := closedStore(t, 2)
	db := mustOpen(t, "store", Options{FS: fs})
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("x"), nil) })
	crashed := copyOf(fs)
	names := segmentsOf(t, crashed)
	for _, name := range names[:2] {
		spoilt := copyOf(crashed)
		if err := spoilt.Remove(spoilt.PathJoin("store", name)); err != nil {
			t.Fatal(err)
		}
		refused(t, spoilt, "without "+name, name)
	}
	fs = closedStore(t, 3)
	n, err := readNeeded(fs, "store")
	if err != nil {
		t.Fatal(err)
	}
	n.last = 0 // as after a crash
	if err := n.write(fs, "store"); err != nil {
		t.Fatal(err)
	}
	middle := segmentsOf(t, fs)[1]
	if err := fs.Remove(fs.PathJoin("store", middle)); err != nil {
		t.Fatal(err)
	}
	refused(t, fs, "without the second of three segments", middle)
	fs = killed(t, 2)
	f, err := fs.Create(fs.PathJoin("store", segmentName(onlySegment(t, fs)+1)), vfs.WriteCategoryUnspecified)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	first := segmentsOf(t, fs)[0]
	if err := fs.Remove(fs.PathJoin("store", first)); err != nil {
		t.Fatal(err)
	}
	refused(t, fs, "a new store without its first segment", first)
}

// Whatever becomes of the file that says what is needed, a segment that is needed is not given up.
func TestNeededFile(t *testing.T) {
	fs := closedStore(t, 3)
	if err := copyWithout(t, fs, neededFile); err == nil || !strings.Contains(err.Error(), neededFile) {
		t.Errorf("without %s: %v", neededFile, err)
	}
	text := bytesOf(t, fs, fs.PathJoin("store", neededFile))
	for i := range text {
		spoilt := copyOf(fs)
		rewrite(t, spoilt, neededFile, func(data []byte) []byte { data[i] ^= 1; return data })
		refused(t, spoilt, fmt.Sprintf("byte %d of %q changed", i, text), neededFile)
	}
}

func copyWithout(t *testing.T, fs *vfs.MemFS, name string) error {
	spoilt := copyOf(fs)
	if err := spoilt.Remove(spoilt.PathJoin("store", name)); err != nil {
		t.Fatal(err)
	}
	db, err := Open("store", Options{FS: spoilt})
	if err == nil {
		db.Close()
	}
	return err
}

// A manifest that is damaged, or cut, anywhere is found out, or nothing is missing.
func TestManifestDamage(t *testing.T) {
	fs := memFS()
	db := mustOpen(t, "store", Options{FS: fs, MemTable: smallMemTable})
	for i := range 1500 {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%04d", i), bytes.Repeat([]byte("v"), 300)) })
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	want := contents(t, mustOpen(t, "store", Options{FS: copyOf(fs)}))
	name, _, err := manifestIn(fs, "store")
	if err != nil {
		t.Fatal(err)
	}
	size := len(bytesOf(t, fs, fs.PathJoin("store", name)))
	found := 0
	for _, change := range []func(data []byte, at int) []byte{
		func(data []byte, at int) []byte { data[at] ^= 1; return data },
		func(data []byte, at int) []byte { return data[:at] },
	} {
		for at := 0; at < size; at += 1 + size/97 {
			spoilt := copyOf(fs)
			rewrite(t, spoilt, name, func(data []byte) []byte { return change(data, at) })
			db, err := Open("store", Options{FS: spoilt})
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

// What is noted of a manifest is on disk: else after a power failure the store would be taken for a
// damaged one.
func TestManifestListed(t *testing.T) {
	fs := closedStore(t, 1)
	name, _, err := manifestIn(fs, "store")
	if err != nil {
		t.Fatal(err)
	}
	path := fs.PathJoin("store", name)
	data := bytesOf(t, fs, path)
	writeBytes(t, fs, path, data)
	if err := syncDir(fs, "store"); err != nil {
		t.Fatal(err)
	}
	var n needed
	if err := n.list(fs, "store"); err != nil || n.end == 0 || n.end > int64(len(data)) {
		t.Fatalf("%+v of %d bytes, %v", n, len(data), err)
	}
	if after := bytesOf(t, fs.CrashClone(vfs.CrashCloneCfg{}), path); int64(len(after)) < n.end {
		t.Errorf("%d bytes are on disk, of %d that were noted", len(after), n.end)
	}
}

// To look on where a manifest ended finds that it still ends there, or where it does now, whatever
// records there are.
func TestManifestEnd(t *testing.T) {
	fs := memFS()
	var data bytes.Buffer
	w := manifests.NewWriter(&data)
	end := int64(0)
	for _, size := range []int{1, 100, 32<<10 - 7 - 114, 1, 40 << 10, 100 << 10, 7} {
		if _, err := w.WriteRecord(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		writeBytes(t, fs, "manifest", bytes.Clone(data.Bytes())) // as the file system of tests spoils what it gets
		for _, from := range []int64{0, end, int64(data.Len())} {
			if got, err := manifestEnd(fs, "manifest", from, false); err != nil || got != int64(data.Len()) {
				t.Errorf("behind a record of %d bytes, from %d on: %d of %d bytes, %v", size, from, got, data.Len(), err)
			}
		}
		end = int64(data.Len())
	}
}

// A manifest that is not the latest is refused, as is one of which nothing can be read, and that there
// is none.
func TestOldManifest(t *testing.T) {
	fs := closedStore(t, 1)
	name, number, err := manifestIn(fs, "store")
	if err != nil {
		t.Fatal(err)
	}
	spoilt := copyOf(fs)
	rewrite(t, spoilt, name, func([]byte) []byte { return nil })
	refused(t, spoilt, "an empty manifest", name)
	n, err := readNeeded(fs, "store")
	if err != nil {
		t.Fatal(err)
	}
	n.manifest = number + 1
	if err := n.write(fs, "store"); err != nil {
		t.Fatal(err)
	}
	refused(t, fs, "an old manifest", name)
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, manifestMarker) {
			if err := fs.Remove(fs.PathJoin("store", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	refused(t, fs, "no manifest", manifestMarker)
}

// Of format 2 all can be read, also where a segment that was given up has come back.
func TestFormat2(t *testing.T) {
	fs := closedStore(t, 3)
	if err := fs.Remove(fs.PathJoin("store", neededFile)); err != nil {
		t.Fatal(err)
	}
	first, _ := segmentNumber(segmentsOf(t, fs)[0])
	writeBytes(t, fs, fs.PathJoin("store", formatFile), fmt.Appendf(nil, formatLine, 2))
	writeBytes(t, fs, fs.PathJoin("store", segmentName(first-2)), []byte("anything"))
	for range 2 {
		db := mustOpen(t, "store", Options{FS: fs})
		if got := contents(t, db); len(got) != 3 {
			t.Errorf("contents are %q, want 3 pairs", got)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if text := string(bytesOf(t, fs, fs.PathJoin("store", formatFile))); text != fmt.Sprintf(formatLine, formatKnown) {
		t.Errorf("%s says %q", formatFile, text)
	}
}
