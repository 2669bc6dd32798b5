package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"syscall"
	"time"

	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/server"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

const serveLong = `Serve the queues of a store to programs in any language: over HTTP, and with
--beanstalk by beanstalkd's protocol. docs/reference/http.md and docs/beanstalkd.md describe them.

On the loopback interface it answers everybody. Another address needs --tokens, which
"conq token new" makes, and --tls-cert with --tls-key, or --insecure. SIGHUP reads these
files again. SIGUSR1 has beanstalkd's protocol refuse new jobs, as beanstalkd does.

SIGTERM or SIGINT ends it: calls that wait return, requests under way are finished,
and the store is closed. A second signal ends it at once, and loses nothing that was
acknowledged either.`

const serveExample = `  conq serve
  conq serve --store data --listen 127.0.0.1:8000
  conq serve --listen :7711 --tokens tokens.json --tls-cert c.pem --tls-key k.pem
  curl --json '{"text":"hello"}' http://127.0.0.1:7711/v1/queues/emails/items`

type serveFlags struct {
	listen, beanstalk string
	logFormat, otlp   string
	tokens, cert, key string
	options           server.Options // those that are values of flags
}

func (a *app) serve() *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve the queues of a store over the network",
		Long:    serveLong,
		Example: serveExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := a.serverOptions(flags)
			if err != nil {
				return err
			}
			if flags.otlp != "" {
				spans, end, err := exportSpans(cmd.Context(), flags.otlp, o.Logger)
				if err != nil {
					return err
				}
				defer end()
				o.TracerProvider = spans
			}
			a.lasts, a.serves = true, true
			return withStore(a.open, func(db kv.DB) error { return a.runServer(cmd.Context(), db, o, flags) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&flags.listen, "listen", "127.0.0.1:7711", "address of HTTP")
	f.StringVar(&flags.beanstalk, "beanstalk", "", "address of beanstalkd's protocol (default none)")
	integerFlag(f, &flags.options.MaxJobSize, "max-job-size", "", 65535, "largest job that beanstalkd's protocol puts, in bytes")
	f.StringVar(&flags.logFormat, "log-format", "text", "form of the log on standard error: text or json")
	f.StringVar(&flags.tokens, "tokens", "", "file of the tokens that callers may have")
	f.StringVar(&flags.cert, "tls-cert", "", "file of a certificate with its chain, in PEM")
	f.StringVar(&flags.key, "tls-key", "", "file of the certificate's key, in PEM")
	f.StringSliceVar(&flags.options.Hosts, "host", nil, "names by which browsers may reach the server")
	f.BoolVar(&flags.options.Traces, "traces", false, "hand the trace of a request (W3C traceparent) on to who does its jobs")
	f.StringVar(&flags.otlp, "otlp", "", "URL of a collector that gets spans of OpenTelemetry, as http://127.0.0.1:4318 (default none)")
	f.BoolVar(&flags.options.Insecure, "insecure", false, "allow an address that others can reach without TLS, behind a proxy")
	return cmd
}

// serverOptions returns the options that are flags, and reads what other flags name.
func (a *app) serverOptions(flags serveFlags) (o server.Options, err error) {
	o = flags.options
	if o.Logger, err = a.logger(flags.logFormat); err != nil {
		return o, err
	}
	if (flags.cert == "") != (flags.key == "") {
		return o, usagef("--tls-cert and --tls-key need each other")
	}
	if flags.cert != "" {
		if o.Certificate, err = server.LoadCertificate(flags.cert, flags.key); err != nil {
			return o, usagef("%w", err)
		}
	}
	if flags.tokens != "" {
		if o.Tokens, err = server.LoadTokens(flags.tokens); err != nil {
			return o, usagef("%w", err)
		}
	}
	return o, nil
}

// logger returns what writes the log of a server.
func (a *app) logger(format string) (*slog.Logger, error) {
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(a.stderr, nil)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(a.stderr, nil)), nil
	}
	return nil, usagef("unknown --log-format %.60q: there are text, json", format)
}

// keepAlive has the server notice within half a minute that the host of a client that waits is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

func (a *app) runServer(ctx context.Context, db kv.DB, o server.Options, flags serveFlags) (err error) {
	s, err := server.New(db, o)
	if err != nil {
		return err
	}
	defer func() {
		if failed := s.Close(); err == nil {
			err = failed
		}
	}()
	defer onSignal(syscall.SIGHUP, func() {
		if err := s.Reload(); err != nil {
			o.Logger.Error("reload has failed", "error", err)
			return
		}
		o.Logger.Info("tokens and certificate were read again")
	})()
	defer onDrain(s.DrainBeanstalk)()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		keepHeapSmall(ctx)
		return nil
	})
	serve := func(what, address string, serve func(context.Context, net.Listener) error) error {
		l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("--%s: %w", what, err)
		}
		group.Go(func() error { return serve(ctx, l) })
		return nil
	}
	err = serve("listen", flags.listen, s.Serve)
	if err == nil && flags.beanstalk != "" {
		err = serve("beanstalk", flags.beanstalk, s.ServeBeanstalk)
	}
	if err != nil {
		group.Go(func() error { return err }) // ends what serves already
	}
	return group.Wait()
}
