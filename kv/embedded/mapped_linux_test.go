package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv"
)

// countMaps counts how often a file is mapped until the test ends, or has it fail each time.
func countMaps(t *testing.T, fail error) *int {
	n, before := 0, mapFile
	mapFile = func(fd uintptr, offset int64, length int) ([]byte, error) {
		n++
		if fail != nil {
			return nil, fail
		}
		return before(fd, offset, length)
	}
	t.Cleanup(func() { mapFile = before })
	return &n
}

func createMapped(t *testing.T) *mappedFile {
	f, err := mapping{vfs.Default}.Create(filepath.Join(t.TempDir(), segmentName(1)), vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	return f.(*mappedFile)
}

// A file that is mapped has what was written, as others see it at once, while it is synced.
func TestMappedFile(t *testing.T) {
	for _, fail := range []error{nil, syscall.ENODEV} {
		maps := countMaps(t, fail)
		f := createMapped(t)
		name := filepath.Join(t.TempDir(), "moved")
		if err := os.Rename(f.File.(interface{ Name() string }).Name(), name); err != nil {
			t.Fatal(err)
		}
		var syncs sync.WaitGroup
		random := rand.New(rand.NewPCG(1, 2))
		var want []byte
		for range 400 {
			p := make([]byte, 1+random.IntN(3_000))
			switch random.IntN(40) {
			case 0:
				p = make([]byte, 2*windowSize+random.IntN(windowSize))
			case 1:
				p = make([]byte, mostMapped+random.IntN(2)) // the most that is mapped, or more
			case 2, 3:
				syncs.Go(func() {
					if err := f.SyncData(); err != nil {
						t.Error(err)
					}
				})
			}
			for i := range p {
				p[i] = byte(random.Uint32())
			}
			offset := len(want)
			if random.IntN(10) == 0 {
				offset = random.IntN(len(want) + 1)
			}
			if n, err := f.WriteAt(p, int64(offset)); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			want = append(want[:min(len(want), offset)], append(p, want[min(len(want), offset+len(p)):]...)...)
		}
		got, err := os.ReadFile(name)
		if err != nil || len(got) < len(want) || !bytes.Equal(got[:len(want)], want) || len(bytes.Trim(got[len(want):], "\x00")) > 0 {
			t.Errorf("%d bytes, %v, are not the %d that were written and zeros", len(got), err, len(want))
		}
		if fail == nil && *maps < len(want)/windowSize/2 || fail != nil && *maps != 1 {
			t.Errorf("%d bytes were mapped %d times", len(want), *maps)
		}
		syncs.Wait()
		if err := f.Close(); err != nil || f.window != nil {
			t.Error(err, "or still mapped")
		}
	}
}

// fullDisk is a file that has room for so much.
type fullDisk struct {
	vfs.File
	room int64
}

func (f fullDisk) WriteAt(p []byte, offset int64) (int, error) {
	if offset+int64(len(p)) <= f.room {
		return f.File.WriteAt(p, offset)
	}
	n, _ := f.File.WriteAt(p[:max(0, f.room-offset)], offset)
	return n, syscall.ENOSPC
}

// What there is room for is written, though not for the zeros behind it.
func TestMappedFullDisk(t *testing.T) {
	f := createMapped(t)
	const room = 3*growthPiece + 1000
	f.File = fullDisk{f.File, room}
	item := bytes.Repeat([]byte("x"), 100)
	written := 0
	for {
		n, err := f.WriteAt(item, int64(written))
		written += n
		if err != nil {
			if !errors.Is(err, syscall.ENOSPC) || written != room {
				t.Errorf("%v after %d bytes, want no space after %d", err, written, room)
			}
			return
		}
	}
}

// What was committed has reached the operating system: whoever looks at the files has it.
func TestMappedCommits(t *testing.T) {
	maps := countMaps(t, nil)
	dir := t.TempDir()
	db := mustOpen(t, dir, Options{Durability: Interval})
	key := func(i int) []byte { return fmt.Appendf(nil, "%05d", i) }
	var values [][]byte
	for i := range 3_000 {
		size := i % 2_000
		if i%1_000 == 500 {
			size = 2 << 20
		}
		values = append(values, bytes.Repeat([]byte{byte(i)}, size))
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(key(i), values[i]) })
	}
	if *maps < 6 { // of 9 MB that were written, 3 are small
		t.Errorf("mapped %d times", *maps)
	}
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	again := mustOpen(t, copied, Options{Durability: Interval})
	mustTransact(t, again, func(tx kv.Tx) {
		for i, want := range values {
			if value, err := tx.Get(key(i)); err != nil || !bytes.Equal(value, want) {
				t.Fatalf("item %d of %d bytes has %d, %v", i, len(want), len(value), err)
			}
		}
	})
}

// A file that is cut while it is mapped is an error, as one that can't be written to is.
func TestMappedFault(t *testing.T) {
	dir := t.TempDir()
	db := mustOpen(t, dir, Options{Durability: Interval, Interval: 1 << 40})
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("a"), nil) })
	segments, err := filepath.Glob(filepath.Join(dir, "*"+segmentSuffix))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	if err := os.Truncate(segments[0], 0); err != nil {
		t.Fatal(err)
	}
	err = db.Transact(t.Context(), func(tx kv.Tx) error { tx.Set([]byte("b"), nil); return nil })
	if !errors.Is(err, kv.ErrCommitUnknown) || !errors.Is(err, errFault) {
		t.Errorf("a commit to a file that was cut: %v", err)
	}
	if err := db.Close(); !errors.Is(err, errFault) {
		t.Errorf("Close: %v", err)
	}
}

// What can't be written to memory is written to the file, which succeeds, or tells what is wrong.
func TestMappedFaultWritten(t *testing.T) {
	m := createMapped(t)
	defer m.Close()
	if _, err := m.WriteAt([]byte("abc"), 0); err != nil || m.window == nil {
		t.Fatal(err, m.window)
	}
	if err := syscall.Mprotect(m.window, syscall.PROT_READ); err != nil {
		t.Fatal(err)
	}
	if n, err := m.WriteAt([]byte("def"), 3); n != 3 || err != nil {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got, err := os.ReadFile(m.File.(interface{ Name() string }).Name()); !bytes.HasPrefix(got, []byte("abcdef")) || err != nil {
		t.Errorf("the file begins with %q, %v", got[:min(len(got), 6)], err)
	}
}

// unsyncable is a file that can't be synced.
type unsyncable struct{ vfs.File }

func (unsyncable) SyncData() error { return syscall.EIO }

// A sync that fails says so: what was written since the last one may not be on disk.
func TestMappedSyncFails(t *testing.T) {
	m := createMapped(t)
	defer m.Close()
	m.File = unsyncable{m.File}
	if _, err := m.WriteAt([]byte("abc"), 0); err != nil {
		t.Fatal(err)
	}
	if err := m.SyncData(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a sync that failed: %v", err)
	}
}
