package embedded

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded/internal/wal"
)

// killedStore returns the files of a store that was killed after so many commits.
func killedStore(t *testing.T, o Options, commits, size int) *vfs.MemFS {
	t.Helper()
	fs := memFS()
	o.FS = fs
	db := mustOpen(t, "store", o)
	for i := range commits {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(fmt.Appendf(nil, "%05d", i), []byte(strings.Repeat("v", size))) })
	}
	if o.Durability == Memory { // the log may be at what it has been given: of a segment that isn't named yet, nothing was promised
		testkit.NoError(t, db.wal.Sync())
	}
	image := copyOf(fs)
	testkit.NoError(t, db.Close())
	return image
}

// Whatever happens to one file of a store that was killed: all is there that would be, or an error names the file.
func TestKilledStoreFiles(t *testing.T) {
	for _, durability := range []Durability{Always, Interval, Memory} {
		for what, o := range map[string]Options{
			"one segment":         {Durability: durability},
			"segments and tables": {Durability: durability, MemTable: smallMemTable},
		} {
			t.Run(fmt.Sprintf("%v/%s", durability, what), func(t *testing.T) {
				fs, other := killedStore(t, o, 600, 500), killedStore(t, o, 600, 900)
				want := contents(t, mustOpen(t, "store", Options{FS: copyOf(fs)}))
				if len(want) < 300 {
					t.Fatalf("%d of 600 commits were written", len(want))
				}
				names, err := fs.List("store")
				testkit.NoError(t, err)
				for _, name := range names {
					spoilFile(t, fs, other, name, want)
				}
			})
		}
	}
}

func spoilFile(t *testing.T, fs, other *vfs.MemFS, name string, want []string) {
	t.Helper()
	size := len(bytesOf(t, fs, fs.PathJoin("store", name)))
	cuts := []int{0, size / 2, max(0, size-4096), max(0, size-1)}
	if isSegment(name) {
		for i := range 12 {
			cuts = append(cuts, size*i/12+i)
		}
	}
	called := name
	if strings.HasPrefix(name, "marker.") { // a number of its own is of no account
		called = strings.Join(strings.Split(name, ".")[:2], ".")
	}
	check := func(how string, spoil func(fs *vfs.MemFS)) {
		t.Helper()
		spoilt := copyOf(fs)
		spoil(spoilt)
		got, err := contentsOf(spoilt)
		switch {
		case err == nil && !slices.Equal(got, want):
			t.Errorf("%s %s: opened with %d of %d pairs", name, how, len(got), len(want))
		case err != nil && !strings.Contains(err.Error(), called):
			t.Errorf("%s %s: error %q does not name it", name, how, err)
		}
	}
	check("removed", func(fs *vfs.MemFS) { testkit.NoError(t, fs.Remove(fs.PathJoin("store", name))) })
	for _, n := range cuts {
		if n < size {
			check(fmt.Sprintf("cut to %d of %d bytes", n, size), func(fs *vfs.MemFS) {
				rewrite(t, fs, name, func(data []byte) []byte { return data[:n] })
			})
		}
	}
	check("of zeros", func(fs *vfs.MemFS) { rewrite(t, fs, name, func(data []byte) []byte { clear(data); return data }) })
	if name == wal.File {
		called = ".journal" // of which it names another
	}
	if from := likeOf(t, other, name); from != "" {
		data := bytesOf(t, other, other.PathJoin("store", from))
		check("of another store", func(fs *vfs.MemFS) { writeBytes(t, fs, fs.PathJoin("store", name), data) })
	}
}

// likeOf returns the name of the last file of another store that is of the same kind.
func likeOf(t *testing.T, fs *vfs.MemFS, name string) (like string) {
	t.Helper()
	names, err := fs.List("store")
	testkit.NoError(t, err)
	kind := func(name string) string { return strings.Trim(name, "0123456789") }
	for _, one := range names {
		if kind(one) == kind(name) {
			like = one
		}
	}
	return like
}

// contentsOf opens a store and returns all pairs, or the error of either.
func contentsOf(fs vfs.FS) (all []string, err error) {
	db, err := Open(context.Background(), "store", Options{FS: fs})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	err = db.ReadTransact(context.Background(), func(r kv.Reader) error {
		for pair, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			all = append(all, fmt.Sprintf("%s=%s", pair.Key, pair.Value))
		}
		return nil
	})
	return all, err
}
