package server

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"go.uber.org/goleak"
)

var overLimit = flag.Int("connections", 200, "how many connections come that are too many")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listening is a server that tells when connections end.
type listening struct {
	*Server
	db    kv.DB
	addr  string
	pipes pipes         // in a bubble, in place of addr
	ended chan struct{} // gets one for each connection
	stop  context.CancelFunc
	done  chan error // of Serve
}

func listen(t *testing.T, db kv.DB, o Options) *listening {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	return listenAt(t, l, db, o)
}

func listenAt(t *testing.T, l net.Listener, db kv.DB, o Options) *listening {
	t.Helper()
	s, err := New(db, o)
	testkit.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	up := &listening{s, db, l.Addr().String(), nil, make(chan struct{}, 10000), stop, make(chan error, 1)}
	count := s.http.ConnState
	s.http.ConnState = func(c net.Conn, state http.ConnState) {
		count(c, state)
		if state == http.StateClosed {
			up.ended <- struct{}{}
		}
	}
	go func() { up.done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		testkit.Check(t, s.Close())
	})
	return up
}

// pipes is a listener in memory, so that the clock of a bubble is that of connections: on a busy machine short times are over too soon.
type pipes chan net.Conn

type pipe struct{ net.Conn }

func (pipe) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func listenInBubble(t *testing.T, o Options) *listening {
	p := make(pipes)
	l := listenAt(t, p, testkit.NewMemory(t, kv.Limits{}), o)
	l.pipes = p
	t.Cleanup(func() {
		l.stop()
		testkit.Check(t, <-l.done)
	})
	return l
}

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return pipe{}.LocalAddr() }

func (l *listening) dial(t *testing.T) net.Conn {
	t.Helper()
	var c net.Conn
	var err error
	if l.pipes == nil {
		c, err = net.Dial("tcp", l.addr)
	} else {
		var there net.Conn
		c, there = net.Pipe()
		l.pipes <- pipe{there}
	}
	testkit.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends text, and returns the status and the body of the answer.
func (l *listening) ask(t *testing.T, text string) (status int, body string) {
	t.Helper()
	c := l.dial(t)
	defer c.Close()
	go io.WriteString(c, text) // the server may answer, and close, before it has read all
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%.60q: %v", text, err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	testkit.NoError(t, err)
	return response.StatusCode, string(b)
}

func post(path, body string, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\n%s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, strings.Join(append(headers, "Host: localhost"), "\r\n"), len(body), body)
}

// Whatever comes, the answer is a clear refusal, and the server goes on.
func TestHostile(t *testing.T) {
	l := listen(t, testkit.NewMemory(t, kv.Limits{}), Options{MaxBody: 1 << 20})
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }
	const items = "POST /v1/queues/q/items HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	endless := strings.Repeat("10000\r\n"+strings.Repeat(" ", 0x10000)+"\r\n", 32)
	for _, c := range []struct {
		what, request string
		status        int
		says          string
	}{
		{"nothing of HTTP", "hello\r\n\r\n", 400, ""},
		{"no host", "GET /healthz HTTP/1.1\r\n\r\n", 400, ""},
		{"another host", "GET /v1/queues HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421, "evil.example"},
		{"a long name", get("/v1/queues/" + strings.Repeat("n", 100_000)), 431, ""},
		{"a long header", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n", 431, ""},
		{"many headers", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + strings.Repeat("X: x\r\n", 10_000) + "\r\n", 431, ""},
		{"a name of 2000 bytes", get("/v1/queues/" + strings.Repeat("n", 2000)), 422, "1024 are allowed"},
		{"a name that is no text", get("/v1/queues/%ff%fe"), 422, "bad queue name"},
		{"a broken escape", get("/v1/queues/%zz"), 400, ""},
		{"a path upwards", get("/v1/queues/%2e%2e/%2e%2e/etc"), 404, "nothing here"},
		{"a name upwards", get("/v1/queues/%2e%2e%2f%2e%2e"), 404, `no such queue: \"../..\"`},
		{"a path that means another", get("/v1/../healthz"), 307, ""},
		{"an empty name", get("/v1/queues//items"), 307, ""},
		{"another site's address", get("http://evil.example/v1/queues"), 421, "evil.example"},
		{"a page of another site", post("/v1/queues/q/items", `{"items":[{"text":"a"}]}`, "Origin: http://evil.example"), 403, "another site"},
		{"no page", post("/v1/queues/q/items", `{"items":[{"text":"a"}]}`, "Origin: null"), 403, "another site"},
		{"a health check of HTTP/1.0", "GET /healthz HTTP/1.0\r\n\r\n", 200, ""},
		{"HTTP of 1996", "POST /v1/queues/q/items HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{", 400, ""},
		{"HTTP of 1991", "GET /v1/queues\r\n\r\n", 400, ""},
		{"HTTP of another world", "GET /v1/queues HTTP/3.0\r\nHost: localhost\r\n\r\n", 505, ""},
		{"nothing", get("/favicon.ico"), 404, "nothing here"},
		{"another method", "BREW /v1/queues HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "it can be GET"},
		{"not a job of that id", "GET /v1/jobs/q/reserve HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "it can be POST"},
		{"not a job of that id", "DELETE /v1/jobs/q/ack HTTP/1.1\r\nHost: localhost\r\n\r\n", 405, "it can be POST"},
		{"another method", "PUT /v1/move HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 405, "it can be POST"},
		{"a body of 1 GB", items + "Content-Length: 1073741824\r\n\r\n", 413, "up to 1048576 bytes"},
		{"a body of 1 GB, as bytes", strings.Replace(items, "json", "octet-stream", 1) + "Content-Length: 1073741824\r\n\r\n", 413, "up to 1048576 bytes"},
		{"a body without end", items + "Transfer-Encoding: chunked\r\n\r\n" + endless, 413, "up to 1048576 bytes"},
		{"a document without end", strings.Replace(items, "json", "x-ndjson", 1) + "Transfer-Encoding: chunked\r\n\r\n" + endless, 413, "too long"},
		{"a body of a verb without end", strings.Replace(items, "queues/q/items", "move", 1) + "Transfer-Encoding: chunked\r\n\r\n" + endless, 413, ""},
		{"a body that is no JSON", post("/v1/move", "{"), 400, ""},
		{"a body that is no text", post("/v1/queues/q/items", "{\"items\":[{\"text\":\"\xc3\"}]}"), 400, "not UTF-8"},
		{"JSON 10,001 deep", post("/v1/queues/q/items", `{"items":[{"json":`+strings.Repeat("[", 10_001)), 400, "exceeded max depth"},
		{"JSON 10,001 deep in a verb", post("/v1/move", strings.Repeat(`{"from":`, 10_001)), 400, ""},
		{"JSON 9,000 deep in a verb", post("/v1/move", strings.Repeat(`[`, 9000)+strings.Repeat(`]`, 9000)), 422, ""},
		{"a chunk that is none", items + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, ""},
		{"two lengths", items + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400, ""},
		{"a negative length", items + "Content-Length: -1\r\n\r\n", 400, ""},
		{"a header that is none", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nno header\r\n\r\n", 400, ""},
		{"a wait for ever", "POST /v1/queues/q/take?wait=9999999h HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", 422, "2"},
	} {
		status, body := l.ask(t, c.request)
		if status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %.200s, want %d %s", c.what, status, body, c.status, c.says)
		}
	}
	status, body := l.ask(t, get("/readyz"))
	testkit.Equal(t, "after all", fmt.Sprint(status, body), "200ready\n")
	status, body = l.ask(t, get("/v1/queues"))
	testkit.Equal(t, "queues", fmt.Sprint(status, body), `200{"queues":[]}`+"\n")
}

// JSON of 9,000 levels is an item, and comes back as it was.
func TestDeep(t *testing.T) {
	l := listen(t, testkit.NewMemory(t, kv.Limits{}), Options{})
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	status, body := l.ask(t, post("/v1/queues/q/items", `{"items":[{"json":`+deep+`}]}`))
	testkit.Equal(t, "answer", fmt.Sprint(status, body), `200{"added":1}`+"\n")
	status, body = l.ask(t, post("/v1/queues/q/take", ""))
	testkit.Equal(t, "answer", fmt.Sprint(status, body), `200{"items":[{"json":`+deep+`}]}`+"\n")
}

// Connections whose client does not go on are ended: in the head, in the body, and as it does not read the answer.
func TestStalled(t *testing.T) { synctest.Test(t, stalled) }

func stalled(t *testing.T) {
	l := listenInBubble(t, Options{HeaderTimeout: 50 * time.Millisecond, StallTimeout: 50 * time.Millisecond})
	head := l.dial(t)
	io.WriteString(head, "GET /healthz HTTP/1.1\r\nHost: ")
	<-l.ended

	status, body := l.ask(t, "POST /v1/queues/q/items HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	if status != 408 || !strings.Contains(body, "in time") {
		t.Errorf("a body that ends: %d %s", status, body)
	}
	status, _ = l.ask(t, "POST /v1/move HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
	testkit.Equal(t, "a body of a verb that ends", status, 408)
	for range 2 {
		<-l.ended
	}

	q, err := conq.OpenQueue(t.Context(), l.db, "large", conq.Bytes())
	testkit.NoError(t, err)
	defer q.Close()
	for range 8 {
		testkit.NoError(t, q.Enqueue(t.Context(), make([]byte, 4<<20)))
	}
	slow := l.dial(t)
	for range 8 {
		io.WriteString(slow, "GET /v1/queues/large/items?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	<-l.ended
}

// A request that waits has all the time that it asks for, and a client that goes away while it waits takes nothing.
func TestWaitsLongerThanStalls(t *testing.T) { synctest.Test(t, waitsLongerThanStalls) }

func waitsLongerThanStalls(t *testing.T) {
	l := listenInBubble(t, Options{StallTimeout: time.Millisecond})
	l.ask(t, post("/v1/queues/q/items", `{"items":[{"text":"a"}]}`))
	<-l.ended
	l.ask(t, post("/v1/queues/q/take", ""))
	<-l.ended
	gone := l.dial(t)
	io.WriteString(gone, post("/v1/queues/q/take?wait=1h", ""))
	gone.Close()
	<-l.ended
	answer := make(chan string)
	go func() {
		_, body := l.ask(t, "POST /v1/queues/q/take?wait=100ms HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
		answer <- body
	}()
	testkit.Equal(t, "answer", <-answer, `{"items":[]}`+"\n")
	go func() {
		_, body := l.ask(t, post("/v1/queues/q/take?wait=1h", ""))
		answer <- body
	}()
	l.ask(t, post("/v1/queues/q/items", `{"items":[{"text":"b"}]}`))
	testkit.Equal(t, "answer", <-answer, `{"items":[{"text":"b"}]}`+"\n")
}

// Requests that come at once are answered in their order, whatever is behind them.
func TestPipelined(t *testing.T) {
	l := listen(t, testkit.NewMemory(t, kv.Limits{}), Options{})
	c := l.dial(t)
	var all strings.Builder
	const n = 200
	for i := range n {
		all.WriteString(post("/v1/queues/q/items", fmt.Sprintf(`{"items":[{"json":%d}]}`, i)) + post("/v1/queues/q/take", ""))
	}
	go io.WriteString(c, all.String()+"BREW\r\n\r\n")
	r := bufio.NewReader(c)
	for i := range 2*n + 1 {
		response, err := http.ReadResponse(r, nil)
		testkit.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		testkit.NoError(t, err)
		want := `{"added":1}` + "\n"
		switch {
		case i == 2*n:
			testkit.Equal(t, "status", response.StatusCode, 400)
			continue
		case i%2 == 1:
			want = fmt.Sprintf(`{"items":[{"json":%d}]}`, i/2) + "\n"
		}
		testkit.Equal(t, "answer", string(body), want)
	}
	<-l.ended
}

// However many connections are too many, those that are there are served.
func TestFarTooManyConnections(t *testing.T) {
	l := listen(t, testkit.NewMemory(t, kv.Limits{}), Options{MaxConnections: 5})
	first := l.dial(t)
	r := bufio.NewReader(first)
	for range 10 {
		for range *overLimit / 10 {
			c, err := net.Dial("tcp", l.addr)
			testkit.NoError(t, err)
			defer c.Close()
		}
		io.WriteString(first, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		response, err := http.ReadResponse(r, nil)
		testkit.NoError(t, err)
		testkit.Equal(t, "status", response.StatusCode, 200)
		io.Copy(io.Discard, response.Body)
	}
	for range *overLimit - 4 {
		<-l.ended
	}
	testkit.Equal(t, "connections", l.connections.Load(), 5)
}

// Connections that are too many are told so.
func TestTooManyConnections(t *testing.T) {
	l := listen(t, testkit.NewMemory(t, kv.Limits{}), Options{MaxConnections: 1})
	first := l.dial(t)
	io.WriteString(first, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(first), nil)
	testkit.NoError(t, err)
	testkit.Equal(t, "first", response.StatusCode, 200)
	second := l.dial(t)
	response, err = http.ReadResponse(bufio.NewReader(second), nil)
	testkit.NoError(t, err)
	testkit.Equal(t, "second", response.StatusCode, 503)
	<-l.ended
	first.Close()
	<-l.ended
	status, _ := l.ask(t, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	testkit.Equal(t, "third", status, 200)
}

// A handler that panics has its client told, if it can be, and the log.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	s, err := New(testkit.NewMemory(t, kv.Limits{}), Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	testkit.NoError(t, err)
	defer s.Close()
	w := httptest.NewRecorder()
	s.paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh no") })).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	testkit.Equal(t, "status", w.Code, 500)
	if !strings.Contains(log.String(), "oh no") || strings.Contains(w.Body.String(), "oh no") {
		t.Errorf("log %s, answer %s", &log, w.Body)
	}
	defer func() { testkit.Equal(t, "panic", recover() == http.ErrAbortHandler, true) }()
	s.paced(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		panic("in the middle")
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
}

// A request that is refused before its body was read ends no connection of HTTP/2, which others share.
func TestRefusedBesideOthers(t *testing.T) {
	s, err := New(testkit.NewMemory(t, kv.Limits{}), Options{})
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.NoError(t, s.Close()) })
	l := httptest.NewUnstartedServer(s)
	l.EnableHTTP2 = true
	l.StartTLS()
	t.Cleanup(l.Close)
	for i := range 3 {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.URL+"/v1/nothing", strings.NewReader("{}"))
		testkit.NoError(t, err)
		answer, err := l.Client().Do(r)
		testkit.NoError(t, err)
		testkit.NoError(t, answer.Body.Close())
		testkit.Equal(t, "status and protocol", fmt.Sprint(answer.StatusCode, answer.ProtoMajor), "404 2")
		testkit.Equal(t, "reused", reused, i > 0)
	}
}
