package watch

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Requests returns a handler that measures requests, and logs them: those that have failed by the server's fault as errors, others
// at the level debug. What is logged is the pattern of the path and the name of the caller, not what a request says.
func (m *Metrics) Requests(log *slog.Logger, caller func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end := m.Begin("http")
		answer := &answer{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		verb := cmp.Or(r.Pattern, "none") // of the mux, which has set it
		answer.log(log, r, verb, end(verb, strconv.Itoa(answer.status)), caller(r))
	})
}

// log is a function of its own so that the stack of a request that waits has no room for attributes.
func (a *answer) log(log *slog.Logger, r *http.Request, verb string, took time.Duration, caller string) {
	level := slog.LevelDebug
	if a.status >= 500 && a.status != http.StatusServiceUnavailable {
		level = slog.LevelError
	}
	log.LogAttrs(r.Context(), level, "request", slog.String("verb", verb), slog.Int("status", a.status),
		slog.Duration("took", took), slog.Int64("bytes", a.bytes), slog.String("caller", caller), remote(r))
}

// Refused measures a request that was not let in, and logs it at the level debug.
func (m *Metrics) Refused(log *slog.Logger, r *http.Request, status int) {
	m.Begin("http")("refused", strconv.Itoa(status))
	log.LogAttrs(r.Context(), slog.LevelDebug, "request refused", slog.Int("status", status), remote(r))
}

func remote(r *http.Request) slog.Attr {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return slog.String("remote", host)
}

// answer knows what was answered.
type answer struct {
	http.ResponseWriter
	status int
	bytes  int64
	begun  bool
}

func (a *answer) WriteHeader(status int) {
	if !a.begun && status >= 200 {
		a.status, a.begun = status, true
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	n, err := a.ResponseWriter.Write(b)
	a.bytes += int64(n)
	return n, err
}

// Flush is for what is streamed.
func (a *answer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
