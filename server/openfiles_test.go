package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// What the store needs of the files that can be open is not for connections.
func TestMostConnections(t *testing.T) {
	for files, want := range map[int64]int64{unknown: usualConnections, 1 << 20: usualConnections, 1024: 884, 256: 116, 64: fewestConnections} {
		if got := mostConnections(files); got != want {
			t.Errorf("of %d files %d are for connections, want %d", files, got, want)
		}
	}
	if got := openFiles(); got < 20 {
		t.Errorf("%d files can be open", got)
	}
}

// The connections of both protocols are counted together.
func TestConnectionsShared(t *testing.T) {
	s, err := New(testkit.NewMemory(t, kv.Limits{}), Options{MaxConnections: 2})
	testkit.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	listen := func(serve func(context.Context, net.Listener) error) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.NoError(t, err)
		serving.Go(func() { testkit.Check(t, serve(ctx, l)) })
		return l.Addr().String()
	}
	tubes, pages := listen(s.ServeBeanstalk), listen(s.Serve)
	defer serving.Wait()
	defer stop()
	use := func() (c net.Conn, reply string) {
		c, err := net.Dial("tcp", tubes)
		testkit.NoError(t, err)
		_, _ = io.WriteString(c, "use x\r\n")
		reply, _ = bufio.NewReader(c).ReadString('\n')
		return c, reply
	}
	for range 2 {
		c, reply := use()
		defer c.Close()
		testkit.Equal(t, "reply", reply, "USING x\r\n")
	}
	c, reply := use()
	testkit.NoError(t, c.Close())
	testkit.Equal(t, "reply to one too many", reply, "")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + pages + "/healthz")
	if err == nil {
		testkit.NoError(t, r.Body.Close())
		testkit.Equal(t, "status beside connections of the other protocol", r.StatusCode, http.StatusServiceUnavailable)
	}
}
