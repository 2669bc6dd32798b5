package beanstalk

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/server/internal/queues"
)

// Options are what a Server needs. All are needed but those with a default.
type Options struct {
	MaxJobSize     int           // bytes of the largest job. Default: 65535, as beanstalkd's
	MaxConnections int           // at once; others are closed as they come. Default: 65536
	Connections    *atomic.Int64 // counts those that there are, and others that MaxConnections is for. Default: those of this server alone
	Grace          time.Duration // how long commands under way may go on after Serve's context has ended
	Logger         *slog.Logger

	// Observe is told that a command has begun, and what it returns of its reply.
	Observe func(command string) (replied func(reply string))
}

// Server serves tubes. It is safe for concurrent use.
type Server struct {
	o       Options
	tubes   *tubes
	counts  counts
	id      string
	started time.Time

	draining atomic.Bool
	open     sync.WaitGroup // connections

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// New returns a server of the work queues of a set, which puts jobs that are findable, and stays the caller's.
func New(set *queues.Set, o Options) *Server {
	o.MaxJobSize = cmp.Or(o.MaxJobSize, 1<<16-1)
	o.MaxConnections = cmp.Or(o.MaxConnections, 1<<16)
	o.Connections = cmp.Or(o.Connections, new(atomic.Int64))
	var id [8]byte
	rand.Read(id[:]) // never fails
	s := &Server{
		o: o, tubes: newTubes(set), id: hex.EncodeToString(id[:]), started: time.Now(), conns: make(map[*conn]struct{}),
	}
	s.counts.verbs = make([]atomic.Int64, len(verbs))
	return s
}

// Drain has the server refuse new jobs from now on.
func (s *Server) Drain() { s.draining.Store(true) }

// Serve answers the connections of a listener, which it closes, until ctx ends. Then commands under way are finished,
// calls that wait return, jobs that connections hold are given back, and Serve returns nil.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	ctx, end := context.WithCancel(ctx)
	defer s.open.Wait()
	defer end()
	stop := context.AfterFunc(ctx, func() {
		_ = l.Close() // it may be closed already
		s.wake()
		time.AfterFunc(s.o.Grace, kill)
	})
	defer stop()
	for {
		nc, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = nc.Close()
			}
			return nil
		}
		if err != nil {
			if temporary(err) {
				s.o.Logger.Warn("beanstalk: no connection can be accepted", "error", err)
				pause(ctx, 50*time.Millisecond)
				continue
			}
			return errors.Join(err, l.Close())
		}
		s.accept(ctx, hard, nc)
	}
}

// temporary tells whether accepting may succeed later, as with too many open files.
func temporary(err error) bool {
	var e net.Error
	return errors.As(err, &e) && !errors.Is(err, net.ErrClosed)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// accept begins to serve a connection. ctx ends when it is to stop, hard when it is to stop what it does.
func (s *Server) accept(ctx, hard context.Context, nc net.Conn) {
	s.counts.connections.Add(1)
	if s.o.Connections.Add(1) > int64(s.o.MaxConnections) {
		_ = nc.Close() // it has sent nothing that could be lost
		s.o.Connections.Add(-1)
		return
	}
	c := newConn(s, ctx, hard, nc)
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	if ctx.Err() != nil {
		_ = nc.SetReadDeadline(past) // wake may have come before
	}
	s.open.Go(func() {
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
		s.o.Connections.Add(-1)
	})
}

// wake has connections see that the server stops: reads end at once, and writes soon.
func (s *Server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.nc.SetReadDeadline(past)
		_ = c.nc.SetWriteDeadline(time.Now().Add(time.Second))
	}
}

var past = time.Unix(1, 0)

// count returns how many connections are as f says.
func (s *Server) count(f func(*conn) bool) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if f(c) {
			n++
		}
	}
	return n
}
