package server

import (
	"net/http"
	"net/http/pprof"

	"github.com/conq-go/conq/server/internal/access"
	"github.com/conq-go/conq/server/internal/dashboard"
	"github.com/conq-go/conq/server/internal/watch"
)

// registerWatching adds what operators look at to a mux. Profiles have what is in memory, so they are for who may do all.
func (s *Server) registerWatching(mux *http.ServeMux) {
	mux.Handle("GET /metrics", access.Needs(access.Watch, s.metrics.Handler()))
	for path, handler := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile, "/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.Handle("GET "+path, access.Needs(access.Admin, handler))
	}
}

// guard returns what says who may come in.
func (s *Server) guard() *access.Guard {
	return access.NewGuard(access.Options{
		Tokens: s.options.Tokens.of(), Identify: s.options.Identify, Hosts: s.options.Hosts, Public: append([]string{"/healthz", "/readyz"}, dashboard.Public()...),
		Login:   dashboard.SignInPath,
		Refused: func(r *http.Request, status int) { s.metrics.Refused(s.options.Logger, r, status) },
	})
}

// guarded lets requests through to a handler that may come in, and watches them.
func (s *Server) guarded(guard *access.Guard, next http.Handler) http.Handler {
	caller := func(r *http.Request) string { return access.From(r.Context()).Name }
	return guard.Handler(watch.Traced(s.options.TracerProvider, s.metrics.Requests(s.options.Logger, caller, next)))
}

// both returns what calls one and then the other.
func both[E any](f, g func(E)) func(E) {
	return func(e E) {
		f(e)
		g(e)
	}
}
