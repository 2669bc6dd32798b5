package client_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/server"
)

// BenchmarkEnqueue is durable items of 128 bytes from callers of one handle, and from as many clients of their own.
func BenchmarkEnqueue(b *testing.B) {
	for _, callers := range []int{16, 64} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) { benchmarkEnqueue(b, 1, callers) })
		b.Run(fmt.Sprintf("%d clients", callers), func(b *testing.B) { benchmarkEnqueue(b, callers, 1) })
	}
}

func benchmarkEnqueue(b *testing.B, clients, callers int) {
	db, err := conq.Open(b.Context(), b.TempDir())
	testkit.NoError(b, err)
	defer db.Close()
	s, err := server.New(db, server.Options{})
	testkit.NoError(b, err)
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(b, err)
	go s.Serve(context.Background(), l)
	queues := make([]*client.Queue[[]byte], clients)
	for i := range queues {
		c, err := client.Dial(b.Context(), "http://"+l.Addr().String())
		testkit.NoError(b, err)
		defer c.Close()
		queues[i], err = client.OpenQueue(b.Context(), c, "q", conq.Bytes())
		testkit.NoError(b, err)
	}
	var group sync.WaitGroup
	b.ResetTimer()
	for i := range clients * callers {
		group.Go(func() {
			for range (b.N + i) / (clients * callers) {
				testkit.Check(b, queues[i%clients].Enqueue(b.Context(), make([]byte, 128)))
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
}
