package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv"
)

// segmentsOf returns the files of a store's journal, in order of their names.
func segmentsOf(t *testing.T, fs vfs.FS) []string {
	t.Helper()
	names, err := fs.List("store")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !isSegment(name) })
	slices.Sort(names)
	return names
}

// killed returns what the death of the process would leave of a store with n commits: the
// i-th sets key i. It is a copy, so that it can be spoilt.
func killed(t *testing.T, n int) *vfs.MemFS {
	t.Helper()
	fs := memFS()
	db := mustOpen(t, "store", Options{FS: fs})
	for i := range n {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%03d", i), []byte("values")) })
	}
	return copyOf(fs)
}

func rewrite(t *testing.T, fs vfs.FS, name string, change func(data []byte) []byte) {
	t.Helper()
	path := fs.PathJoin("store", name)
	writeBytes(t, fs, path, change(bytesOf(t, fs, path)))
}

func bytesOf(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeBytes(t *testing.T, fs vfs.FS, path string, data []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// What a crash has torn off, at any byte, is given up, and the store goes on behind what
// is left, also after a second crash.
func TestJournalTorn(t *testing.T) {
	const commits = 5
	was := killed(t, commits)
	name := segmentsOf(t, was)[0]
	data := bytesOf(t, was, was.PathJoin("store", name))
	var ends []int64 // of each commit
	for at := int64(0); ; {
		r, ok := readRecord(onlySegment(t, was), data[at:])
		if !ok {
			break
		}
		at += r.size
		ends = append(ends, at)
	}
	if len(ends) != commits {
		t.Fatalf("the segment has %d records, want %d", len(ends), commits)
	}
	torn := map[string]func(data []byte, at int64) []byte{
		"cut off": func(data []byte, at int64) []byte { return data[:at] },
		"zeros":   func(data []byte, at int64) []byte { clear(data[at:]); return data },
	}
	for at := ends[2]; at <= ends[4]; at++ { // what was synced before is another matter
		for how, tear := range torn {
			fs := copyOf(was)
			rewrite(t, fs, name, func(data []byte) []byte { return tear(data, at) })
			whole := slices.IndexFunc(ends, func(end int64) bool { return end > at })
			if whole < 0 {
				whole = commits
			}
			for round := range 2 {
				db, err := Open("store", Options{FS: fs})
				if err != nil {
					t.Fatalf("%s at %d: %v", how, at, err)
				}
				if n := len(contents(t, db)); n != whole+round {
					t.Errorf("%s at %d, opening %d: %d commits, want %d", how, at, round+1, n, whole+round)
				}
				mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "more %d", round), nil) })
				fs = fs.CrashClone(vfs.CrashCloneCfg{})
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A segment that is not the last one has an end, or something was lost.
func TestJournalWithoutEnd(t *testing.T) {
	fs := killed(t, 3)
	first := onlySegment(t, fs)
	f, err := fs.Create(fs.PathJoin("store", segmentName(first+1)), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := Open("store", Options{FS: fs})
	if err == nil {
		db.Close()
		t.Fatal("a journal whose first segment has no end was opened")
	}
	if !strings.Contains(err.Error(), segmentName(first)) {
		t.Errorf("error %q does not name %s", err, segmentName(first))
	}
}

// onlySegment returns the number of the one segment that there is.
func onlySegment(t *testing.T, fs vfs.FS) uint64 {
	t.Helper()
	segments, err := segmentsIn(fs, "store")
	if err != nil || len(segments) != 1 {
		t.Fatalf("there are segments %d (%v), want one", segments, err)
	}
	return segments[0]
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
		reused = reused || slices.Contains(names, spareSegment)
		if len(names) > 12 {
			t.Fatalf("after %d commits there are %v", i, names)
		}
		if i%100 == 99 {
			image, err := Open("store", Options{FS: fs.CrashClone(vfs.CrashCloneCfg{})})
			if err != nil {
				t.Fatal(err)
			}
			checkLatest(t, image, i)
			image.Close()
		}
	}
	if !reused {
		t.Error("no segment was kept to be used again")
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
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

// A segment that was given up, and came back, is not read.
func TestJournalGap(t *testing.T) {
	fs := killed(t, 3)
	name := segmentsOf(t, fs)[0]
	old := bytesOf(t, fs, fs.PathJoin("store", name))
	for range fewSegments + 2 { // each opening begins a segment
		db := mustOpen(t, "store", Options{FS: fs})
		mustTransact(t, db, func(tx kv.Tx) { tx.Clear([]byte("000")); tx.Set([]byte("x"), nil) })
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	names := segmentsOf(t, fs)
	if first, _ := segmentNumber(names[0]); first < 3 {
		t.Fatalf("segments %v: the first two were not given up", names)
	}
	if f, err := fs.Create(fs.PathJoin("store", name), vfs.WriteCategoryUnspecified); err != nil {
		t.Fatal(err)
	} else if _, err := f.Write(old); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, mustOpen(t, "store", Options{FS: fs})); !slices.Equal(got, []string{"001=values", "002=values", "x="}) {
		t.Errorf("contents are %q", got)
	}
	if slices.Contains(segmentsOf(t, fs), name) {
		t.Errorf("%s is still there", name)
	}
}

// Whatever has not reached the disk when the power fails: each transaction is there whole
// or not at all, and so are those before it. The tables on disk must not be ahead of the
// journal for that.
func TestCrashIsAPrefix(t *testing.T) {
	for _, durability := range []Durability{Interval, Memory} {
		for seed := range uint64(4) {
			rng := rand.New(rand.NewPCG(seed, 0))
			fs := memFS()
			db := mustOpen(t, "store", Options{FS: fs, Durability: durability, MemTable: smallMemTable})
			for i := range 600 {
				mustTransact(t, db, func(tx kv.Tx) {
					tx.Set([]byte("a"), fmt.Appendf(nil, "%d", i))
					tx.Set(fmt.Appendf(nil, "b%04d", i), make([]byte, rng.IntN(4<<10)))
					tx.Clear(fmt.Appendf(nil, "b%04d", i-prefixKeys))
				})
				if i%20 == 19 {
					image := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * rng.IntN(2), RNG: rng})
					checkPrefix(t, image)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			checkPrefix(t, fs)
		}
	}
}

// prefixKeys is how many keys there are after each commit, beside one with its number: the
// latest ones, each set once.
const prefixKeys = 20

func checkPrefix(t *testing.T, fs *vfs.MemFS) {
	t.Helper()
	db, err := Open("store", Options{FS: fs, Durability: Memory})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all := contents(t, db)
	if len(all) == 0 {
		return
	}
	var last int
	if _, err := fmt.Sscanf(all[0], "a=%d", &last); err != nil {
		t.Fatal(all[0], err)
	}
	var got, want []string
	for _, pair := range all[1:] {
		key, _, _ := strings.Cut(pair, "=")
		got = append(got, key)
	}
	for i := max(0, last-prefixKeys+1); i <= last; i++ {
		want = append(want, fmt.Sprintf("b%04d", i))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("after commit %d there are %q, want %q", last, got, want)
	}
}

// A store of format 1, whose log is Pebble's, is opened and brought up to date.
func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/format1")); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		db, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
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
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
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
		if err := db.ReadTransact(context.Background(), func(r kv.Reader) error {
			_, err := r.Get([]byte("a"))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if names := segmentsOf(t, fs); len(names) > 0 {
		t.Errorf("segments %v", names)
	}
}

// A segment is read up to its end, and no further than it takes to find that: behind it is
// what the file had when it was another segment.
func TestReadSegment(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 100, firstRead - 100, firstRead, 5 * firstRead, 8 * firstRead, 20 * firstRead} {
		for _, finished := range []bool{true, false} {
			var written []byte
			var want [][]byte
			for len(written) < size {
				batch := make([]byte, 1+random.IntN(min(size, firstRead/3)))
				for i := range batch {
					batch[i] = byte(random.Uint32())
				}
				want = append(want, batch)
				written = appendRecord(written, 2, 0, batch)
			}
			end := len(written)
			if finished {
				written = appendRecord(written, 2, 0, nil)
			}
			for len(written) < 100*firstRead {
				written = appendRecord(written, 1, 0, make([]byte, 1000))
			}
			fs := vfs.NewMem()
			writeBytes(t, fs, "segment", written)
			data, got, err := readSegment(fs, "segment", 2)
			if err != nil {
				t.Fatal(err)
			}
			if got.end != int64(end) || got.finished != finished || !slices.EqualFunc(got.batches, want, bytes.Equal) {
				t.Errorf("of %d records up to %d, finished %v: read %d up to %d, finished %v",
					len(want), end, finished, len(got.batches), got.end, got.finished)
			}
			if most := max(firstRead, 8*(end+headerSize)); finished && len(data) > most || !finished && len(data) != len(written) {
				t.Errorf("finished %v at %d of %d bytes: read %d", finished, end, len(written), len(data))
			}
		}
	}
}

// Records are what they were in builds before: what these have written would otherwise be taken for
// what a crash has torn.
func TestRecordsStay(t *testing.T) {
	records := appendRecord(nil, 1<<40+7, 0, []byte("a batch"))
	records = appendRecord(records, 1<<40+7, 24, nil)
	const want = "2b78dbf68cccfef80700000000000000" + "6120626174636800" + // header and batch
		"866740340e9dc0000000000018000000"
	if got := fmt.Sprintf("%x", records); got != want {
		t.Errorf("records are %s, were %s", got, want)
	}
}

// A segment can hold any bytes: it has the records that were written, up to its first
// fault, and nothing else.
func FuzzSegment(f *testing.F) {
	whole := appendRecord(nil, 7, 0, []byte("first"))
	whole = appendRecord(whole, 7, int64(len(whole)), []byte("the second one"))
	f.Add(whole, uint64(7))
	f.Add(appendRecord(whole, 7, 0, nil), uint64(7))
	f.Add(make([]byte, 100), uint64(1))
	f.Fuzz(func(t *testing.T, data []byte, number uint64) {
		read := readRecords(number, data)
		batches, end, finished := read.batches, read.end, read.finished
		var again []byte
		for at := int64(0); at < end; {
			r, ok := readRecord(number, data[at:])
			if !ok {
				t.Fatalf("no record at %d of %d", at, end)
			}
			again = appendRecord(again, number, r.synced, r.batch)
			at += r.size
		}
		if int64(len(again)) != end {
			t.Fatalf("%d batches take %d bytes, and end at %d", len(batches), len(again), end)
		}
		lost(number, data, end)
		behind := appendRecord(slices.Clone(data[:end]), number, end, []byte("more"))
		if more := readRecords(number, behind).batches; len(more) != len(batches)+1 {
			t.Fatalf("%d batches, and with one more %d (finished %v)", len(batches), len(more), finished)
		}
	})
}

// No number of a segment comes again, though all that is in the journal is given up when the
// store is opened, and nothing is written then: a file that is used again may still have records
// of an earlier segment, which would count if that had the same number.
func TestJournalNumbers(t *testing.T) {
	fs := memFS()
	o := Options{FS: fs, MemTable: 4 * littleBytes}
	latest := func() (number uint64) {
		for _, name := range segmentsOf(t, fs) {
			if n, ok := segmentNumber(name); ok {
				number = max(number, n)
			}
		}
		return number
	}
	before := uint64(0)
	for round := range 4 {
		db := mustOpen(t, "store", o)
		for i := range 10 {
			mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte{byte(i)}, make([]byte, littleBytes/8)) })
		}
		for i := range 3 { // the first gives up what is in the journal, the others find nothing
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if n := latest(); n < before || n == 0 {
				t.Fatalf("round %d, closed %d times: the latest segment is %d, after %d", round, i, n, before)
			} else {
				before = n
			}
			db = mustOpen(t, "store", o)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// unremovable is a file system whose files stay.
type unremovable struct{ vfs.FS }

func (unremovable) Remove(string) error { return syscall.EIO }

// A file that was kept to be used again is not, if there is no segment to tell which numbers
// were used.
func TestJournalSpare(t *testing.T) {
	fs := killed(t, 3)
	segment, spare := fs.PathJoin("store", segmentName(onlySegment(t, fs))), fs.PathJoin("store", spareSegment)
	if err := fs.Rename(segment, spare); err != nil {
		t.Fatal(err)
	}
	if db, err := Open("store", Options{FS: unremovable{fs}}); !errors.Is(err, syscall.EIO) {
		t.Errorf("the file can't be removed: %v, %v", db, err)
	}
	db := mustOpen(t, "store", Options{FS: fs})
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("later"), nil) })
	image := mustOpen(t, "store", Options{FS: copyOf(fs)})
	if got := contents(t, image); !slices.Equal(got, []string{"later="}) {
		t.Errorf("there is %q, want what was written later alone", got)
	}
}
