package work

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/codec"
	"github.com/conq-go/conq/kv/embedded"
)

// BenchmarkJobs puts jobs, then reserves and acknowledges them, by so many workers, each durable before its answer.
func BenchmarkJobs(b *testing.B) {
	payload := make([]byte, 128)
	for _, d := range []embedded.Durability{embedded.Always, embedded.Interval} {
		for _, workers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%v/%d", d, workers), func(b *testing.B) {
				db, err := embedded.Open(b.TempDir(), embedded.Options{Durability: d})
				noError(b, err)
				defer db.Close()
				q, err := Open(db, "q", codec.Bytes(), Options{})
				noError(b, err)
				defer q.Close()
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
					l, err := q.Reserve(ctx)
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
