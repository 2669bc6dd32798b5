package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv/embedded"
)

// openPebble opens Pebble alone in a directory, with the options that conq gives
// it, and returns it with what closes it.
func openPebble(dir string, d embedded.Durability) (*pebble.DB, func() error, error) {
	db, err := embedded.Open(context.Background(), dir, embedded.Options{})
	if err != nil {
		return nil, nil, err
	}
	if err := db.Close(); err != nil {
		return nil, nil, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "OPTIONS-*"))
	if err != nil || len(files) == 0 {
		return nil, nil, errors.Join(err, fmt.Errorf("%s has no OPTIONS file", dir))
	}
	text, err := os.ReadFile(slices.Max(files))
	if err != nil {
		return nil, nil, err
	}
	fs, stop := vfs.Default, func() {}
	if d == embedded.Interval {
		lazy := &lazyFS{FS: fs, late: map[*lazyLog]bool{}}
		fs, stop = lazy, lazy.start(10*time.Millisecond)
	}
	options := &pebble.Options{FS: fs, Logger: quiet{}}
	if err := options.Parse(string(text), nil); err != nil {
		stop()
		return nil, nil, err
	}
	options.WALDir, options.DisableWAL = "", false // conq has a journal of its own
	p, err := pebble.Open(dir, options)
	if err != nil {
		stop()
		return nil, nil, err
	}
	return p, func() error { stop(); return p.Close() }, nil
}

// recycle writes until Pebble has begun a log over one of full length that it did not need any
// more, as it does in the long run. A sync of a file that does not grow takes less: conq's journal
// is such a one from the first item on.
func recycle(p *pebble.DB, dir string) error {
	key, value := []byte("recycled"), make([]byte, 1<<20)
	for range mostLogs {
		for range fullLog / len(value) {
			if err := p.Set(key, value, pebble.NoSync); err != nil {
				return err
			}
		}
		if err := errors.Join(p.Delete(key, pebble.NoSync), p.Flush()); err != nil { // begins another log
			return err
		}
		logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil || len(logs) == 0 {
			return errors.Join(err, fmt.Errorf("%s has no log", dir))
		}
		info, err := os.Stat(slices.Max(logs))
		if err != nil || info.Size() >= fullLog {
			return err
		}
	}
	return fmt.Errorf("Pebble has begun %d logs, and none of them over one of %d bytes", mostLogs, fullLog)
}

// Pebble's first logs are short, and the ones that it uses again.
const fullLog, mostLogs = 12 << 20, 50

// writeOptions are those of a durability. With interval, a sync of the log only
// gives it to the operating system.
func writeOptions(d embedded.Durability) *pebble.WriteOptions {
	if d == embedded.Memory {
		return pebble.NoSync
	}
	return pebble.Sync
}

// lazyFS makes up for the syncs of logs at each interval.
type lazyFS struct {
	vfs.FS
	mu   sync.Mutex
	late map[*lazyLog]bool // with a sync to be made
}

type lazyLog struct {
	vfs.File
	fs *lazyFS
}

func (l *lazyFS) wrap(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || filepath.Ext(name) != ".log" {
		return f, err
	}
	return &lazyLog{f, l}, nil
}

// Create implements vfs.FS.
func (l *lazyFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.Create(name, c)
	return l.wrap(name, f, err)
}

// ReuseForWrite implements vfs.FS.
func (l *lazyFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := l.FS.ReuseForWrite(old, name, c)
	return l.wrap(name, f, err)
}

// Sync implements vfs.File.
func (f *lazyLog) Sync() error { return f.SyncData() }

// SyncData implements vfs.File.
func (f *lazyLog) SyncData() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.fs.late[f] = true
	return nil
}

// SyncTo implements vfs.File.
func (f *lazyLog) SyncTo(int64) (bool, error) { return false, nil }

// Close implements vfs.File.
func (f *lazyLog) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	delete(f.fs.late, f)
	return f.File.Close()
}

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
				l.sync()
			}
		}
	})
	return func() { close(done); running.Wait() }
}

func (l *lazyFS) sync() {
	l.mu.Lock()
	var files []*lazyLog
	for f := range l.late {
		files = append(files, f)
	}
	clear(l.late)
	l.mu.Unlock()
	for _, f := range files {
		_ = f.File.SyncData() // closed meanwhile, perhaps
	}
}

// quiet does not log.
type quiet struct{}

// Infof implements pebble.Logger.
func (quiet) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (quiet) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger.
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
