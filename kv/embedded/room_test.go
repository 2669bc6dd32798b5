package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/kv"
)

// slowTables is a file system in which no table is begun until it is closed.
type slowTables struct {
	vfs.FS
	open <-chan struct{}
}

func (f slowTables) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(path.Base(name), ".sst") {
		<-f.open
	}
	return f.FS.Create(name, c)
}

func (f slowTables) Unwrap() vfs.FS { return f.FS }

const longCommits = 6

// crowd commits long batches, more than there is room for until tables are written, and returns when
// one waits.
func crowd(ctx context.Context, db *DB) (wait func() []error) {
	const size = backlogPart + backlogPart/2
	var commits sync.WaitGroup
	errs := make([]error, longCommits)
	for i := range longCommits {
		commits.Go(func() {
			errs[i] = db.Transact(ctx, func(tx kv.Tx) error {
				tx.Set(fmt.Append(nil, "long", i), bytes.Repeat([]byte{byte(i)}, size))
				return nil
			})
		})
	}
	for len(db.long) == 0 || db.hasRoom(size) {
		runtime.Gosched()
	}
	return func() []error { commits.Wait(); return errs }
}

// Others commit and read while long batches wait for tables to be written.
func TestRoom(t *testing.T) {
	tables := make(chan struct{})
	db := mustOpen(t, "store", Options{FS: slowTables{memFS(), tables}, Durability: Memory, MemTable: 1 << 20})
	wait := crowd(context.Background(), db)
	for i := range 5000 { // the long ones have come to where they wait meanwhile
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), fmt.Append(nil, i)) })
		mustTransact(t, db, func(tx kv.Tx) {
			if value, err := tx.Get([]byte("k")); err != nil || string(value) != fmt.Sprint(i) {
				t.Errorf("%s, %v in place of %d", value, err, i)
			}
		})
	}
	close(tables)
	if err := errors.Join(wait()...); err != nil {
		t.Error(err)
	}
	if n := len(contents(t, db)); n != longCommits+1 {
		t.Errorf("%d pairs in place of %d", n, longCommits+1)
	}
}

// Who waits for room stops when its context ends, or the store is closed.
func TestRoomEnds(t *testing.T) {
	for _, byClose := range []bool{false, true} {
		tables := make(chan struct{})
		db := mustOpen(t, "store", Options{FS: slowTables{memFS(), tables}, Durability: Memory, MemTable: 1 << 20})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		wait := crowd(ctx, db)
		want, closed := context.Canceled, make(chan error, 1)
		if byClose {
			want = kv.ErrClosed
			go func() { closed <- db.Close() }()
		} else {
			cancel()
		}
		ended := 0
		for _, err := range wait() {
			if errors.Is(err, want) {
				ended++
			} else if err != nil {
				t.Error(err)
			}
		}
		if ended == 0 {
			t.Errorf("closed %v: none has ended", byClose)
		}
		close(tables)
		if byClose {
			if err := <-closed; err != nil {
				t.Error(err)
			}
		}
	}
}
