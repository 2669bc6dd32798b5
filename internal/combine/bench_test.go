package combine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/combine"
)

// BenchmarkDo is what the combiner itself costs a call.
func BenchmarkDo(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) { benchmark(b, n, func([]*call) {}) })
	}
}

// BenchmarkSlow is with batches that take as long as a fast transaction.
func BenchmarkSlow(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", n), func(b *testing.B) {
			timer := time.NewTimer(0)
			<-timer.C
			benchmark(b, n, func([]*call) {
				timer.Reset(300 * time.Microsecond)
				<-timer.C
			})
		})
	}
}

// benchmark shares b.N calls among n goroutines.
func benchmark(b *testing.B, n int, run func([]*call)) {
	b.ReportAllocs()
	batches := 0
	l := combine.New(combine.Options[int, int]{Run: run, Observe: func(int, int) { batches++ }})
	b.ResetTimer()
	var wg sync.WaitGroup
	for g := range n {
		wg.Go(func() {
			for i := g; i < b.N; i += n {
				if _, err := l.Do(b.Context(), i); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/float64(batches), "calls/batch")
}

// BenchmarkContext is what a batch's context costs, where callers share one and where each has its
// own.
func BenchmarkContext(b *testing.B) {
	for _, n := range []int{1, 16, 64} {
		for _, own := range []bool{false, true} {
			b.Run(fmt.Sprintf("calls=%d/own=%v", n, own), func(b *testing.B) {
				b.ReportAllocs()
				calls := make([]*call, n)
				for i := range calls {
					calls[i] = &call{Context: b.Context()}
					if own {
						ctx, cancel := context.WithCancel(b.Context())
						defer cancel()
						calls[i].Context = ctx
					}
				}
				for b.Loop() {
					ctx, cancel := combine.Context(calls)
					if ctx.Err() != nil {
						b.Fatal(ctx.Err())
					}
					cancel()
				}
			})
		}
	}
}
