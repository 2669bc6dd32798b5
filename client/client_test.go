package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/client"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/internal/version"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/queue"
	"github.com/conq-go/conq/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a store at an address until stop is called.
func serve(t testing.TB, db kv.DB, address string, o server.Options) (url string, stop func()) {
	t.Helper()
	s, err := server.New(db, o)
	testkit.NoError(t, err)
	l, err := net.Listen("tcp", address)
	testkit.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		testkit.Check(t, <-done)
		testkit.Check(t, s.Close())
	})
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

func dial(t testing.TB, url string, opts ...client.Options) *client.Client {
	t.Helper()
	o, err := options.Only(opts)
	testkit.NoError(t, err)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	if o.Transport == nil {
		o.Transport = transport
	}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.Dial(t.Context(), url, o)
	testkit.NoError(t, err)
	t.Cleanup(func() { testkit.Check(t, c.Close()) })
	return c
}

// newClient returns a client of a new server.
func newClient(t testing.TB) *client.Client {
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{})
	return dial(t, url)
}

var errorsOfVerbs = []error{queue.ErrEmpty, queue.ErrClosed, queue.ErrKind, queue.ErrNoQueue, kv.ErrInvalid, kv.ErrTooLarge, context.Canceled}

// told is a result as text, for comparison.
func told(v any, err error) string {
	for _, known := range errorsOfVerbs {
		if errors.Is(err, known) {
			return "error: " + known.Error()
		}
	}
	if err != nil {
		return "other error: " + err.Error()
	}
	return fmt.Sprintf("%q", v)
}

// A queue of a server does what one of a store does.
func TestQueueAsOnStore(t *testing.T) {
	ctx, c, db := t.Context(), newClient(t), testkit.NewMemory(t, kv.Limits{})
	remote, err := client.OpenQueue(ctx, c, "a b/../%2F?ü", queue.String())
	testkit.NoError(t, err)
	local, err := conq.OpenQueue(ctx, db, "a b/../%2F?ü", conq.String())
	testkit.NoError(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		n, values := r.IntN(4)+1, make([]string, r.IntN(4))
		for k := range values {
			values[k] = strings.Repeat("ü\x00\"", r.IntN(3)) + fmt.Sprint(i, k)
		}
		verb := r.IntN(9)
		do := func(q queue.FIFO[string]) string {
			switch verb {
			case 0:
				return told("", q.Enqueue(ctx, fmt.Sprint(i)))
			case 1, 2:
				return told("", q.EnqueueAll(ctx, values))
			case 3:
				return told(q.Dequeue(ctx))
			case 4:
				return told(q.DequeueN(ctx, n))
			case 5:
				return told(q.Peek(ctx))
			case 6:
				page, _, err := q.Page(ctx, nil, n)
				return told(page, err)
			case 7:
				return told(q.Len(ctx))
			default:
				if i%10 == 0 {
					return told("", q.Clear(ctx))
				}
				_, err := q.DequeueN(ctx, 0)
				return fmt.Sprint(err != nil)
			}
		}
		if got, want := do(remote), do(local); got != want {
			t.Fatalf("step %d, verb %d: %s, want %s", i, verb, got, want)
		}
	}
	testkit.Equal(t, "name", remote.Name(), local.Name())
	testkit.NoError(t, remote.Close())
	testkit.WantError(t, remote.Enqueue(ctx, "late"), queue.ErrClosed)
}

func TestPriorityQueueAsOnStore(t *testing.T) {
	ctx, c, db := t.Context(), newClient(t), testkit.NewMemory(t, kv.Limits{})
	remote, err := client.OpenPriorityQueue(ctx, c, "p", queue.String())
	testkit.NoError(t, err)
	local, err := conq.OpenPriorityQueue(ctx, db, "p", conq.String())
	testkit.NoError(t, err)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		n, priority, verb := r.IntN(4)+1, r.Int64N(5)-2, r.IntN(10)
		do := func(q queue.Priority[string]) string {
			switch verb {
			case 0, 1:
				return told("", q.Push(ctx, fmt.Sprint(i), priority))
			case 2:
				return told("", q.PushAll(ctx, []conq.Prioritized[string]{{Value: "x", Priority: priority}, {Value: "y", Priority: -priority}}))
			case 3:
				return told(q.PopMin(ctx))
			case 4:
				return told(q.PopMax(ctx))
			case 5:
				return told(q.PopN(ctx, queue.Min, n))
			case 6:
				return told(q.PopN(ctx, queue.Max, n))
			case 7:
				return told(q.Peek(ctx, queue.Min)) + told(q.Peek(ctx, queue.Max))
			case 8:
				page, _, err := q.Page(ctx, queue.Max, nil, n)
				return told(page, err)
			default:
				return told(q.Len(ctx))
			}
		}
		if got, want := do(remote), do(local); got != want {
			t.Fatalf("step %d, verb %d: %s, want %s", i, verb, got, want)
		}
	}
}

func TestAll(t *testing.T) {
	ctx, c := t.Context(), newClient(t)
	q, err := client.OpenQueue(ctx, c, "q", queue.JSON[int]())
	testkit.NoError(t, err)
	var want []int
	for i := range 1050 { // over several pages
		want = append(want, i)
	}
	testkit.NoError(t, q.EnqueueAll(ctx, want))
	testkit.EqualSlices(t, "all", testkit.List(t, q.All(ctx)), want)
	page, next, err := q.Page(ctx, nil, 3)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, "first page", page, want[:3])
	page, _, err = q.Page(ctx, next, 3)
	testkit.NoError(t, err)
	testkit.EqualSlices(t, "second page", page, want[3:6])
}

func TestErrors(t *testing.T) {
	ctx, c := t.Context(), newClient(t)
	_, err := client.OpenQueue(ctx, c, "q", queue.String())
	testkit.NoError(t, err)
	_, err = client.OpenPriorityQueue(ctx, c, "q", queue.String())
	testkit.WantError(t, err, queue.ErrKind, "q")
	_, err = client.OpenQueue(ctx, c, "", queue.String())
	testkit.WantError(t, err, queue.ErrName)
	_, err = client.OpenQueue(ctx, c, "nul\x00", queue.String())
	testkit.WantError(t, err, queue.ErrName)
	_, err = client.OpenQueue(ctx, c, strings.Repeat("n", 2000), queue.String())
	testkit.WantError(t, err, queue.ErrName)
	_, err = c.Lookup(ctx, "none")
	testkit.WantError(t, err, queue.ErrNoQueue, "none")
	_, err = client.OpenQueue[string](ctx, c, "q", nil)
	if err == nil {
		t.Error("a queue has no codec")
	}
	small, _ := serve(t, testkit.NewMemory(t, kv.Limits{Transaction: 10_000}), "127.0.0.1:0", server.Options{})
	q, err := client.OpenQueue(ctx, dial(t, small), "q", queue.Bytes())
	testkit.NoError(t, err)
	testkit.WantError(t, q.Enqueue(ctx, make([]byte, 9_000)), kv.ErrTooLarge)
	_, _, err = q.Page(ctx, nil, 0)
	testkit.WantError(t, err, kv.ErrInvalid, "query.limit: expected number >= 1")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	testkit.WantError(t, q.Enqueue(ended, nil), context.Canceled)
	var none context.Context
	_, err = q.Dequeue(none)
	if err == nil {
		t.Error("a nil context is taken")
	}
}

// What a full disk has refused is not there.
func TestFullDisk(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz":
			fmt.Fprintln(w, "ready")
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `{"kind":"queue"}`)
		default:
			w.WriteHeader(http.StatusInsufficientStorage)
			fmt.Fprint(w, `{"type":"urn:conq:full","detail":"no space"}`)
		}
	}))
	t.Cleanup(s.Close)
	q, err := client.OpenQueue(t.Context(), dial(t, s.URL), "q", queue.String())
	testkit.NoError(t, err)
	err = q.Enqueue(t.Context(), "a")
	testkit.WantError(t, err, kv.ErrFull, "no space")
	testkit.Equal(t, "unknown", errors.Is(err, kv.ErrCommitUnknown), false)
}

// A server's log can tell which version a client has.
func TestUserAgent(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.UserAgent()
		fmt.Fprintln(w, "ready")
	}))
	t.Cleanup(s.Close)
	dial(t, s.URL)
	testkit.Equal(t, "user agent", got, version.Read().Product())
}

// What does not decode is not lost.
func TestDecodeError(t *testing.T) {
	ctx, c := t.Context(), newClient(t)
	raw, err := client.OpenQueue(ctx, c, "q", queue.String())
	testkit.NoError(t, err)
	testkit.NoError(t, raw.EnqueueAll(ctx, []string{"1", "two", "3"}))
	q, err := client.OpenQueue(ctx, c, "q", queue.JSON[int]())
	testkit.NoError(t, err)
	got, err := q.DequeueN(ctx, 3)
	testkit.EqualSlices(t, "values", got, []int{1, 3})
	testkit.WantError(t, err, queue.ErrDecode)
	bad, ok := errors.AsType[*client.DecodeError](err)
	testkit.Equal(t, "has it", ok && string(bad.Payload) == "two", true)
}

func TestDial(t *testing.T) {
	for _, c := range []struct{ url, token, says string }{
		{"", "", "as http://host:7711"},
		{"127.0.0.1:7711", "", "http://host:7711"},
		{"ftp://host", "", "http://host:7711"},
		{"http://", "", "http://host:7711"},
		{"http://host/v1", "", "http://host:7711"},
		{"http://host?x", "", "http://host:7711"},
		{"http://user:secret@host", "", "Options.Token"},
		{"user:secret@host", "", "Options.Token"},
		{"ftp://host,user:secret@host", "", "Options.Token"},
		{"http://queues.example:7711", "conq_secret", "without TLS"},
		{"http://127.0.0.1:1,10.1.1.1:7711", "conq_secret", "10.1.1.1:7711"},
	} {
		_, err := client.Dial(t.Context(), c.url, client.Options{Token: c.token})
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: error %v, want one that says %q", c.url, err, c.says)
		}
	}
	for _, o := range []client.Options{{Patience: -1}, {Timeout: -1}} {
		_, err := client.Dial(t.Context(), "http://127.0.0.1:7711", o)
		testkit.WantError(t, err, kv.ErrInvalid, "Options.Patience")
	}
	for _, s := range []*httptest.Server{httptest.NewServer(http.NotFoundHandler()), httptest.NewServer(page), httptest.NewTLSServer(page)} {
		defer s.Close()
		_, err := client.Dial(t.Context(), s.URL, client.Options{Patience: time.Hour})
		if err == nil {
			t.Errorf("%s is taken for a server", s.URL)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	testkit.NoError(t, free.Close())
	_, err = client.Dial(t.Context(), "http://"+free.Addr().String(), client.Options{Patience: time.Millisecond})
	if _, refused := errors.AsType[*net.OpError](err); !refused {
		t.Errorf("error %v, want that the connection was refused", err)
	}
}

// page is a server of another kind.
var page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") })

// sendable is a transport that wants to be able to send bodies again.
type sendable struct {
	http.RoundTripper
	t *testing.T
}

func (s sendable) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.GetBody == nil {
		s.t.Errorf("%s %s can't be sent again", r.Method, r.URL.Path)
	}
	return s.RoundTripper.RoundTrip(r)
}

// A configuration of TLS is left as it is, as others may use it, and net/http can send again what the server has not begun with.
func TestTransport(t *testing.T) {
	s := httptest.NewTLSServer(page)
	t.Cleanup(s.Close)
	trusted := s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusted.NextProtos = nil
	_, err := client.Dial(t.Context(), s.URL, client.Options{TLS: trusted})
	if err == nil || !strings.Contains(err.Error(), "is not the URL of a conq server") {
		t.Errorf("error %v", err)
	}
	testkit.Equal(t, "protocols", len(trusted.NextProtos), 0)

	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{})
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	q, err := client.OpenQueue(t.Context(), dial(t, url, client.Options{Transport: sendable{transport, t}}), "q", queue.String())
	testkit.NoError(t, err)
	testkit.NoError(t, q.Enqueue(t.Context(), "a"))
}

func TestToken(t *testing.T) {
	path := t.TempDir() + "/tokens.json"
	secret, _, err := server.NewToken(path, "shop", []string{"produce:orders"})
	testkit.NoError(t, err)
	tokens, err := server.LoadTokens(path)
	testkit.NoError(t, err)
	url, _ := serve(t, testkit.NewMemory(t, kv.Limits{}), "127.0.0.1:0", server.Options{Tokens: tokens})
	_, err = client.OpenQueue(t.Context(), dial(t, url), "orders", queue.String())
	testkit.WantError(t, err, client.ErrUnauthorized)
	c := dial(t, url, client.Options{Token: secret})
	q, err := client.OpenQueue(t.Context(), c, "orders", queue.String())
	testkit.NoError(t, err)
	testkit.NoError(t, q.Enqueue(t.Context(), "a"))
	_, err = q.Dequeue(t.Context())
	testkit.WantError(t, err, client.ErrForbidden, "produce:orders")
	_, err = client.OpenQueue(t.Context(), c, "other", queue.String())
	testkit.WantError(t, err, client.ErrForbidden)
}
