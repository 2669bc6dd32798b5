//go:build unix

package work

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/queue"
)

var (
	depth      = flag.Int("depth", 100_000, "how many jobs are there besides in benchmarks")
	durability = embedded.Always
)

func init() {
	flag.Func("durability", "of the store in benchmarks beside many jobs: always, interval or memory", func(name string) (err error) {
		durability, err = embedded.ParseDurability(name)
		return err
	})
}

// randomPayload is one that does not compress.
func randomPayload() []byte {
	p := make([]byte, 128)
	for i := 0; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], rand.Uint64())
	}
	return p
}

// deepen puts jobs, many at a time.
func deepen(t testing.TB, q *Queue[[]byte], n int, job func(i int) Job) {
	t.Helper()
	for i := 0; i < n; {
		var all []New[[]byte]
		for range min(1000, n-i) {
			all = append(all, New[[]byte]{randomPayload(), job(i)})
			i++
		}
		_, _, err := q.PutAll(context.Background(), all)
		noError(t, err)
	}
}

// TestBlockedCostNothing: many blocked jobs of a key do not make it dearer to reserve others, and come out in order,
// one at a time.
func TestBlockedCostNothing(t *testing.T) {
	ctx := context.Background()
	db, err := embedded.Open(ctx, t.TempDir(), embedded.Options{Durability: embedded.Memory})
	noError(t, err)
	defer db.Close()
	var touched atomic.Int64 // keys that were read or written
	q, err := Open(ctx, &testkit.Hooked{DB: db, Attempt: func(tx kv.Tx) kv.Tx {
		return testkit.FaultyTx{Tx: tx, Hit: func() error { touched.Add(1); return nil }}
	}}, "q", queue.Bytes())
	noError(t, err)
	defer q.Close()
	cost := func() int64 {
		for i := range 10 {
			_, err := q.Put(ctx, nil, Job{Key: fmt.Sprint("free ", i), Priority: -1})
			noError(t, err)
		}
		before := touched.Load()
		for range 10 {
			leases, err := ready(q)(ctx, 1)
			noError(t, err)
			noError(t, leases[0].Ack(ctx))
		}
		return touched.Load() - before
	}
	without := cost()
	const blocked = 20_000
	deepen(t, q, blocked, func(int) Job { return Job{Key: "busy"} })
	if with := cost(); 10*with > 13*without {
		t.Errorf("%d keys touched beside %d blocked jobs, %d without", with, blocked, without)
	}
	last := ID(0)
	for range 100 {
		leases, err := ready(q)(ctx, 2)
		noError(t, err)
		if len(leases) != 1 || leases[0].ID <= last {
			t.Fatalf("%d leases, the first of job %d after %d", len(leases), leases[0].ID, last)
		}
		last = leases[0].ID
		noError(t, leases[0].Ack(ctx))
	}
	s, err := q.Stats(ctx)
	noError(t, err)
	if s.Ready != 1 || s.Blocked != blocked-101 {
		t.Errorf("jobs: %+v", s)
	}
}

// BenchmarkBeside puts, reserves and acknowledges jobs, by 16 workers, beside -depth others in each state.
func BenchmarkBeside(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
		job  func(i int) Job // of those that are there
		own  func(i int64) Job
	}{
		{"10 ready", 10, func(int) Job { return Job{} }, func(int64) Job { return Job{} }},
		{"ready", *depth, func(int) Job { return Job{} }, func(int64) Job { return Job{} }},
		{"scheduled", *depth, func(int) Job { return Job{Delay: time.Minute + rand.N(time.Hour)} }, func(int64) Job { return Job{} }},
		{"10 keys", 0, nil, func(i int64) Job { return Job{Key: fmt.Sprint(i % 10)} }},
		{"blocked", *depth, func(int) Job { return Job{Key: "busy"} }, func(i int64) Job { return Job{Key: fmt.Sprint(i % 10), Priority: -1} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			q, _ := openDeep(b, durability)
			heap := heapBytes()
			deepen(b, q, c.n, c.job)
			grown := heapBytes() - heap
			settle(b, c.n)
			b.ResetTimer()
			through(b, q, c.own)
			b.ReportMetric(float64(grown)/1e6, "MB-heap")
		})
	}
}

// BenchmarkDone does -depth jobs, then puts, reserves and acknowledges others, and tells how much of the disk is left in use.
func BenchmarkDone(b *testing.B) {
	q, dir := openDeep(b, durability)
	ctx := context.Background()
	deepen(b, q, *depth, func(int) Job { return Job{} })
	peak := diskBytes(b, dir)
	began := time.Now()
	for left := *depth; left > 0; {
		leases, err := q.ReserveWaitN(ctx, 1000)
		noError(b, err)
		var group sync.WaitGroup
		for _, l := range leases {
			group.Go(func() { noError(b, l.Ack(ctx)) })
		}
		group.Wait()
		left -= len(leases)
	}
	done := time.Since(began)
	settle(b, *depth)
	b.ResetTimer()
	through(b, q, func(int64) Job { return Job{} })
	b.StopTimer()
	settle(b, *depth)
	b.ReportMetric(float64(*depth)/done.Seconds(), "done-before/s")
	b.ReportMetric(float64(peak)/1e6, "MB-peak")
	b.ReportMetric(100*float64(diskBytes(b, dir))/float64(peak), "%-left")
}

// BenchmarkComeDue tells how late jobs come, of -depth that are scheduled within an hour, to a worker that waits.
func BenchmarkComeDue(b *testing.B) {
	q, _ := openDeep(b, durability)
	ctx := context.Background()
	deepen(b, q, *depth, func(int) Job { return Job{Delay: time.Hour + rand.N(time.Hour)} })
	var worst, total time.Duration
	b.ResetTimer()
	for range b.N {
		at := time.Now().Add(20*time.Millisecond + rand.N(200*time.Millisecond))
		_, err := q.Put(ctx, nil, Job{At: at})
		noError(b, err)
		l, err := q.ReserveWait(ctx)
		noError(b, err)
		late := time.Since(at)
		worst, total = max(worst, late), total+late
		noError(b, l.Ack(ctx))
	}
	b.ReportMetric(total.Seconds()*1000/float64(b.N), "ms-late")
	b.ReportMetric(worst.Seconds()*1000, "ms-late-at-worst")
}

func openDeep(b *testing.B, d embedded.Durability) (q *Queue[[]byte], dir string) {
	dir = b.TempDir()
	db, err := embedded.Open(b.Context(), dir, embedded.Options{Durability: d})
	noError(b, err)
	b.Cleanup(func() { noError(b, db.Close()) })
	q, err = Open(b.Context(), db, "q", queue.Bytes(), Options{Settings: &Settings{Lease: time.Hour}})
	noError(b, err)
	b.Cleanup(func() { noError(b, q.Close()) })
	return q, dir
}

// through puts b.N jobs, and reserves and acknowledges as many, by 16 workers.
func through(b *testing.B, q *Queue[[]byte], job func(i int64) Job) {
	ctx := context.Background()
	each := func(do func(i int64) error) time.Duration {
		began := time.Now()
		var group sync.WaitGroup
		var n atomic.Int64
		for range 16 {
			group.Go(func() {
				for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
					if err := do(i); err != nil {
						b.Error(err)
					}
				}
			})
		}
		group.Wait()
		return time.Since(began)
	}
	before := cpuTime(b)
	put := each(func(i int64) error {
		_, err := q.Put(ctx, randomPayload(), job(i))
		return err
	})
	done := each(func(int64) error {
		l, err := q.ReserveWait(ctx)
		if err != nil {
			return err
		}
		return l.Ack(ctx)
	})
	b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op") // says more on a busy machine
	b.ReportMetric(float64(b.N)/put.Seconds(), "put/s")
	b.ReportMetric(float64(b.N)/done.Seconds(), "done/s")
}

// settle lets the store do what it does behind a large change, as tables are compacted, and space is given back: until
// the process does next to nothing, also on a busy machine. Two minutes at most.
func settle(b *testing.B, n int) {
	quiet := 0
	for began := time.Now(); n > 1000 && quiet < 5 && time.Since(began) < 2*time.Minute; {
		before := cpuTime(b)
		time.Sleep(time.Second)
		if quiet++; cpuTime(b)-before > 20*time.Millisecond {
			quiet = 0
		}
	}
}

// cpuTime is what the process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	noError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func diskBytes(b *testing.B, dir string) (n int64) {
	noError(b, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if info, err := e.Info(); err == nil { // it may be gone
			n += info.Size()
		}
		return nil
	}))
	return n
}
