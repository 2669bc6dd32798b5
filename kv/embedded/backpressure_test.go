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
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
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
// one waits. Each is of a transaction that has read a key; wait returns how often they were run.
func crowd(ctx context.Context, db *DB, read []byte) (wait func() (runs []int, errs []error)) {
	const size = backlogPart + backlogPart/2
	var commits sync.WaitGroup
	runs, errs := make([]int, longCommits), make([]error, longCommits)
	for i := range longCommits {
		commits.Go(func() {
			errs[i] = db.Transact(ctx, func(tx kv.Tx) error {
				runs[i]++
				tx.Set(longKey(i), bytes.Repeat([]byte{byte(i)}, size))
				_, err := tx.Get(read)
				return err
			})
		})
	}
	for len(db.long) == 0 || db.takesBatch(size) {
		runtime.Gosched()
	}
	return func() ([]int, []error) { commits.Wait(); return runs, errs }
}

func longKey(i int) []byte { return fmt.Append(nil, "long", i) }

// Others commit and read while long batches wait for tables to be written.
func TestRoom(t *testing.T) {
	tables := make(chan struct{})
	db := mustOpen(t, "store", Options{FS: slowTables{memFS(), tables}, Durability: Memory, MemTable: 1 << 20})
	wait := crowd(context.Background(), db, []byte("r"))
	for i := range 5000 { // the long ones have come to where they wait meanwhile
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), fmt.Append(nil, i)) })
		mustTransact(t, db, func(tx kv.Tx) {
			if value, err := tx.Get([]byte("k")); err != nil || string(value) != fmt.Sprint(i) {
				t.Errorf("%s, %v in place of %d", value, err, i)
			}
		})
	}
	close(tables)
	if _, errs := wait(); errors.Join(errs...) != nil {
		t.Error(errs)
	}
	if n := len(contents(t, db)); n != longCommits+1 {
		t.Errorf("%d pairs in place of %d", n, longCommits+1)
	}
}

// Who waits for room grows no older, and needs no more of the conflict log than what is newer than it. If what
// it has read is written meanwhile, it conflicts.
func TestRoomRenews(t *testing.T) {
	for _, written := range []string{"r", "another"} {
		for _, n := range []int{1, 3 * manyCommits} {
			t.Run(fmt.Sprint(written, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testRoomRenews(t, []byte(written), n) })
			})
		}
	}
}

func testRoomRenews(t *testing.T, written []byte, commits int) {
	tables := make(chan struct{})
	const age = time.Second
	db := mustOpen(t, "store", Options{FS: slowTables{memFS(), tables}, Durability: Memory, MemTable: 1 << 20, Age: age})
	wait := crowd(t.Context(), db, []byte("r"))
	synctest.Wait()
	<-time.After(2 * age) // of the bubble
	waiting := map[int]bool{}
	for i := range longCommits {
		mustTransact(t, db, func(tx kv.Tx) {
			value, err := tx.Get(longKey(i))
			testkit.Check(t, err)
			waiting[i] = value == nil
		})
	}
	for i := range commits {
		mustTransact(t, db, func(tx kv.Tx) { tx.Set(written, fmt.Append(nil, i)) })
	}
	<-time.After(2 * age) // of the bubble
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("k"), nil) })
	db.mu.Lock()
	if n := db.recent.Len(); n > 1 {
		t.Errorf("the conflict log has %d commits", n)
	}
	db.mu.Unlock()
	close(tables)
	runs, errs := wait()
	testkit.Check(t, errors.Join(errs...))
	for i, n := range runs {
		conflicts := waiting[i] && string(written) == "r"
		if conflicts != (n > 1) {
			t.Errorf("a transaction that conflicts: %v, was run %d times", conflicts, n)
		}
	}
}

// Who waits for room stops when its context ends, or the store is closed.
func TestRoomEnds(t *testing.T) {
	for _, byClose := range []bool{false, true} {
		tables := make(chan struct{})
		db := mustOpen(t, "store", Options{FS: slowTables{memFS(), tables}, Durability: Memory, MemTable: 1 << 20})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		wait := crowd(ctx, db, []byte("r"))
		want, closed := context.Canceled, make(chan error, 1)
		if byClose {
			want = kv.ErrClosed
			go func() { closed <- db.Close() }()
		} else {
			cancel()
		}
		ended := 0
		_, errs := wait()
		for _, err := range errs {
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
			testkit.Check(t, <-closed)
		}
	}
}

// While a flush waits for the log's sync, others read and commit, also who looks for room.
func TestFlushWaitsForTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{FS: memFS(), open: make(chan struct{})}
		db := mustOpen(t, "store", Options{FS: gate, Durability: Memory})
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("a"), nil) })
		gate.shut.Store(true)
		db.catchUp()
		flushed, err := db.pebble.AsyncFlush()
		testkit.NoError(t, err)
		synctest.Wait()
		db.takesBatch(backlogPart)
		mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("b"), nil) })
		if n := len(contents(t, db)); n != 2 {
			t.Errorf("%d pairs in place of 2", n)
		}
		select {
		case <-flushed:
			t.Error("a memtable is in tables, and the log is not on disk")
		default:
		}
		close(gate.open)
		<-flushed
	})
}

// Once a commit that waits has been renewed, nothing more can be read, or learned, of what it has seen:
// others have given that up.
func TestRenewedReadsNoMore(t *testing.T) {
	db := mustOpen(t, "store", Options{FS: memFS(), Durability: Memory})
	tx := newTx(t.Context(), db)
	if _, err := tx.Get([]byte("a")); err != nil {
		t.Fatal(err)
	}
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("b"), nil) })
	testkit.NoError(t, tx.renew(tx.reads))
	if _, err := tx.Get([]byte("b")); !errors.Is(err, kv.ErrTooOld) {
		t.Errorf("error %v of a read, want ErrTooOld", err)
	}
	if tx.covers() {
		t.Error("the conflict log is said to reach back to what was read")
	}
	tx.Set([]byte("c"), nil)
	mustTransact(t, db, func(tx kv.Tx) { tx.Set([]byte("d"), nil) })
	testkit.Check(t, tx.commit())
}
