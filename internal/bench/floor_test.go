package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/recipe"
	"github.com/conq-go/conq/subspace"
	"github.com/conq-go/conq/tuple"
)

// floor writes what a queue would through Pebble alone.
type floor struct {
	db    *pebble.DB
	sync  *pebble.WriteOptions
	stop  func()
	items subspace.Subspace
	index atomic.Int64 // of the last item
	keys  [][]byte     // of the items that were there at first, in order
	taken atomic.Int64
}

// openFloor opens a directory in which conq has made a store.
func openFloor(b testing.TB, dir string, d embedded.Durability) *floor {
	f := &floor{sync: pebble.Sync, stop: func() {}, items: subspace.Named(queueName)}
	fs := vfs.Default
	switch d {
	case embedded.Memory:
		f.sync = pebble.NoSync
	case embedded.Interval:
		lazy := &lazyFS{FS: fs, logs: make(map[*lazyFile]struct{})}
		fs, f.stop = lazy, lazy.start(10*time.Millisecond)
	}
	pairs := takeJournal(b, dir)
	var err error
	f.db, err = pebble.Open(dir, optionsOf(b, dir, fs))
	check(b, err)
	for _, pair := range pairs {
		check(b, f.db.Set(pair.Key, pair.Value, pebble.NoSync))
	}
	check(b, f.db.Flush())
	r := f.items.Range()
	it, err := f.db.NewIter(&pebble.IterOptions{LowerBound: r.Begin, UpperBound: r.End})
	check(b, err)
	for ok := it.First(); ok; ok = it.Next() {
		f.keys = append(f.keys, append([]byte{}, it.Key()...))
	}
	check(b, it.Close())
	f.index.Store(int64(len(f.keys)))
	return f
}

// takeJournal removes the journal, and returns all pairs of the store, as those that are
// in no table would be lost. It has the store be one of format 2, which does not know what is missing.
func takeJournal(b testing.TB, dir string) (pairs []kv.KeyValue) {
	db, err := embedded.Open(dir, embedded.Options{})
	check(b, err)
	check(b, db.ReadTransact(context.Background(), func(r kv.Reader) error {
		for pair, err := range r.Range(kv.Range{}, kv.RangeOptions{}) {
			if err != nil {
				return err
			}
			pairs = append(pairs, pair)
		}
		return nil
	}))
	check(b, db.Close())
	files, err := filepath.Glob(filepath.Join(dir, "*.journal"))
	check(b, err)
	for _, file := range files {
		check(b, os.Remove(file))
	}
	check(b, os.Remove(filepath.Join(dir, "NEEDED")))
	check(b, os.WriteFile(filepath.Join(dir, "CONQ"), []byte("conq embedded store, format 2\n"), 0o644))
	return pairs
}

// optionsOf returns the options with which the store was last open, but with Pebble's log,
// which conq has a journal in place of.
func optionsOf(b testing.TB, dir string, fs vfs.FS) *pebble.Options {
	text, err := os.ReadFile(optionsFile(b, dir))
	check(b, err)
	o := &pebble.Options{FS: fs, Logger: silent{}}
	check(b, o.Parse(string(text), nil))
	o.WALDir, o.DisableWAL = "", false
	return o
}

// optionsFile returns the newest of Pebble's OPTIONS files.
func optionsFile(b testing.TB, dir string) string {
	names, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	if err != nil || len(names) == 0 {
		b.Fatalf("%s has no OPTIONS file: %v", dir, err)
	}
	return names[len(names)-1]
}

func (f *floor) enqueue() error {
	i := f.index.Add(1)
	key := make([]byte, 0, len(f.items.Bytes())+64)
	key = tuple.AppendInt(append(key, f.items.Bytes()...), i)
	return f.db.Set(tuple.AppendBytes(key, random()), payload(i), f.sync)
}

func random() []byte {
	var b [(recipe.RandomSize + 7) / 8 * 8]byte
	for i := 0; i < len(b); i += 8 {
		for n, j := rand.Uint64(), i; j < i+8; j++ {
			b[j] = byte(n)
			n >>= 8
		}
	}
	return b[:recipe.RandomSize]
}

func (f *floor) dequeue() error {
	i := f.taken.Add(1) - 1
	if i >= int64(len(f.keys)) {
		return fmt.Errorf("there were only %d items", len(f.keys))
	}
	return f.db.Delete(f.keys[i], f.sync)
}

func (f *floor) counts() (calls, attempts int64) { return 0, 0 }

func (f *floor) close() error {
	f.stop()
	return f.db.Close()
}

// lazyFS is what durability interval is: a sync of the log does nothing, the data
// is with the operating system already, and a goroutine makes up for it.
type lazyFS struct {
	vfs.FS
	mu   sync.Mutex
	logs map[*lazyFile]struct{} // with a sync to be made
}

type lazyFile struct {
	vfs.File
	fs *lazyFS
}

func (l *lazyFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || filepath.Ext(name) != ".log" {
		return f, err
	}
	return &lazyFile{f, l}, nil
}

func (l *lazyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, c)
	return l.wrap(name, f, err)
}

func (l *lazyFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(old, name, c)
	return l.wrap(name, f, err)
}

func (f *lazyFile) Sync() error     { return f.SyncData() }
func (f *lazyFile) SyncData() error { f.fs.put(f); return nil }

func (f *lazyFile) SyncTo(int64) (bool, error) { return false, nil }

func (f *lazyFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	delete(f.fs.logs, f)
	return f.File.Close()
}

func (l *lazyFS) put(f *lazyFile) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logs[f] = struct{}{}
}

// start makes the syncs at each interval until stop is called.
func (l *lazyFS) start(interval time.Duration) (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				l.syncAll()
			}
		}
	})
	return func() { close(done); running.Wait() }
}

func (l *lazyFS) syncAll() {
	l.mu.Lock()
	files := make([]*lazyFile, 0, 1)
	for f := range l.logs {
		files = append(files, f)
	}
	clear(l.logs)
	l.mu.Unlock()
	for _, f := range files {
		_ = f.File.SyncData() // closed meanwhile, perhaps
	}
}

type silent struct{}

func (silent) Infof(string, ...any)             {}
func (silent) Errorf(string, ...any)            {}
func (silent) Fatalf(format string, arg ...any) { panic(fmt.Sprintf(format, arg...)) }
