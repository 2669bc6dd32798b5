package cli

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/server"
)

// leaving is a way to a server that is away from its second request on, for some time.
type leaving struct {
	http.Handler
	refuses  bool // or else it says that its store does not answer
	first    bool // from the first request on
	lasts    time.Duration
	mu       sync.Mutex // of what follows: ls asks for several queues at once
	since    time.Time
	requests int
}

func (l *leaving) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.away() {
		if l.refuses {
			return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
		}
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
	}
	w := httptest.NewRecorder()
	r.RemoteAddr = "127.0.0.1:1"
	if r.Body == nil {
		r.Body = http.NoBody
	}
	l.ServeHTTP(w, r)
	return w.Result(), nil
}

func (l *leaving) away() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.requests++; l.since.IsZero() && (l.first || l.requests > 2) {
		l.since = time.Now()
	}
	return !l.since.IsZero() && time.Since(l.since) < l.lasts
}

// A command waits for a server that is away, or whose store is, as it does for a store, and says so.
func TestServerAway(t *testing.T) {
	for _, command := range []string{"enqueue q a", "push p --priority 1 a", "put w a", "dequeue q", "pop p", "peek q", "ls", "stat q", "move q q2", "purge q --yes",
		"jobs w", "bury w --all-matching all", "pause w", "resume w", "set w --concurrency 3", "rm q --yes"} {
		for _, refuses := range []bool{false, true} {
			for _, first := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					db := memory.New(memory.Options{})
					s, err := server.New(db, server.Options{Logger: slog.New(slog.DiscardHandler)})
					testkit.NoError(t, err)
					run := func(way *leaving, command string) (code int, stderr string) {
						errs := new(written)
						a := &app{stdin: strings.NewReader(""), stdout: new(written), stderr: errs, transport: way}
						code = a.run(t.Context(), append(strings.Fields(command), "--store", "http://127.0.0.1:1"))
						synctest.Wait() // nobody writes any more
						return code, errs.String()
					}
					for _, before := range []string{"enqueue q b", "push p --priority 1 b", "put w b"} {
						if code, says := run(&leaving{Handler: s}, before); code != 0 {
							t.Fatalf("%s: %d, %s", before, code, says)
						}
					}
					way := &leaving{Handler: s, refuses: refuses, first: first, lasts: 25 * time.Second}
					if !first {
						way.lasts = 3 * time.Minute
					}
					code, says := run(way, command)
					if code != 0 || !strings.Contains(says, "no answer from http://127.0.0.1:1") {
						t.Errorf("%s, refuses %v, at first %v: %d, %q", command, refuses, first, code, says)
					}
					testkit.NoError(t, s.Close())
					testkit.NoError(t, db.Close())
				})
			}
		}
	}
}
