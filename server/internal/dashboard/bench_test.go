//go:build unix

package dashboard

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/conq-go/conq/work"
)

var deadJobs = flag.Int("jobs", 10_000, "among how many dead jobs BenchmarkJobs shows pages")

// onDisk returns the pages of an embedded store.
func onDisk(b *testing.B) *site {
	db, err := embedded.Open(b.Context(), b.TempDir(), embedded.Options{Durability: embedded.Memory}) // it is filled sooner, and read as any other
	testkit.NoError(b, err)
	b.Cleanup(func() { testkit.NoError(b, db.Close()) })
	return newSiteOf(b, db)
}

// BenchmarkOverview shows the first page of 1,000 queues, of which it reports what comes over the wire: alone, and with
// all that the page loads.
func BenchmarkOverview(b *testing.B) {
	s := onDisk(b)
	s.many(b.Context())
	_, wire, all := s.loadAll("/")
	for b.Loop() {
		s.load("/")
	}
	b.ReportMetric(float64(wire), "page-B")
	b.ReportMetric(float64(all), "page+assets-B")
}

// BenchmarkTabs measures what 100 tabs cost that show 1,000 queues, into all of which something is put each second. It reports
// how many cores that takes, where the store is read and pages are sent once a second; the tabs' own reading is in it.
func BenchmarkTabs(b *testing.B) {
	s := onDisk(b)
	ctx, stop := context.WithCancel(b.Context())
	all := s.many(ctx)
	s.sampler.Sample(ctx)
	server := httptest.NewServer(s.handler)
	defer server.Close()
	var tabs sync.WaitGroup
	var received atomic.Int64
	for range 100 {
		tabs.Go(func() { read(ctx, server.URL+"/live/overview?", &received) })
	}
	defer tabs.Wait()
	defer stop()
	var took time.Duration
	for b.Loop() {
		b.StopTimer()
		for _, q := range all {
			_, err := q.Put(ctx, []byte("x"), work.Job{})
			testkit.NoError(b, err)
		}
		before, began := received.Load(), cpuTime()
		b.StartTimer()
		s.sampler.Sample(ctx)
		for received.Load() < before+100*50_000 {
			time.Sleep(time.Millisecond) // spinning would count
		}
		took += cpuTime() - began
	}
	b.ReportMetric(took.Seconds()/float64(b.N), "cores")
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

// cpuTime is how long this process has run.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkJobs shows pages of jobs among many dead ones (-jobs): the first, one in the middle, and ones that look for
// what many, few and none have. Where the machine is busy with other things cpu-ms says more than the time.
func BenchmarkJobs(b *testing.B) {
	s := onDisk(b)
	began := time.Now()
	s.die(b.Context(), *deadJobs)
	b.Logf("%d jobs were put and buried in %v", *deadJobs, time.Since(began))
	s.sampler.Sample(b.Context())
	const dead = "/jobs?q=q&state=dead"
	middle := dead
	for range 20 {
		page, _ := s.load(middle)
		next := regexp.MustCompile(`href="(/jobs[^"]*after=[^"]*)"`).FindStringSubmatch(page)
		if next == nil {
			b.Fatal("there is no next page")
		}
		middle = strings.ReplaceAll(next[1], "&amp;", "&")
	}
	for name, path := range map[string]string{
		"first": dead, "oldest": dead + "&order=first", "later": middle, "all": "/jobs?q=q", "key": dead + "&key=customer-7", "text-many": dead + "&text=timeout", "text-none": dead + "&text=nowhere",
		"filters-none": dead + "&key=customer-7&attempts=2&age=1h&text=nowhere", "overview": "/", "queue": "/queue?q=q",
	} {
		b.Run(name, func(b *testing.B) {
			began := cpuTime()
			for b.Loop() {
				s.load(path)
			}
			b.ReportMetric((cpuTime()-began).Seconds()*1000/float64(b.N), "cpu-ms")
		})
	}
}

// die fills a queue with dead jobs.
func (s *site) die(ctx context.Context, n int) {
	q := s.work("q")
	for i := 0; i < n; {
		all := make([]work.New[[]byte], 0, 1000)
		for ; i < n && len(all) < cap(all); i++ {
			all = append(all, work.New[[]byte]{Value: fmt.Appendf(nil, `{"n":%d,"to":"user@example.org","template":"order-shipped"}`, i), Job: work.Job{Key: fmt.Sprint("customer-", i)}})
		}
		_, _, err := q.PutAll(ctx, all)
		testkit.NoError(s.t, err)
	}
	_, err := q.BuryAll(ctx, work.Filter{State: work.Ready}, "dial tcp 203.0.113.7:25: i/o timeout", nil)
	testkit.NoError(s.t, err)
}
