package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/work"
)

// BenchmarkTabs measures what 100 tabs cost that show 1,000 queues, all of which change: the time to read the store, to make the
// page once, and to send it to all. Each operation is what happens once a second. Half of it is the tabs' own reading.
func BenchmarkTabs(b *testing.B) {
	s := newSite(b)
	ctx, stop := context.WithCancel(b.Context())
	var all []*queues.Work
	for i := range 1000 {
		q, release, err := s.set.Work(ctx, fmt.Sprintf("queue-%04d", i), queues.Create)
		testkit.NoError(b, err)
		defer release()
		all = append(all, q)
	}
	server := httptest.NewServer(s.handler)
	defer server.Close()
	var tabs sync.WaitGroup
	var received atomic.Int64
	for range 100 {
		tabs.Go(func() { read(ctx, server.URL+"/live/overview?", &received) })
	}
	defer tabs.Wait()
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for _, q := range all {
			_, err := q.Put(ctx, []byte("x"), work.Job{})
			testkit.NoError(b, err)
		}
		before := received.Load()
		b.StartTimer()
		s.sampler.Sample(ctx)
		for received.Load() < before+100*50_000 {
			runtime.Gosched()
		}
	}
}

func read(ctx context.Context, url string, received *atomic.Int64) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return
	}
	resp, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := resp.Body.Read(buffer)
		received.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// BenchmarkJobs shows pages of jobs among a hundred thousand dead ones: the first, a later one, and one of a search that finds nothing.
func BenchmarkJobs(b *testing.B) {
	s := newSite(b)
	q := s.work("q")
	for i := range 100 {
		all := make([]work.New[[]byte], 1000)
		for k := range all {
			all[k].Value = fmt.Appendf(nil, `{"n":%d,"to":"user@example.org"}`, 1000*i+k)
		}
		_, _, err := q.PutAll(b.Context(), all)
		testkit.NoError(b, err)
	}
	_, err := q.BuryAll(b.Context(), work.Filter{State: work.Ready}, "i/o timeout", nil)
	testkit.NoError(b, err)
	for _, path := range []string{"/jobs?q=q&state=dead", "/jobs?q=q&state=dead&order=first", "/jobs?q=q&state=dead&text=nowhere"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				s.get(path, 200)
			}
		})
	}
}
