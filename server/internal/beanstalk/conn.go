package beanstalk

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq/work"
)

const (
	readBuffer  = 1 << 10 // bytes a connection has for what its client has sent
	writeBuffer = 2 << 10 // bytes of replies at which they are sent, though there are more commands
	smallBody   = 4 << 10 // bytes that a job may have room for before they come
	maxWatched  = 4096    // tubes
)

// conn is a connection. Its goroutine alone uses what is not said to be others', too.
type conn struct {
	s      *Server
	stop   context.Context // ends when the server stops
	ctx    context.Context // of commands; ends some time later
	nc     net.Conn
	r      *bufio.Reader
	w      *bufio.Writer
	word   string // the first of the last reply
	broken error  // why no more can be read or sent

	used    *tube
	watched []*tube             // in the order in which the client has named them
	lease   work.ReserveOptions // ends with the connection, so with the process
	held    map[work.ID]*held
	first   time.Time // no lease of held is over before that

	source      source // of the tubes that are watched and not paused, named by sourceKey, or nil
	sourceKey   string
	leaveSource func()

	producer, worker atomic.Bool // read by others
}

// held is a job that a connection has reserved.
type held struct {
	*work.Lease[[]byte]
	leave func() // its queue, with which leases end
}

func newConn(s *Server, stop, ctx context.Context, nc net.Conn) *conn {
	c := &conn{s: s, stop: stop, ctx: ctx, nc: nc, w: bufio.NewWriterSize(nc, writeBuffer), held: make(map[work.ID]*held)}
	c.r = bufio.NewReaderSize(c, readBuffer)
	c.lease = work.ReserveOptions{Holder: "beanstalkd " + nc.RemoteAddr().String(), InProcess: true}
	return c
}

// Read reads from the client, which may wait for replies before it sends more.
func (c *conn) Read(b []byte) (int, error) {
	if err := c.w.Flush(); err != nil {
		return 0, err
	}
	return c.nc.Read(b)
}

var errQuit = errors.New("quit")

// serve answers commands until the client ends, or the server.
func (c *conn) serve() {
	defer c.end()
	c.used = c.s.tubes.update(defaultTube, func(t *tube) { t.using++ })
	c.watched = []*tube{c.s.tubes.update(defaultTube, func(t *tube) { t.watched++ })}
	for c.stop.Err() == nil {
		line, err := c.readLine()
		if err == nil {
			err = c.answer(line)
		}
		if err != nil {
			break // the client has gone, or cannot be understood any more
		}
	}
	_ = c.w.Flush() // it may have gone
}

// end gives back what the connection has.
func (c *conn) end() {
	_ = c.nc.Close() // first, so that the client knows before others have its jobs
	c.giveBack()
	c.dropSource()
	c.s.tubes.left(c.used.name, func(t *tube) { t.using-- })
	for _, t := range c.watched {
		c.s.tubes.left(t.name, func(t *tube) { t.watched-- })
	}
}

var crlf = []byte("\r\n")

// readLine returns a line without its CR-LF, valid until the next read, or nil for one that is too long, which is
// skipped.
func (c *conn) readLine() (line []byte, err error) {
	tooLong := false
	for {
		b, _ := c.r.Peek(c.r.Buffered())
		i := bytes.Index(b, crlf)
		switch {
		case i >= 0 && (tooLong || i+len(crlf) > maxLine):
			_, _ = c.r.Discard(i + len(crlf)) // it is buffered
			return nil, nil
		case i >= 0:
			_, _ = c.r.Discard(i + len(crlf))
			return b[:i], nil
		case len(b) >= maxLine:
			tooLong = true
			_, _ = c.r.Discard(len(b) - 1) // the last one may be a CR
		}
		if _, err := c.r.Peek(c.r.Buffered() + 1); err != nil {
			return nil, err
		}
	}
}

// readBody returns a job's body and the two bytes behind it. Room is made for a large one as it comes.
func (c *conn) readBody(n int) ([]byte, error) {
	if n <= smallBody {
		body := make([]byte, n)
		_, err := io.ReadFull(c.r, body)
		return body, err
	}
	var body bytes.Buffer
	_, err := io.CopyN(&body, c.r, int64(n))
	return body.Bytes(), err
}

// breakOff has the connection end after the command that is under way.
func (c *conn) breakOff(err error) error {
	c.broken = err
	return err
}

// reply replies with a line.
func (c *conn) reply(line string) error {
	c.word, _, _ = strings.Cut(line, " ")
	return c.write([]byte(line))
}

// replyData replies with a line that ends with the size of data, and data.
func (c *conn) replyData(line string, data []byte) error {
	if err := c.reply(line + " " + strconv.Itoa(len(data))); err != nil {
		return err
	}
	return c.write(data)
}

// write appends what CR-LF ends to what is to be sent.
func (c *conn) write(b []byte) error {
	_, _ = c.w.Write(b) // after an error each write has it
	if _, err := c.w.Write(crlf); err != nil {
		return c.breakOff(err)
	}
	return nil
}

// patience is how long a connection waits before it begins to notice that its client goes.
const patience = 10 * time.Millisecond

// watchInput calls gone when the client has nothing more to send, until the caller calls end, which comes before the
// next read. It reads ahead what it has room for.
func (c *conn) watchInput(gone func()) (end func()) {
	done := make(chan struct{})
	timer := time.AfterFunc(patience, func() {
		defer close(done)
		for n := c.r.Buffered() + 1; n <= c.r.Size(); n = c.r.Buffered() + 1 {
			if _, err := c.r.Peek(n); err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					gone()
				}
				return
			}
		}
	})
	return func() {
		if timer.Stop() {
			return
		}
		_ = c.nc.SetReadDeadline(past) // a connection that is closed has none, and its read ends, too
		<-done
		_ = c.nc.SetReadDeadline(time.Time{})
		if c.stop.Err() != nil {
			_ = c.nc.SetReadDeadline(past) // as the server has, perhaps before this
		}
	}
}
