package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// serveArgument has this program be one of the servers that are in it.
const serveArgument = "serve"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func run(args []string, stdout, stderr io.Writer) int {
	// The second signal ends the program at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	signal.Ignore(syscall.SIGPIPE) // who reads the output has had enough: what is under way is still to be cleaned up
	if len(args) > 0 {
		if args[0] == serveArgument {
			return code(serve(ctx, args[1:]), stderr)
		}
		if special, ok := specials()[args[0]]; ok {
			return code(special(ctx, args[1:], stdout, stderr), stderr)
		}
	}
	return code(compare(ctx, args, stdout, stderr), stderr)
}

// usageError is an error in the arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errNotAll means that the report, which was printed, says what went wrong.
var errNotAll = errors.New("not everything could be measured")

func code(err error, stderr io.Writer) int {
	var usage usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "peers:", err)
		return exitUsage
	}
	fmt.Fprintln(stderr, "peers:", err)
	return exitFailed
}

// serve runs a server until ctx ends.
func serve(ctx context.Context, args []string) error {
	if len(args) == 4 && args[0] == "nats" {
		return serveNATS(ctx, args[1:])
	}
	if len(args) == 3 && args[0] == "etcd" {
		return serveEtcd(ctx, args[1:])
	}
	return usageError{fmt.Errorf("serve %q: it is not meant to be called by hand", args)}
}

// options are what the flags of a comparison say.
type options struct {
	settings
	producers, consumers string
	peers, class, dir    string
	json, list, short    bool
}

func newFlags(name string, stderr io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(stderr)
	return f
}

// parse parses flags, and no other arguments.
func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if f.NArg() > 0 {
		return usageError{fmt.Errorf("unknown argument %q: only flags are allowed, or first one of %s", f.Arg(0), specialNames())}
	}
	return nil
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := newFlags("peers", stderr)
	f.StringVar(&o.producers, "producers", "16", "numbers of concurrent producers, separated by commas: each is a shape of its own")
	f.StringVar(&o.consumers, "consumers", "16", "numbers of concurrent consumers, as many")
	f.IntVar(&o.Priorities, "priorities", 100, "different priorities in priority queues")
	f.Usage = func() {
		fmt.Fprintf(stderr, "usage: peers [flags], or peers %s [flags]\n", specialNames())
		f.PrintDefaults()
	}
	return o, o.parse(f, args)
}

// parse adds the flags that all comparisons have to f, and reads all.
func (o *options) parse(f *flag.FlagSet, args []string) error {
	f.IntVar(&o.Payload, "payload", 128, "bytes of an item, at least 16")
	f.IntVar(&o.Items, "items", 200_000, "items that go through a phase at most")
	f.DurationVar(&o.Time, "time", 2*time.Second, "how long producers work in a phase at most")
	f.IntVar(&o.Runs, "runs", 3, "runs, of which the table has the medians")
	f.StringVar(&o.peers, "peers", "", "regular expression: only systems whose names match")
	f.StringVar(&o.class, "class", "", "power, process, none, separated by commas: only systems whose items survive that")
	f.StringVar(&o.dir, "dir", "", "where temporary directories are made: on the disk to be measured (default: the system's)")
	f.BoolVar(&o.json, "json", false, "print JSON, with all runs, instead of the tables")
	f.BoolVar(&o.list, "list", false, "list the systems")
	f.BoolVar(&o.short, "short", false, "one run with 2,000 items and 300 ms a phase, to see that all works")
	if err := parse(f, args); err != nil {
		return err
	}
	if o.short {
		given := map[string]bool{}
		f.Visit(func(f *flag.Flag) { given[f.Name] = true })
		for name, value := range map[string]string{"items": "2000", "time": "300ms", "runs": "1"} {
			if !given[name] {
				_ = f.Set(name, value) // it is well-formed
			}
		}
	}
	if o.consumers == "" {
		o.consumers = o.producers
	}
	if err := o.check(); err != nil {
		return usageError{err}
	}
	return nil
}

const (
	maxClients = 10_000
	maxTime    = 24 * time.Hour
)

func (o *options) check() (err error) {
	if o.Shapes, err = shapes(o.producers, o.consumers); err != nil {
		return err
	}
	switch {
	case o.Payload < headerSize || o.Payload > 4<<20:
		return fmt.Errorf("-payload %d: %d to %d are allowed", o.Payload, headerSize, 4<<20)
	case o.Items < 1 || o.Items > 100_000_000:
		return fmt.Errorf("-items %d: 1 to 100000000 are allowed", o.Items)
	case o.Time <= 0 || o.Time > maxTime:
		return fmt.Errorf("-time %v: more than 0s and up to %v are allowed", o.Time, maxTime)
	case o.Priorities < 1 || o.Priorities > 1<<31-1:
		return fmt.Errorf("-priorities %d: 1 to %d are allowed", o.Priorities, 1<<31-1)
	case o.Runs < 1 || o.Runs > 1000:
		return fmt.Errorf("-runs %d: 1 to 1000 are allowed", o.Runs)
	}
	return nil
}

// shapes pairs numbers of producers and consumers.
func shapes(producers, consumers string) (all []shape, err error) {
	p, c := strings.Split(producers, ","), strings.Split(consumers, ",")
	if len(p) != len(c) {
		return nil, fmt.Errorf("-producers %s -consumers %s: there must be as many numbers of either", producers, consumers)
	}
	for i := range p {
		var s shape
		for _, n := range []struct {
			to   *int
			text string
		}{{&s.Producers, p[i]}, {&s.Consumers, c[i]}} {
			if *n.to, err = strconv.Atoi(n.text); err != nil || *n.to < 1 || *n.to > maxClients {
				return nil, fmt.Errorf("clients: %q: numbers from 1 to %d are allowed", n.text, maxClients)
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// compare measures the systems and prints what came out.
func compare(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	return o.measure(ctx, systems(), stdout, stderr, (*report).print)
}

// measure measures those of the systems that were chosen.
func (o *options) measure(ctx context.Context, all []system, stdout, stderr io.Writer, print func(*report, io.Writer)) error {
	chosen, err := choose(all, o.peers, o.class)
	if err != nil {
		return usageError{err}
	}
	if o.list {
		_, err := io.WriteString(stdout, names(chosen))
		return err
	}
	return inTemp(o.dir, func(dir string) error {
		r := runAll(ctx, dir, o.settings, chosen, stderr)
		if o.json {
			err = printJSON(stdout, r)
		} else {
			err = printText(stdout, func(w io.Writer) { print(r, w) })
		}
		if err == nil && r.failed() {
			err = errNotAll
		}
		return err
	})
}

// printText writes what print prints.
func printText(w io.Writer, print func(io.Writer)) error {
	var text bytes.Buffer
	print(&text)
	_, err := text.WriteTo(w)
	return err
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// inTemp calls f with a directory that is gone afterwards. Others may look into
// it, as a server may run as another user.
func inTemp(base string, f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(base, "conq-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	return f(dir)
}
