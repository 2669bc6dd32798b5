package embedded

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// TestCrash takes crash images of a store at random moments while writers are
// at work, as a power failure (or, with everything written kept, the death of
// the process) would leave it, and opens each: what had been acknowledged
// before is there, whole, and what had not is there whole or not at all.
//
// Each writer's n-th transaction writes several keys with value n, some large
// enough to fill the small memtables many times over, so that logs rotate
// between a commit's application and its sync. Images are opened with small memtables and with
// the usual ones by turns: builds before this had ones of other sizes.
//
// Of the writers one has all its transactions synced. Others don't have some (kv.NoSync): these a power failure may
// undo, up to one that is synced.
func TestCrash(t *testing.T) {
	for _, c := range []struct {
		durability Durability
		unsynced   int // percent of unsynced data that survives
	}{
		{Always, 0}, {Always, 50}, {Always, 100},
		{Interval, 100}, // the death of a process loses nothing that was written
	} {
		t.Run(fmt.Sprintf("%v/%d%%", c.durability, c.unsynced), func(t *testing.T) {
			memTables := []int{smallMemTable, 16 * smallMemTable, smallMemTable, smallMemTable}
			if testing.Short() {
				memTables = memTables[:1]
			}
			for seed, memTable := range memTables {
				crash(t, uint64(seed), Options{Durability: c.durability, MemTable: memTable}, c.unsynced)
			}
		})
	}
}

const (
	smallMemTable = 64 << 10

	crashWriters = 4
	crashKeys    = 5
	crashRounds  = 60
	crashImages  = 20 // at most, a run
)

func crash(t *testing.T, seed uint64, o Options, unsynced int) {
	fs := memFS()
	o.FS = fs
	db := mustOpen(t, "store", o)
	var acknowledged [crashWriters]atomic.Int64
	var attempted [crashWriters]atomic.Int64
	var writers sync.WaitGroup
	for w := range crashWriters {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(w)))
			for n := int64(1); n <= crashRounds; n++ {
				attempted[w].Store(n)
				noSync := w > 0 && rng.IntN(3) > 0
				size := rng.IntN(2) * rng.IntN(8<<10)
				err := db.Transact(context.Background(), func(tx kv.Tx) error {
					if noSync {
						kv.NoSync(tx)
					}
					return writeRoundIn(tx, w, n, size)
				})
				if err != nil {
					t.Error(err)
					return
				}
				if !noSync || unsynced == 100 {
					acknowledged[w].Store(n)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	defer writers.Wait()

	rng := rand.New(rand.NewPCG(seed, 99))
	for images := 0; images < crashImages; images++ {
		select {
		case <-done:
			images = crashImages // one more, of the end
		default:
		}
		var least, most [crashWriters]int64
		for w := range least {
			least[w] = acknowledged[w].Load()
		}
		image := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: rng})
		for w := range most {
			most[w] = attempted[w].Load()
		}
		checkImageWith(t, image, []int{smallMemTable, usualMemTable}[images%2], least, most)
	}
}

func writeRound(db kv.DB, writer int, n int64, size int) error {
	return db.Transact(context.Background(), func(tx kv.Tx) error { return writeRoundIn(tx, writer, n, size) })
}

func writeRoundIn(tx kv.Tx, writer int, n int64, size int) error {
	for k := range crashKeys {
		tx.Set(fmt.Appendf(nil, "%d/%d", writer, k), fmt.Appendf(nil, "%d %0*d", n, size, 0))
	}
	tx.ClearRange(kv.PrefixRange(fmt.Appendf(nil, "%d/old", writer)))
	tx.Set(fmt.Appendf(nil, "%d/old/%d", writer, n), nil)
	return nil
}

// checkImage opens a crash image: for each writer, one transaction between
// least and most is there, and it is there whole.
func checkImage(t *testing.T, image *vfs.MemFS, least, most [crashWriters]int64) {
	t.Helper()
	checkImageWith(t, image, usualMemTable, least, most)
}

func checkImageWith(t *testing.T, image *vfs.MemFS, memTable int, least, most [crashWriters]int64) {
	t.Helper()
	db, err := Open(t.Context(), "store", Options{FS: image, Durability: Memory, MemTable: memTable})
	if err != nil {
		t.Fatal("opening a crash image:", err)
	}
	defer db.Close()
	err = db.ReadTransact(context.Background(), func(r kv.Reader) error {
		for w := range crashWriters {
			if err := checkWriter(r, w, least[w], most[w]); err != nil {
				return err
			}
		}
		return nil
	})
	testkit.NoError(t, err)
}

func checkWriter(r kv.Reader, w int, least, most int64) error {
	var found int64 = -1
	for k := range crashKeys {
		value, err := r.Get(fmt.Appendf(nil, "%d/%d", w, k))
		if err != nil {
			return err
		}
		var n int64
		if value != nil {
			if _, err := fmt.Sscanf(string(value), "%d", &n); err != nil {
				return err
			}
		}
		if found >= 0 && n != found {
			return fmt.Errorf("writer %d: key %d is of transaction %d, the one before it of %d: torn", w, k, n, found)
		}
		found = n
	}
	if found < least || found > most {
		return fmt.Errorf("writer %d: transaction %d is there; %d was acknowledged and %d attempted", w, found, least, most)
	}
	olds := 0
	for pair, err := range r.Range(kv.PrefixRange(fmt.Appendf(nil, "%d/old", w)), kv.RangeOptions{}) {
		if err != nil {
			return err
		}
		if olds++; string(pair.Key) != fmt.Sprintf("%d/old/%d", w, found) {
			return fmt.Errorf("writer %d: %s survived transaction %d", w, pair.Key, found)
		}
	}
	if olds != 1 && found > 0 {
		return fmt.Errorf("writer %d: transaction %d is torn: its last key is missing", w, found)
	}
	return nil
}

// TestReadersWaitForTheLog holds the log's sync up, and checks that neither the
// transaction that wrote nor one that has only read the write is acknowledged
// before it is on disk.
func TestReadersWaitForTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{FS: memFS(), open: make(chan struct{})}
		db, err := Open(t.Context(), "store", Options{FS: gate})
		testkit.NoError(t, err)
		gate.shut.Store(true)
		var wrote, saw, read, snapshot atomic.Bool
		transact := func(f func(kv.Tx) error, done *atomic.Bool) {
			testkit.Check(t, db.Transact(context.Background(), f))
			done.Store(true)
		}
		look := func(r kv.Reader) error {
			value, err := r.Get([]byte("a"))
			saw.Store(value != nil)
			return err
		}
		go transact(func(tx kv.Tx) error { tx.Set([]byte("a"), nil); return nil }, &wrote)
		synctest.Wait()
		go transact(func(tx kv.Tx) error { return look(tx) }, &read)
		go func() {
			testkit.Check(t, db.ReadTransact(context.Background(), look))
			snapshot.Store(true)
		}()
		synctest.Wait()
		if !saw.Load() {
			t.Error("a write that is applied and not yet on disk was not visible")
		}
		if wrote.Load() || read.Load() || snapshot.Load() {
			t.Errorf("acknowledged before the log was on disk: write %v, read %v, snapshot %v",
				wrote.Load(), read.Load(), snapshot.Load())
		}
		close(gate.open)
		synctest.Wait()
		if !wrote.Load() || !read.Load() || !snapshot.Load() {
			t.Errorf("not acknowledged after the log was on disk: write %v, read %v, snapshot %v",
				wrote.Load(), read.Load(), snapshot.Load())
		}
		testkit.Check(t, db.Close())
	})
}

// syncGate is a file system whose logs wait in Sync once it is shut. It counts their syncs.
type syncGate struct {
	vfs.FS
	syncs atomic.Int64
	shut  atomic.Bool
	open  chan struct{}
}

func (g *syncGate) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := g.FS.Create(name, c)
	if err == nil && isSegment(name) {
		f = gatedFile{f, g}
	}
	return f, err
}

type gatedFile struct {
	vfs.File
	g *syncGate
}

func (f gatedFile) SyncData() error {
	f.g.syncs.Add(1)
	if f.g.shut.Load() {
		<-f.g.open
	}
	return f.File.SyncData()
}

func (f gatedFile) Sync() error { return f.SyncData() }
