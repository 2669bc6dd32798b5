package beanstalk

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/conq-go/conq/internal/testkit"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/server/internal/queues"
)

// What a line is parsed as says it again.
func FuzzParse(f *testing.F) {
	for word := range byName {
		f.Add([]byte(word))
		f.Add([]byte(word + " 1"))
		f.Add([]byte(word + " 1 2 3 4"))
		f.Add([]byte(word + " a-b 4294967295"))
	}
	f.Add([]byte("delete 18446744073709551616"))
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := parse(line)
		if err != nil {
			if err != errBadFormat && err != errUnknownCommand {
				t.Fatal(err)
			}
			return
		}
		if c.verb == nil || len(line) > maxLine-2 || bytes.ContainsAny(line, "\x00") {
			t.Fatalf("%q is %+v", line, c)
		}
		if c.tube != "" && (!isName(c.tube) || !bytes.Contains(line, []byte(c.tube))) {
			t.Fatalf("%q has the tube %q", line, c.tube)
		}
		if c.name != "quit" {
			words := strings.Fields(string(line))
			again, err := parse([]byte(strings.Join(words, " ")))
			if err != nil || again != c {
				t.Fatalf("%q is %+v, with single spaces %+v, %v", line, c, again, err)
			}
		}
	})
}

// Whatever a client sends, the server answers, and others can work.
func FuzzConnection(f *testing.F) {
	f.Add([]byte("put 0 0 0 3\r\nabc\r\nreserve\r\nstats-job 1\r\ndelete 1\r\n"))
	f.Add([]byte("put 0 0 1 1\r\nabc\r\nwatch a\r\nignore default\r\nreserve-with-timeout 0\r\nkick 3\r\npeek-buried\r\n"))
	f.Add([]byte("watch a\r\nuse a\r\nput 1 0 1 0\r\n\r\nreserve-job 1\r\nbury 1 2\r\nkick-job 1\r\nlist-tubes\r\nstats\r\npause-tube a 1\r\nreserve\r\n"))
	f.Add(bytes.Repeat([]byte("x"), 1000))
	db := memory.New(memory.Options{})
	f.Cleanup(func() { db.Close() })
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > readBuffer {
			return // behind a reserve that waits the server reads no more than that
		}
		w := newWorld(t, db, Options{})
		defer w.end()
		here, there := net.Pipe()
		w.listen.conns <- there
		go func() {
			_, _ = here.Write(data) // the server may have ended the connection
			_ = here.Close()
		}()
		_, _ = io.Copy(io.Discard, here) // until both have ended
		c := w.dial()
		defer c.close()
		c.ask("list-tube-used", "USING default")
		q, release, err := w.set.Work(t.Context(), defaultTube, queues.Create)
		testkit.NoError(t, err)
		defer release()
		testkit.NoError(t, q.Clear(t.Context()))
	})
}
