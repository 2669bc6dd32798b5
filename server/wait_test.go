package server

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

var waiters = flag.Int("waiters", 300, "how many connections wait at once")

// dequeueing waits for an item, and returns the answer.
func (l *listening) dequeueing(t *testing.T, asked *sync.WaitGroup) string {
	c, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Error(err)
		asked.Done()
		return ""
	}
	defer c.Close()
	io.WriteString(c, post("/v1/queues/q/take?wait=1h", ""))
	asked.Done()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	testkit.Check(t, err)
	return string(b)
}

// Connections that wait cost no transactions, and each item wakes one of them.
func TestManyWait(t *testing.T) {
	db, attempts := testkit.Counted(testkit.NewMemory(t, kv.Limits{}))
	l := listen(t, db, Options{})
	l.ask(t, strings.Replace(post("/v1/queues/q", `{"kind":"queue"}`), "POST", "PUT", 1))
	answers := make(chan string, *waiters)
	var asked sync.WaitGroup
	asked.Add(*waiters)
	for range *waiters {
		go func() { answers <- l.dequeueing(t, &asked) }()
	}
	asked.Wait()
	q, err := conq.OpenQueue(t.Context(), db, "q", conq.Bytes())
	testkit.NoError(t, err)
	defer q.Close()
	seen := make(map[string]bool)
	for i := range *waiters {
		testkit.NoError(t, q.Enqueue(t.Context(), []byte(strconv.Itoa(i))))
		answer := <-answers
		if want := fmt.Sprintf(`{"items":[{"json":%d}]}`+"\n", i); answer != want || seen[answer] {
			t.Fatalf("answer %s, want %s", answer, want)
		}
		seen[answer] = true
	}
	// Each has looked when it came, and once for its item; each item was enqueued.
	if n := attempts.Load(); n > int64(4**waiters+20) {
		t.Errorf("%d attempts of transactions for %d", n, *waiters)
	}
}

// BenchmarkWaiting is the memory of a connection that waits, and how much of a core all of them take while nothing comes.
// -benchtime 9000x has so many, with two files each. What runs second is too low: it has the first one's memory.
func BenchmarkWaiting(b *testing.B) {
	db := testkit.NewMemory(b, kv.Limits{})
	s, err := New(db, Options{})
	testkit.NoError(b, err)
	defer s.Close()
	q, err := conq.OpenQueue(b.Context(), db, "q", conq.Bytes())
	testkit.NoError(b, err)
	defer q.Close()
	b.Run("conq", func(b *testing.B) { benchmarkWaiting(b, s.http) })
	b.Run("net/http alone", func(b *testing.B) {
		benchmarkWaiting(b, &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })})
	})
}

func benchmarkWaiting(b *testing.B, s *http.Server) {
	path := filepath.Join(b.TempDir(), "socket")
	socket, err := net.Listen("unix", path)
	testkit.NoError(b, err)
	defer socket.Close()
	go s.Serve(socket)
	before := memory(b)
	conns := make([]net.Conn, b.N)
	for i := range conns {
		conns[i], err = net.Dial("unix", path)
		testkit.NoError(b, err)
		defer conns[i].Close()
		io.WriteString(conns[i], post("/v1/queues/q/take?wait=1h", ""))
	}
	for goroutines := runtime.NumGoroutine(); goroutines < 2*b.N; goroutines = runtime.NumGoroutine() { // a connection has two
		runtime.Gosched()
	}
	b.ReportMetric(float64(memory(b)-before)/float64(b.N), "B/waiter")
	const idle = 3 * time.Second
	used := processorTime(b)
	<-time.After(idle)
	b.ReportMetric(100*(processorTime(b)-used).Seconds()/idle.Seconds(), "%core")
}

// memory is what the process has of what is in use, in bytes.
func memory(b *testing.B) int64 {
	debug.FreeOSMemory()
	return process(b, "statm", 1) * int64(os.Getpagesize())
}

func processorTime(b *testing.B) time.Duration {
	const tick = 10 * time.Millisecond
	return time.Duration(process(b, "stat", 13)+process(b, "stat", 14)) * tick
}

// process is a number that Linux tells of this process.
func process(b *testing.B, file string, field int) int64 {
	text, err := os.ReadFile("/proc/self/" + file)
	if err != nil {
		b.Skip(err)
	}
	n, err := strconv.ParseInt(strings.Fields(string(text))[field], 10, 64)
	testkit.NoError(b, err)
	return n
}

// A connection that has sent nothing, as those that browsers make ahead, does not keep a server from stopping.
func TestStopsBesideSilent(t *testing.T) {
	l := listen(t, testkit.NewMemory(t, kv.Limits{}), Options{})
	l.dial(t)
	for l.connections.Load() == 0 {
		runtime.Gosched()
	}
	l.stop()
	testkit.NoError(t, <-l.done)
	l.done <- nil
}

// A server that stops under load finishes what is under way: all that was acknowledged is there, and nothing is
// refused that had been carried out.
func TestStopsUnderLoad(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	l := listen(t, db, Options{})
	acks := make(chan struct{})
	var acked, refused atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			client := http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for {
				response, err := client.Post("http://"+l.addr+"/v1/queues/q/items", "application/json", strings.NewReader(`{"items":[{"text":"a"}]}`))
				if err != nil {
					refused.Add(1)
					return
				}
				response.Body.Close()
				if response.StatusCode != http.StatusOK {
					t.Errorf("it is %s", response.Status)
					return
				}
				acked.Add(1)
				select {
				case acks <- struct{}{}:
				default:
				}
			}
		})
	}
	<-acks
	var asked sync.WaitGroup
	asked.Add(1)
	answer := make(chan string, 1)
	go func() { answer <- l.dequeueing(t, &asked) }()
	asked.Wait()
	for range 100 {
		<-acks
	}
	l.stop()
	testkit.NoError(t, <-l.done)
	clients.Wait()
	l.done <- nil
	q, err := conq.OpenQueue(t.Context(), db, "q", conq.Bytes())
	testkit.NoError(t, err)
	defer q.Close()
	n, err := q.Len(context.Background())
	testkit.NoError(t, err)
	var got struct{ Items []any }
	if json.Unmarshal([]byte(<-answer), &got); len(got.Items) > 0 {
		n += len(got.Items)
	}
	if lost := acked.Load() - int64(n); lost > 0 || int64(n) > acked.Load()+refused.Load() {
		t.Errorf("%d were acknowledged, %d refused, %d are there", acked.Load(), refused.Load(), n)
	}
	w := httptest.NewRecorder()
	l.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/readyz", nil))
	testkit.Equal(t, "ready", w.Code, http.StatusServiceUnavailable)
}
