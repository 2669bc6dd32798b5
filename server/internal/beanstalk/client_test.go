package beanstalk

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/server/internal/queues"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipes is a listener whose connections are in memory, so that time can be the test's.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// world is a server with a store, whose clients are in the same process.
type world struct {
	t *testing.T
	*Server
	set    *queues.Set
	listen *pipes
	stop   context.CancelFunc
}

// inWorld runs a test with time of its own.
func inWorld(t *testing.T, o Options, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db := memory.New(memory.Options{})
		defer db.Close()
		w := newWorld(t, db, o)
		defer w.end()
		test(w)
	})
}

func newWorld(t *testing.T, db kv.DB, o Options) *world {
	set := queues.New(db, queues.Options{})
	o.Grace, o.Logger = cmp.Or(o.Grace, 5*time.Second), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Observe == nil {
		o.Observe = func(string) func(string) { return func(string) {} }
	}
	w := &world{t: t, Server: New(set, o), set: set, listen: newPipes()}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- w.Serve(ctx, w.listen) }()
	stop := w.stop
	w.stop = func() { stop(); testkit.NoError(t, <-served) }
	return w
}

func (w *world) end() {
	w.stop()
	testkit.NoError(w.t, w.set.Close())
}

// client is a connection of a test.
type client struct {
	t  *testing.T
	nc net.Conn
	r  *bufio.Reader
}

func (w *world) dial() *client {
	here, there := net.Pipe()
	w.listen.conns <- there
	return newClient(w.t, here)
}

func newClient(t *testing.T, nc net.Conn) *client { return &client{t, nc, bufio.NewReader(nc)} }

// send sends text, in which each line gets its CR-LF.
func (c *client) send(text string) {
	c.t.Helper()
	testkit.Check(c.t, c.write(text+"\n"))
}

func (c *client) write(text string) error {
	_, err := io.WriteString(c.nc, strings.ReplaceAll(text, "\n", "\r\n"))
	return err
}

// reply returns the next one, without CRs, data included.
func (c *client) reply() string {
	c.t.Helper()
	line, err := c.r.ReadString('\n')
	testkit.Check(c.t, err)
	line = strings.TrimSuffix(line, "\r\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		c.t.Fatalf("empty reply")
	}
	switch words[0] {
	case "RESERVED", "FOUND", "OK":
		n, err := strconv.Atoi(words[len(words)-1])
		testkit.Check(c.t, err)
		data := make([]byte, n+2)
		_, err = io.ReadFull(c.r, data)
		testkit.Check(c.t, err)
		return line + "\n" + strings.TrimSuffix(string(data), "\r\n")
	}
	return line
}

// ask sends a command and compares its reply.
func (c *client) ask(command, want string) {
	c.t.Helper()
	c.send(command)
	c.want(command, want)
}

func (c *client) want(command, want string) {
	c.t.Helper()
	if got := c.reply(); got != want {
		c.t.Fatalf("%.80q has the reply %q, want %q", command, got, want)
	}
}

// stats returns a field of YAML.
func (c *client) stats(command, name string) string {
	c.t.Helper()
	c.send(command)
	data := c.reply()
	for line := range strings.Lines(data) {
		if value, is := strings.CutPrefix(line, name+": "); is {
			return strings.TrimSuffix(value, "\n")
		}
	}
	c.t.Fatalf("%s has no %q: %s", command, name, data)
	return ""
}

func (c *client) wantStats(command string, fields ...any) {
	c.t.Helper()
	for i := 0; i < len(fields); i += 2 {
		name := fields[i].(string)
		if got, want := c.stats(command, name), fmt.Sprint(fields[i+1]); got != want {
			c.t.Errorf("%s: %s is %s, want %s", command, name, got, want)
		}
	}
}

// ended expects that the server has closed the connection.
func (c *client) ended() {
	c.t.Helper()
	if b, err := c.r.ReadByte(); err == nil {
		c.t.Fatalf("the connection goes on with %q", b)
	}
}

func (c *client) close() { testkit.NoError(c.t, c.nc.Close()) }
