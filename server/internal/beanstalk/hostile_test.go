package beanstalk

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/conq-go/conq/internal/testkit"
)

// counting is a connection that counts what was written to it.
type counting struct {
	net.Conn
	n atomic.Int64
}

func (c *counting) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// A client that never reads replies is not read from for long, so that what the server has for it stays small. Others are served.
func TestNoReader(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		c.ask("put 0 0 9 60000\n"+strings.Repeat("x", 60000), "INSERTED 1")
		for _, command := range []string{"peek 1\r\n", "stats\r\n", "list-tubes\r\n", "\r\n", strings.Repeat("y", 300) + "\r\n"} {
			deaf := w.dial()
			sent := &counting{Conn: deaf.nc}
			go io.Copy(sent, strings.NewReader(strings.Repeat(command, 100_000)))
			synctest.Wait() // nothing goes on
			if n := sent.n.Load(); n > 100_000*int64(len(command))/2 {
				t.Errorf("%.10q: %d bytes were read of a client that reads nothing", command, n)
			}
			c.ask("list-tube-used", "USING default")
			deaf.close()
			synctest.Wait()
		}
		c.ask("delete 1", "DELETED")
		c.close()
	})
}

func (s *Server) connections() (all []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// A line that never ends is dropped as it comes, and what is no line any more is one bad command.
func TestLineWithoutEnd(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		for range 100 {
			testkit.NoError(t, c.write(strings.Repeat("\r", 10_000)+strings.Repeat("put \x00", 10_000)))
		}
		for _, other := range w.connections() {
			testkit.Equal(t, "buffer", other.r.Size(), readBuffer)
		}
		c.ask("", "BAD_FORMAT")
		c.ask("list-tube-used", "USING default")
	})
}

// Jobs that are announced and do not come take no memory, and go when their connections do.
func TestBodyThatNeverComes(t *testing.T) {
	inWorld(t, Options{MaxJobSize: 1 << 30}, func(w *world) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var all []*client
		for range 100 {
			c := w.dial()
			c.send("put 0 0 1 1073741824\nx")
			all = append(all, c)
		}
		synctest.Wait()
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 50<<20 {
			t.Errorf("%d bytes were allocated", after.TotalAlloc-before.TotalAlloc)
		}
		c := w.dial()
		c.ask("list-tube-used", "USING default")
		for _, c := range append(all, c) {
			c.close()
		}
		synctest.Wait()
		testkit.Equal(t, "connections", len(w.connections()), 0)
	})
}

// A connection can watch as many tubes as can be in use, and no more.
func TestManyTubes(t *testing.T) {
	testkit.Long(t)
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		name := func(i int) string { return fmt.Sprintf("%0200d", i) }
		for i := 1; i < maxWatched; i++ {
			c.ask("watch "+name(i), fmt.Sprint("WATCHING ", i+1))
		}
		c.ask("watch "+name(0), "OUT_OF_MEMORY")
		c.ask("watch "+name(1), fmt.Sprint("WATCHING ", maxWatched))
		c.ask("use "+name(1), "USING "+name(1))
		c.ask("put 0 0 9 1\na", "INSERTED 1")
		c.ask("reserve", "RESERVED 1 1\na")
		c.ask("delete 1", "DELETED")
		c.ask("ignore "+name(1), fmt.Sprint("WATCHING ", maxWatched-1))
		c.ask("reserve-with-timeout 0", "TIMED_OUT")
	})
}

// A tube that is only used, watched and waited at leaves no queue behind; one exists with its first job.
func TestWatchedTubesLeaveNoQueues(t *testing.T) {
	inWorld(t, Options{}, func(w *world) {
		c := w.dial()
		defer c.close()
		for i := range 20 {
			c.ask(fmt.Sprint("watch t", i), fmt.Sprint("WATCHING ", i+2))
			c.ask(fmt.Sprint("use t", i), fmt.Sprint("USING t", i))
			c.ask("reserve-with-timeout 0", "TIMED_OUT")
		}
		names := func() (all []string) {
			infos, err := w.set.All(t.Context())
			testkit.NoError(t, err)
			for _, info := range infos {
				all = append(all, info.Name)
			}
			return all
		}
		testkit.EqualSlices(t, "queues", names(), nil)
		c.ask("put 0 0 9 1\na", "INSERTED 1")
		testkit.EqualSlices(t, "queues", names(), []string{"t19"})
		c.ask("reserve-with-timeout 0", "RESERVED 1 1\na")
	})
}
