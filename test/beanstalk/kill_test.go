package beanstalk

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/beanstalkd/go-beanstalk"
)

var kills = flag.Int("kills", 3, "how often the server is killed under load")

// load is clients that put and do jobs while their server is killed, and what they know of these.
type load struct {
	t    *testing.T
	addr atomic.Value // of the server

	progress chan struct{} // one for each job that was put

	mu      sync.Mutex
	put     map[string]bool // acknowledged
	deleted map[string]bool // likewise
	trying  map[string]bool // to delete, so that it may be
}

// dial connects to the server as soon as there is one, or returns nil when ctx has ended.
func (l *load) dial(ctx context.Context) *client.Conn {
	for ctx.Err() == nil {
		if c, err := client.Dial("tcp", l.addr.Load().(string)); err == nil {
			return c
		}
	}
	return nil
}

func (l *load) produce(ctx context.Context, name string) {
	for n, c := 0, l.dial(ctx); c != nil; n++ {
		value := fmt.Sprintf("%s-%d", name, n)
		if _, err := client.NewTube(c, "load").Put([]byte(value), uint32(n%3), 0, time.Hour); err != nil {
			_ = c.Close()
			c = l.dial(ctx)
			continue
		}
		l.mu.Lock()
		l.put[value] = true
		l.mu.Unlock()
		select {
		case l.progress <- struct{}{}:
		case <-ctx.Done():
			_ = c.Close()
			return
		}
	}
}

// consume does jobs. Of some it dies instead.
func (l *load) consume(ctx context.Context) {
	for n, c := 1, l.dial(ctx); c != nil; n++ {
		again := l.do(c, time.Second, n%50 == 0)
		if again && ctx.Err() == nil {
			continue
		}
		_ = c.Close()
		c = l.dial(ctx)
	}
}

// do does a job, and tells whether the connection can be used again.
func (l *load) do(c *client.Conn, wait time.Duration, dies bool) bool {
	id, body, err := client.NewTubeSet(c, "load").Reserve(wait)
	if errors.Is(err, client.ErrTimeout) {
		return true
	}
	if err != nil || dies {
		return false
	}
	l.mu.Lock()
	if l.deleted[string(body)] {
		l.t.Errorf("%s was deleted, and came again", body)
	}
	l.trying[string(body)] = true
	l.mu.Unlock()
	if err := c.Delete(id); err != nil {
		return errors.Is(err, client.ErrNotFound)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deleted[string(body)] = true
	return true
}

// With a server that is killed under load nothing that it has acknowledged is lost: each job that was put is deleted,
// or there; none that was deleted comes again; and jobs of dead connections come back, long before their ttr is over.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	s := startConq(t, dir)
	defer func() { s.kill() }()
	l := &load{
		t: t, progress: make(chan struct{}), put: make(map[string]bool), deleted: make(map[string]bool), trying: make(map[string]bool),
	}
	l.addr.Store(s.addr)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() { l.produce(ctx, fmt.Sprint("p", i)) })
		group.Go(func() { l.consume(ctx) })
	}
	for range *kills {
		for range 500 {
			<-l.progress
		}
		s.kill()
		s = startConq(t, dir)
		l.addr.Store(s.addr)
	}
	stop()
	group.Wait()
	l.drain()
	for value := range l.put {
		if !l.trying[value] {
			t.Errorf("%s was put, and is lost", value)
		}
	}
	if len(l.put) < 500**kills || len(l.deleted) == 0 {
		t.Errorf("%d jobs were put and %d deleted: too few to tell", len(l.put), len(l.deleted))
	}
	t.Logf("%d jobs put, %d deleted", len(l.put), len(l.deleted))
}

// drain does what is left, when it is free again.
func (l *load) drain() {
	c := l.dial(l.t.Context())
	defer c.Close()
	for {
		stats, err := client.NewTube(c, "load").Stats()
		var gone client.ConnError
		if errors.As(err, &gone) && errors.Is(err, client.ErrNotFound) || err == nil && stats["current-jobs-ready"] == "0" && stats["current-jobs-reserved"] == "0" {
			return
		}
		check(l.t, err)
		if !l.do(c, 2*time.Second, false) {
			l.t.Fatal("the connection has failed")
		}
	}
}
