//go:build unix

package work

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/kv/embedded"
)

// BenchmarkJobs puts jobs, then reserves and acknowledges them, by so many workers, each durable before its answer.
func BenchmarkJobs(b *testing.B) {
	payload := make([]byte, 128)
	for _, d := range []embedded.Durability{embedded.Always, embedded.Interval} {
		for _, workers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%v/%d", d, workers), func(b *testing.B) {
				q, _ := openDeep(b, d)
				ctx := context.Background()
				each := func(do func()) time.Duration {
					began := time.Now()
					var group sync.WaitGroup
					var n atomic.Int64
					for range workers {
						group.Go(func() {
							for n.Add(1) <= int64(b.N) {
								do()
							}
						})
					}
					group.Wait()
					return time.Since(began)
				}
				b.ResetTimer()
				put := each(func() {
					if _, err := q.Put(ctx, payload); err != nil {
						b.Error(err)
					}
				})
				done := each(func() {
					l, err := q.ReserveWait(ctx)
					if err == nil {
						err = l.Ack(ctx)
					}
					if err != nil {
						b.Error(err)
					}
				})
				b.ReportMetric(float64(b.N)/put.Seconds(), "put/s")
				b.ReportMetric(float64(b.N)/done.Seconds(), "done/s")
			})
		}
	}
}

// BenchmarkRun has Run do jobs that do nothing.
func BenchmarkRun(b *testing.B) {
	for _, d := range []embedded.Durability{embedded.Always, embedded.Interval} {
		for _, workers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%v/%d", d, workers), func(b *testing.B) {
				q, _ := openDeep(b, d)
				deepen(b, q, b.N, func(int) Job { return Job{} })
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var done atomic.Int64
				b.ResetTimer()
				noError(b, Run(ctx, q, func(context.Context, *Lease[[]byte]) error {
					if done.Add(1) == int64(b.N) {
						cancel()
					}
					return nil
				}, RunOptions{Workers: workers}))
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "done/s")
			})
		}
	}
}
