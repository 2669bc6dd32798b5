package server

import (
	"context"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv"
)

// vanish has a connection be gone as its host would be that has lost power: the server hears nothing of that.
func vanish(t *testing.T, c net.Conn) {
	t.Helper()
	const tcpRepair = 19
	raw, err := c.(*net.TCPConn).SyscallConn()
	testkit.NoError(t, err)
	var failed error
	testkit.NoError(t, raw.Control(func(fd uintptr) { failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpRepair, 1) }))
	if failed != nil {
		t.Skipf("this needs the right to administer the network: %v", failed)
	}
	testkit.NoError(t, c.Close())
}

// A client whose host is gone while it waits takes nothing once the listener's keep-alive has noticed that, by HTTP and by beanstalkd's protocol;
// the jobs that it held are back.
func TestHalfOpen(t *testing.T) {
	testkit.Long(t)
	s, err := New(testkit.NewMemory(t, kv.Limits{}), Options{})
	testkit.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	var addresses []string
	for _, serve := range []func(context.Context, net.Listener) error{s.Serve, s.ServeBeanstalk} {
		alive := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 1}}
		l, err := alive.Listen(ctx, "tcp", "127.0.0.1:0")
		testkit.NoError(t, err)
		addresses = append(addresses, l.Addr().String())
		go func() { done <- serve(ctx, l) }()
	}
	defer func() {
		stop()
		testkit.Check(t, <-done)
		testkit.Check(t, <-done)
		testkit.Check(t, s.Close())
	}()

	healthy := dialTubes(t, addresses[1])
	healthy.ask(t, "put 0 0 3600 1\na", "INSERTED 1")
	gone := dialTubes(t, addresses[1])
	gone.ask(t, "reserve", "RESERVED 1 1", "a")
	io.WriteString(gone, "reserve\r\n")
	l := &listening{Server: s, addr: addresses[0]}
	l.ask(t, post("/v1/queues/q/items", `{"items":[{"text":"a"}]}`))
	l.ask(t, post("/v1/queues/q/take", ""))
	waiting := l.dial(t)
	io.WriteString(waiting, post("/v1/queues/q/take?wait=1h", ""))
	for s.connections.Load() < 3 { // it has come, beside the two of beanstalkd
	}
	vanish(t, waiting)
	vanish(t, gone.Conn)
	healthy.ask(t, "reserve", "RESERVED 1 1", "a")
	for s.connections.Load() > 1 { // it was noticed, and that of the worker, too
	}
	l.ask(t, post("/v1/queues/q/items", `{"items":[{"text":"b"}]}`))
	_, body := l.ask(t, post("/v1/queues/q/take", ""))
	testkit.Equal(t, "item", body, `{"items":[{"text":"b"}]}`+"\n")
}
