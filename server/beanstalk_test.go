package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/kvext"
	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// tubeClient speaks beanstalkd's protocol.
type tubeClient struct {
	net.Conn
	r *bufio.Reader
}

// tubes serves beanstalkd's protocol until the test ends, and returns the address.
func tubes(t *testing.T, s *Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.ServeBeanstalk(ctx, l) }()
	t.Cleanup(func() {
		stop()
		testkit.Check(t, <-done)
	})
	return l.Addr().String()
}

func dialTubes(t *testing.T, address string) *tubeClient {
	t.Helper()
	c, err := net.Dial("tcp", address)
	testkit.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &tubeClient{c, bufio.NewReader(c)}
}

// ask sends lines, and expects those of an answer.
func (c *tubeClient) ask(t *testing.T, lines string, want ...string) {
	t.Helper()
	_, err := io.WriteString(c, strings.ReplaceAll(lines, "\n", "\r\n")+"\r\n")
	testkit.NoError(t, err)
	for _, want := range want {
		got, err := c.r.ReadString('\n')
		testkit.NoError(t, err)
		testkit.Equal(t, lines, strings.TrimSuffix(got, "\r\n"), want)
	}
}

// reopened is a store as the next process has it.
type reopened struct {
	kv.DB
	signals kvext.Signals
}

func (r *reopened) Signals() *kvext.Signals { return &r.signals }

// A server gives back what connections to one that has died held, by whatever command, and nothing that a client of HTTP holds, whatever that
// calls itself. Each connection has a name.
func TestJobsOfDeadServer(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{})
	dead := listen(t, db, Options{}) // as the next one sees it: it does nothing more
	held := dialTubes(t, tubes(t, dead.Server))
	held.ask(t, "use mail\nwatch mail\nput 0 0 3600 1\na\nreserve", "USING mail", "WATCHING 2", "INSERTED 1", "RESERVED 1 1", "a")
	held.ask(t, "put 0 0 3600 1\nb", "INSERTED 2")
	other := dialTubes(t, tubes(t, dead.Server))
	other.ask(t, "use mail\nput 0 0 3600 1\nc\nreserve-job 3", "USING mail", "INSERTED 3", "RESERVED 3 1", "c")
	holder := "beanstalkd " + held.LocalAddr().String()
	status, body := dead.ask(t, post("/v1/jobs/mail/reserve?holder="+url.QueryEscape(holder), ""))
	if status != 200 || !strings.Contains(body, `"id":2`) {
		t.Fatalf("%d %s", status, body)
	}
	for id, want := range map[int]string{1: holder, 2: holder, 3: "beanstalkd " + other.LocalAddr().String()} {
		_, body := dead.ask(t, fmt.Sprintf("GET /v1/jobs/mail/%d HTTP/1.1\r\nHost: localhost\r\n\r\n", id))
		if !strings.Contains(body, `"holder":"`+want+`"`) {
			t.Errorf("job %d is not held by %s: %s", id, want, body)
		}
	}

	next := listen(t, &reopened{DB: db}, Options{})
	c := dialTubes(t, tubes(t, next.Server))
	c.ask(t, "watch mail\nreserve-with-timeout 0", "WATCHING 2", "RESERVED 1 1", "a")
	c.ask(t, "reserve-with-timeout 0\ndelete 3", "RESERVED 3 1", "c", "DELETED")
	c.ask(t, "reserve-with-timeout 0", "TIMED_OUT")
	held.ask(t, "touch 1\ndelete 1\ndelete 2", "NOT_FOUND", "NOT_FOUND", "NOT_FOUND")
	c.ask(t, "touch 1", "TOUCHED")
	again := dialTubes(t, tubes(t, next.Server)) // another listener of the same server
	again.ask(t, "watch mail\nreserve-with-timeout 0", "WATCHING 2", "TIMED_OUT")
	c.ask(t, "delete 1", "DELETED")
}

// Where other servers may share the store, a lease holds until it is over: its connection may be to one that lives.
func TestJobsOfOtherServer(t *testing.T) {
	db := testkit.NewMemory(t, kv.Limits{Shared: true})
	other := listen(t, db, Options{})
	held := dialTubes(t, tubes(t, other.Server))
	held.ask(t, "put 0 0 3600 1\na\nreserve", "INSERTED 1", "RESERVED 1 1", "a")
	c := dialTubes(t, tubes(t, listen(t, db, Options{}).Server))
	c.ask(t, "reserve-with-timeout 0", "TIMED_OUT")
	held.ask(t, "delete 1", "DELETED")
}
