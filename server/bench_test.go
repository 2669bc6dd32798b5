package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// connections of a benchmark, each with one request under way.
const connections = 64

// BenchmarkHTTP is one item a request, durable, over connections of their own on the loopback interface; bulk is 100 items
// a request of NDJSON. An operation is an item.
func BenchmarkHTTP(b *testing.B) {
	single := strings.Repeat("x", 128)
	lines := strings.Repeat(`{"text":"`+single+`"}`+"\n", 100)
	add := request("POST /v1/queues/q/items", "application/octet-stream", single, "")
	take := request("POST /v1/queues/q/take", "", "", "application/octet-stream")
	bulk := request("POST /v1/queues/q/items", "application/x-ndjson", lines, "")
	drain := request("POST /v1/queues/q/take?n=100", "", "", "application/x-ndjson")
	keyed := func(i, n int) string {
		return strings.Replace(add, "\r\n", fmt.Sprintf("\r\nIdempotency-Key: %d-%d\r\n", i, n), 1)
	}
	plain := func(text string) func(i, n int) string { return func(int, int) string { return text } }
	b.Run("enqueue", func(b *testing.B) { benchmark(b, 0, 1, plain(add), ours) })
	b.Run("enqueue by net/http alone", func(b *testing.B) { benchmark(b, 0, 1, plain(add), bare) })
	b.Run("enqueue with key", func(b *testing.B) { benchmark(b, 0, 1, keyed, ours) })
	b.Run("take", func(b *testing.B) { benchmark(b, b.N+1000, 1, plain(take), ours) })
	b.Run("take by net/http alone", func(b *testing.B) { benchmark(b, b.N+1000, 1, plain(take), bare) })
	b.Run("bulk enqueue", func(b *testing.B) { benchmark(b, 0, 100, plain(bulk), ours) })
	b.Run("bulk take", func(b *testing.B) { benchmark(b, b.N+10000, 100, plain(drain), ours) })
}

// ours is the server.
func ours(b *testing.B, db kv.DB, _ *conq.Queue[[]byte]) http.Handler {
	s, err := New(db, Options{})
	testkit.NoError(b, err)
	b.Cleanup(func() { testkit.NoError(b, s.Close()) })
	return s
}

// bare is the least that a server can do on net/http, and the most that another way to the queue could gain.
func bare(_ *testing.B, _ kv.DB, q *conq.Queue[[]byte]) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/queues/q/items", func(w http.ResponseWriter, r *http.Request) {
		item, err := io.ReadAll(r.Body)
		if err == nil {
			err = q.Enqueue(r.Context(), item)
		}
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		io.WriteString(w, `{"added":1}`)
	})
	mux.HandleFunc("POST /v1/queues/q/take", func(w http.ResponseWriter, r *http.Request) {
		item, err := q.Dequeue(r.Context())
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		w.Write(item)
	})
	return mux
}

func request(line, contentType, body, accept string) string {
	text := line + " HTTP/1.1\r\nHost: localhost\r\n"
	if contentType != "" {
		text += fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d\r\n", contentType, len(body))
	} else {
		text += "Content-Length: 0\r\n"
	}
	if accept != "" {
		text += "Accept: " + accept + "\r\n"
	}
	return text + "\r\n" + body
}

// benchmark sends b.N/items requests to a server whose queue q has some items.
func benchmark(b *testing.B, filled, items int, request func(i, n int) string, serve func(*testing.B, kv.DB, *conq.Queue[[]byte]) http.Handler) {
	db, err := conq.Open(b.Context(), b.TempDir())
	testkit.NoError(b, err)
	b.Cleanup(func() { testkit.NoError(b, db.Close()) })
	q, err := conq.OpenQueue(b.Context(), db, "q", conq.Bytes())
	testkit.NoError(b, err)
	for ; filled > 0; filled -= 1000 {
		values := make([][]byte, 1000)
		for i := range values {
			values[i] = []byte(strings.Repeat("x", 128))
		}
		testkit.NoError(b, q.EnqueueAll(b.Context(), values))
	}
	s := http.Server{Handler: serve(b, db, q)}
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(b, err)
	go s.Serve(l)
	var group sync.WaitGroup
	b.ResetTimer()
	for i := range connections {
		group.Go(func() {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			r := bufio.NewReader(conn)
			for n := range (b.N/items + connections - 1 - i) / connections {
				if err := exchange(conn, r, request(i, n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
}

func exchange(conn net.Conn, r *bufio.Reader, request string) error {
	if _, err := conn.Write([]byte(request)); err != nil {
		return err
	}
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
