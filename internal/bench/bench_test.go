package bench

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/kv/embedded"
)

// target is what is measured: the floor, a transaction for each item, or the verbs
// of a handle, which combine calls that come at the same time.
type target interface {
	enqueue() error
	dequeue() error
	counts() (calls, attempts int64) // of Transact and of the functions given to it
	close() error
}

var targets = []struct {
	name string
	open func(b testing.TB, dir string, d embedded.Durability) target
}{
	{"floor", func(b testing.TB, dir string, d embedded.Durability) target { return openFloor(b, dir, d) }},
	{"tx", func(b testing.TB, dir string, d embedded.Durability) target { return inTx{openQueue(b, dir, d)} }},
	{"handle", func(b testing.TB, dir string, d embedded.Durability) target { return openQueue(b, dir, d) }},
}

// BenchmarkEnqueue measures calls that enqueue one item each.
func BenchmarkEnqueue(b *testing.B) {
	compare(b, func(int) int { return 0 }, target.enqueue)
}

// BenchmarkDequeue measures calls that dequeue one item each, all from one queue.
func BenchmarkDequeue(b *testing.B) {
	compare(b, func(n int) int { return n }, target.dequeue)
}

// compare measures an operation on all targets, on a store that has been made with
// as many items as are needed.
func compare(b *testing.B, items func(n int) int, op func(target) error) {
	for _, d := range []embedded.Durability{embedded.Always, embedded.Interval, embedded.Memory} {
		for _, goroutines := range []int{1, 16, 64} {
			for _, t := range targets {
				b.Run(fmt.Sprintf("durability=%v/goroutines=%d/system=%s", d, goroutines, t.name), func(b *testing.B) {
					t := t.open(b, newStore(b, items(b.N)), d)
					measure(b, goroutines, func() error { return op(t) })
					calls, attempts := t.counts()
					b.ReportMetric(float64(calls)/float64(b.N), "txs/op")
					b.ReportMetric(float64(attempts-calls)/float64(b.N), "retries/op")
					check(b, t.close())
				})
			}
		}
	}
}

// measure runs an operation b.N times in so many goroutines and reports, besides
// the time that each took out of the total, how long a caller waited for it, and
// how much processor time the process used: that depends least on what else the
// machine does.
func measure(b *testing.B, goroutines int, op func() error) {
	waits := make([][]time.Duration, goroutines)
	for i := range waits {
		waits[i] = make([]time.Duration, 0, 2*b.N/goroutines+1)
	}
	var begun atomic.Int64
	var running sync.WaitGroup
	b.ReportAllocs()
	cpu := cpuTime()
	b.ResetTimer()
	for i := range waits {
		running.Go(func() {
			for before := time.Now(); begun.Add(1) <= int64(b.N); {
				if err := op(); err != nil {
					b.Error(err)
					return
				}
				now := time.Now()
				waits[i] = append(waits[i], now.Sub(before))
				before = now
			}
		})
	}
	running.Wait()
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-ns/op")
	all := slices.Sorted(slices.Values(slices.Concat(waits...)))
	if len(all) == 0 {
		return
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	b.ReportMetric(micros(all[len(all)/2]), "p50-µs")
	b.ReportMetric(micros(all[len(all)*99/100]), "p99-µs")
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
