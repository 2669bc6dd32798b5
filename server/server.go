// Package server serves the queues of a store to programs in any language: over HTTP, and by beanstalkd's protocol.
//
// A [Server] adds nothing to what a queue means. Each request is a verb of packages conq and work, so that requests
// which come at the same time share transactions, and what is acknowledged is as durable as the store promises.
//
//	db, err := conq.Open("data")
//	s, err := server.New(db, server.Options{})
//	listener, err := net.Listen("tcp", "127.0.0.1:7711")
//	err = s.Serve(ctx, listener) // until ctx ends
//
// docs/reference/http.md describes the API, and docs/reference/openapi.yaml each of its requests.
package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/options"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server/internal/answers"
	"github.com/conq-go/conq/server/internal/api"
	"github.com/conq-go/conq/server/internal/beanstalk"
	"github.com/conq-go/conq/server/internal/dashboard"
	"github.com/conq-go/conq/server/internal/queues"
	"github.com/conq-go/conq/server/internal/watch"
	"github.com/conq-go/conq/work"
	"go.opentelemetry.io/otel/trace"
)

// Options are the choices of a Server. The zero value is the default.
type Options struct {
	// MaxBody is the largest body of a request, in bytes. Default: 64 MiB.
	MaxBody int64

	// MaxWaiters is how many requests may wait at once. Default: 20000.
	MaxWaiters int64

	// MaxJobSize is the largest job that beanstalkd's protocol puts, in bytes. Default: 65535.
	MaxJobSize int

	// MaxQueues is how many queues may be in use at once. Default: 4096.
	MaxQueues int

	// MaxConnections is how many connections to Serve and ServeBeanstalk there may be at once; further ones get a 503, or are closed.
	// Default: 20000, or fewer where that many files can't be open: 140 of these are the store's and the process's.
	MaxConnections int64

	// HeaderTimeout is how long the head of a request may take. Default: 10 s.
	HeaderTimeout time.Duration

	// StallTimeout is how long a client may give nothing of its request, or take nothing of the answer. Default: 30 s.
	StallTimeout time.Duration

	// IdleTimeout is how long a connection may stay without a request. Default: 5 minutes.
	IdleTimeout time.Duration

	// MaxLabels is how many queues have metrics of their own until they are deleted; all others are one. Default: 1000.
	MaxLabels int

	// Grace is how long requests under way may go on after Serve's context has ended. Default: 5 s.
	Grace time.Duration

	// Tokens are those that callers of HTTP may have. Default: none, so that everybody may do everything, but only over the
	// loopback interface.
	Tokens *Tokens

	// Identify is for programs that know their users, in place of Tokens. It returns the name of a request's caller, which is
	// logged with what the caller does, and what the caller may, in the form of a token's scopes: "admin", or "watch",
	// "consume:orders.*". If ok is false the request is refused. It does not concern beanstalkd's protocol. Default: none.
	Identify func(*http.Request) (name string, scopes []string, ok bool)

	// Hosts are names, without a port, by which browsers may reach the server. Default: any with Tokens or Identify, else
	// those of the loopback interface.
	Hosts []string

	// Certificate has Serve speak TLS. Default: none.
	Certificate *Certificate

	// Insecure allows an address that others can reach without TLS, as something else sees to that. Default: it is refused.
	Insecure bool

	// Traces has the traceparent and tracestate of a request go into the metadata of the jobs that it puts, for package
	// work/tracing. Default: they are dropped, unless there is a TracerProvider.
	Traces bool

	// TracerProvider gets a span of each request, in the trace that its traceparent names; jobs that it puts go on from that
	// span. Default: none.
	TracerProvider trace.TracerProvider

	// Logger gets what an operator may want to know. Default: none.
	Logger *slog.Logger
}

func (o *Options) complete() error {
	smallest := min(o.MaxBody, o.MaxWaiters, o.MaxConnections, int64(o.MaxJobSize), int64(o.MaxQueues), int64(o.MaxLabels))
	if smallest < 0 || min(o.HeaderTimeout, o.StallTimeout, o.IdleTimeout, o.Grace) < 0 {
		return errors.New("server: a limit is negative: they are from 0 on, which is the default")
	}
	if o.Tokens != nil && o.Identify != nil {
		return errors.New("server: there are Tokens and Identify: only one of them can say who may do what")
	}
	o.MaxBody = cmp.Or(o.MaxBody, 64<<20)
	o.MaxWaiters = cmp.Or(o.MaxWaiters, 20000)
	o.MaxQueues = cmp.Or(o.MaxQueues, 4096)
	o.MaxLabels = cmp.Or(o.MaxLabels, 1000)
	o.MaxConnections = cmp.Or(o.MaxConnections, mostConnections(openFiles()))
	o.HeaderTimeout = cmp.Or(o.HeaderTimeout, 10*time.Second)
	o.StallTimeout = cmp.Or(o.StallTimeout, 30*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 5*time.Minute)
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return nil
}

// maxHeader is the largest head of a request, in bytes. net/http allows 4096 more.
const maxHeader = 32 << 10

// Server serves a store. It is an http.Handler for those who have a server of their own, and it is safe for
// concurrent use.
type Server struct {
	options   Options
	queues    *queues.Set
	tubes     *queues.Set // those of beanstalk
	beanstalk *beanstalk.Server
	history   *watch.History
	metrics   *watch.Metrics
	tasks     sync.WaitGroup // that run until stopping
	bulk      queues.Tasks   // what operators have begun
	http      *http.Server
	handler   http.Handler
	stopping  context.Context // ends when the server begins to stop
	stop      context.CancelFunc
	ready     atomic.Bool

	connections atomic.Int64
	silent      sync.Map // net.Conn that has sent nothing yet
}

// New returns a server of a store. The store stays the caller's, to be closed after the server, which looks at it
// once a second until Close or Shutdown.
func New(db kv.DB, opts ...Options) (*Server, error) {
	o, err := options.Only(opts)
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if db == nil {
		return nil, fmt.Errorf("%w: server: store is nil", kv.ErrInvalid)
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Server{options: o, history: watch.NewHistory()}
	s.metrics = watch.NewMetrics(watch.Options{History: s.history, MaxQueues: o.MaxLabels, Store: db})
	of := queues.Options{
		MaxOpen: o.MaxQueues,
		Observe: both(s.history.ObserveItems, s.metrics.ObserveItems),
		Work:    work.Options{Logger: o.Logger, Observe: both(s.history.ObserveJobs, s.metrics.ObserveJobs)},
	}
	s.queues = queues.New(db, of)
	s.tubes = queues.New(db, of)
	s.beanstalk = beanstalk.New(s.tubes, beanstalk.Options{MaxJobSize: o.MaxJobSize, MaxConnections: int(o.MaxConnections), Connections: &s.connections, Grace: o.Grace, Logger: o.Logger, Observe: s.observeCommand})
	s.stopping, s.stop = context.WithCancel(context.Background())
	sampler := watch.NewSampler(db, s.history)
	sampler.OnList(func(infos []conq.Info) {
		s.queues.Reconcile(infos)
		s.tubes.Reconcile(infos)
		s.metrics.Listed(infos)
	})
	sampler.OnPass(func() {
		s.queues.Tidy()
		s.tubes.Tidy()
	})
	s.tasks.Go(func() { sampler.Run(s.stopping) })
	keep := of.Work
	s.tasks.Go(func() {
		if err := work.Keep(s.stopping, db, keep); err != nil {
			o.Logger.Debug("what is due is done by another part of this program", "error", err)
		}
	})
	mux := http.NewServeMux()
	api.Register(mux, api.Options{Queues: s.queues, Logger: o.Logger, Stopping: s.stopping, Answers: answers.New(db, time.Now), History: s.history, Tasks: &s.bulk, Traces: o.Traces || o.TracerProvider != nil, MaxBody: o.MaxBody, MaxWaiters: o.MaxWaiters})
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", s.serveReady)
	s.registerWatching(mux)
	guard := s.guard()
	dashboard.Register(mux, dashboard.Options{
		Queues: s.queues, History: s.history, Tasks: &s.bulk, Transactions: s.metrics.Transactions, Guard: guard, Logger: o.Logger, Stopping: s.stopping, SignIn: o.Tokens != nil,
	})
	mux.HandleFunc("/", notFound(mux))
	s.handler = s.paced(s.guarded(guard, mux))
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: o.HeaderTimeout,
		IdleTimeout:       o.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ConnState:         s.limitConnections,
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	s.ready.Store(true)
	return s, nil
}

func (s *Server) observeCommand(command string) (replied func(string)) {
	end := s.metrics.Begin("beanstalk")
	return func(reply string) { end(command, reply) }
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *Server) serveReady(w http.ResponseWriter, _ *http.Request) {
	switch {
	case !s.ready.Load():
		writeText(w, http.StatusServiceUnavailable, "stopping")
	case s.history.Latest().Err != nil:
		writeText(w, http.StatusServiceUnavailable, "the store can't be read")
	default:
		writeText(w, http.StatusOK, "ready")
	}
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // a client that has gone does not matter
}

// Serve answers the requests of a listener, which it closes, until ctx ends, and stops as Shutdown does then, within
// Options.Grace. It returns nil after that, or the error that made it stop, as a kv.ErrFailed of the store. An address that others can reach is refused without
// Options.Tokens, and without Options.Certificate unless Options.Insecure is set.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	l, err := s.secure(l)
	if err != nil {
		return err
	}
	s.options.Logger.Info("serving", "protocol", "http", "address", l.Addr().String(), "pid", os.Getpid())
	ctx, end := context.WithCancel(ctx)
	var failed error
	var watching sync.WaitGroup
	watching.Go(func() {
		defer end()
		failed = s.storeFails(ctx)
	})
	defer watching.Wait()
	defer end()
	stopped := make(chan error, 1)
	cancel := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Grace)
		defer cancel()
		stopped <- s.Shutdown(grace)
	})
	err = s.http.Serve(l)
	if cancel() { // it has failed, or somebody else has called Shutdown
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
	err = <-stopped
	watching.Wait()
	return errors.Join(failed, err)
}

// storeFails waits until the store has failed, or ctx ends.
func (s *Server) storeFails(ctx context.Context) error {
	for {
		now := s.history.Latest()
		if errors.Is(now.Err, kv.ErrFailed) {
			return now.Err
		}
		select {
		case <-now.Next():
		case <-ctx.Done():
			return nil
		}
	}
}

// Shutdown stops the server: it is no longer ready, calls that wait return, and requests under way are
// finished, or broken off when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.ready.Store(false)
	s.stop()
	s.silent.Range(func(c, _ any) bool { // net/http would wait 5 s for their requests
		_ = c.(net.Conn).Close()
		return true
	})
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("server: requests under way were broken off: %w", err), s.http.Close())
	}
	return nil
}

// Close breaks off what is under way, and closes the queues, not the store. A second call does nothing.
func (s *Server) Close() error {
	s.ready.Store(false)
	s.stop()
	err := s.http.Close()
	s.bulk.Close()
	s.tasks.Wait()
	return errors.Join(err, s.queues.Close(), s.tubes.Close())
}
