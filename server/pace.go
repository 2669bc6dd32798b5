package server

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/conq-go/conq/server/internal/access"
)

// paced ends requests whose client gives or takes nothing for Options.StallTimeout, and panics of handlers. How long a
// request waits for items does not count.
func (s *Server) paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		p := &pacedWriter{ResponseWriter: w, control: control, stall: s.options.StallTimeout, shared: r.ProtoMajor > 1}
		if r.Body != nil && r.Body != http.NoBody {
			if r.Header.Get("Expect") != "" {
				p.extend() // it is answered when the body is read
			}
			p.body = &pacedBody{ReadCloser: r.Body, control: control, stall: s.options.StallTimeout}
			r.Body = p.body
			_ = control.SetReadDeadline(time.Now().Add(s.options.StallTimeout)) // for what the handler leaves, too
		}
		defer s.recovered(p, r)
		next.ServeHTTP(p, r)
	})
}

// recovered ends a handler's panic, unless it is one by which handlers end a connection.
func (s *Server) recovered(w *pacedWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler || w.failed { // it can't tell the client any more
		panic(http.ErrAbortHandler)
	}
	s.options.Logger.Error("panic", "method", r.Method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	if w.begun {
		panic(http.ErrAbortHandler)
	}
	access.NewProblem(http.StatusInternalServerError, "the server has a bug, which is in its log now").Write(w)
}

// pacedWriter gives each write a time. Where the handler's server has no deadlines, there are none.
type pacedWriter struct {
	http.ResponseWriter
	control       *http.ResponseController
	stall         time.Duration
	body          *pacedBody // nil if there is none
	shared        bool       // the connection, with other requests of HTTP/2
	begun, failed bool
}

func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *pacedWriter) extend() { _ = w.control.SetWriteDeadline(time.Now().Add(w.stall)) }

func (w *pacedWriter) WriteHeader(status int) {
	w.begun = true
	if w.body != nil && !w.body.ended && !w.shared { // else the server waits for the rest before it answers
		w.Header().Set("Connection", "close")
	}
	w.extend()
	w.ResponseWriter.WriteHeader(status)
}

func (w *pacedWriter) Write(b []byte) (int, error) {
	w.begun = true
	w.extend()
	n, err := w.ResponseWriter.Write(b)
	w.failed = w.failed || err != nil
	return n, err
}

// pacedBody gives each read a time. Once the body is read there is none, as the server goes on to read in order to
// see whether the client goes away.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	stall   time.Duration
	ended   bool
}

func (b *pacedBody) Read(p []byte) (int, error) {
	if !b.ended {
		_ = b.control.SetReadDeadline(time.Now().Add(b.stall))
	}
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && !b.ended {
		b.ended = true
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// limitConnections ends connections that are too many, or come while the server stops. It is called when one begins, sends its first
// byte, and ends.
func (s *Server) limitConnections(c net.Conn, state http.ConnState) {
	if state != http.StateNew {
		s.silent.Delete(c)
	}
	switch state {
	case http.StateNew:
		s.silent.Store(c, nil)
		if s.connections.Add(1) <= s.options.MaxConnections {
			if s.stopping.Err() != nil {
				_ = c.Close()
			}
			return
		}
		if _, plain := c.(*net.TCPConn); plain {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(c, tooManyConnections)
		}
		_ = c.Close()
	case http.StateClosed, http.StateHijacked:
		s.connections.Add(-1)
	}
}

const tooManyConnections = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" +
	`{"title":"Service Unavailable","status":503,"detail":"there are too many connections"}`

// notFound says what there is in place of what there is not.
func notFound(mux *http.ServeMux) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		other := *r // of which a mux looks at the method, the host and the path alone
		for _, other.Method = range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if _, pattern := mux.Handler(&other); pattern != "/" && pattern != "" {
				allowed = append(allowed, other.Method)
			}
		}
		if len(allowed) == 0 {
			access.NewProblem(http.StatusNotFound, "there is nothing here: /openapi.json describes what there is").Write(w)
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		access.NewProblem(http.StatusMethodNotAllowed, "the method is %.20q: it can be %s", r.Method, strings.Join(allowed, ", ")).Write(w)
	}
}
