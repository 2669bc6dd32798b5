package etcd_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
)

// proxy is a TCP proxy between clients and a member, whose connections can be cut,
// and can be made to swallow what goes through them.
type proxy struct {
	listener net.Listener
	target   string
	group    sync.WaitGroup

	mu          sync.Mutex
	connections map[net.Conn]struct{}
	closed      bool
	swallows    bool
}

// newProxy runs until the test ends.
func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.NoError(t, err)
	p := &proxy{listener: listener, target: target, connections: make(map[net.Conn]struct{})}
	p.group.Go(p.accept)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		listener.Close()
		p.cut()
		p.group.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		if !p.keep(client, server) {
			return
		}
		for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
			p.group.Go(func() {
				_, _ = io.Copy(&valve{p, way[1]}, way[0])
				p.drop(client, server)
			})
		}
	}
}

func (p *proxy) keep(connections ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		if p.closed {
			c.Close()
		} else {
			p.connections[c] = struct{}{}
		}
	}
	return !p.closed
}

func (p *proxy) drop(connections ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range connections {
		c.Close()
		delete(p.connections, c)
	}
}

// cut breaks all connections. New ones can be made.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		c.Close()
		delete(p.connections, c)
	}
}

// swallow has everything that is sent from now on get lost, or not any more. A
// connection on which something got lost is broken then.
func (p *proxy) swallow(on bool) {
	p.mu.Lock()
	p.swallows = on
	p.mu.Unlock()
	if !on {
		p.cut()
	}
}

// valve writes to a connection, unless the proxy swallows.
type valve struct {
	p  *proxy
	to net.Conn
}

func (v *valve) Write(b []byte) (int, error) {
	v.p.mu.Lock()
	swallows := v.p.swallows
	v.p.mu.Unlock()
	if swallows {
		return len(b), nil
	}
	return v.to.Write(b)
}
