// Package cli is the command conq: one file a subcommand, and what they share.
//
// # Exit codes
//
// 0 means that it was done or found, 1 that there was nothing (an empty queue,
// no such queue, no store), 2 that the command was used wrongly, 3 that it
// failed. An error is one line on standard error that says what happened and,
// where something can be done, what. Standard output carries data only.
//
// # Delivery
//
// Items that come in are durable before they are counted (see putter). Items
// that go out are written and flushed before their removal commits, or the other
// way round if asked for (see delivery).
//
// # Outages
//
// Commands that run on a cluster, or over a server, wait for as long as it does not answer, and say so; the outcomes of their
// transactions are found out. A command opens a cluster within the engine's patience, and a server within the client's, unless it
// lasts (see app.lasts).
//
// # Concurrency
//
// A command runs in one goroutine, with one more that reads standard input.
// SIGINT, SIGTERM and SIGHUP cancel the command's context, which ends it between two
// transactions or inside one that then has not happened. A server reads files again at SIGHUP.
package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/version"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Exit codes.
const (
	exitDone = iota
	exitEmpty
	exitUsage
	exitFailure
)

// app is a run of the command: its streams and its global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	store, codec, durability string
	json                     bool

	ctx context.Context // of the command that runs

	// lasts is that the command has no end of its own, and waits for a store that is not there yet. serves is that others wait for
	// what it does: they are told when the store does not answer.
	lasts, serves bool

	transport http.RoundTripper // to a server; nil is the client's

	worker func() *exec.Cmd // makes worker processes of the demo; nil if there is no way to
}

// Main runs the command with the arguments and streams of the process and
// returns its exit code.
func Main() int {
	// A reader that goes away must be an error of the write, not the end of the process in the middle of
	// something. The signal is not ignored, which commands that this one runs would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), endSignals()...)
	defer stop()
	context.AfterFunc(ctx, stop) // so that a second signal kills
	a := &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, worker: workerOf(os.Args[0])}
	return a.run(ctx, os.Args[1:])
}

// endSignals returns the signals that end the process. In the background of a script interrupts are ignored, and under
// nohup hangups.
func endSignals() []os.Signal {
	return slices.DeleteFunc([]os.Signal{syscall.SIGTERM, os.Interrupt, syscall.SIGHUP}, signal.Ignored)
}

// sameSignal is how soon after the first one a signal is the same one: some senders send it to a process and to its group.
const sameSignal = 200 * time.Millisecond

// onSecondSignal calls f at the second signal that ends the process, until end is called. A third one kills it.
func onSecondSignal(f func()) (end func()) {
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	if all := endSignals(); len(all) > 0 { // none would be all
		signal.Notify(signals, all...)
	}
	go func() {
		defer close(done)
		var first time.Time
		for range signals {
			if first.IsZero() {
				first = time.Now()
			} else if time.Since(first) >= sameSignal {
				signal.Stop(signals)
				f()
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// onSignal has a signal do nothing but call f, until end is called, unless the process is to ignore it.
func onSignal(s os.Signal, f func()) (end func()) {
	if signal.Ignored(s) {
		return func() {}
	}
	signals, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Reset(s)
	signal.Notify(signals, s)
	go func() {
		defer close(done)
		for range signals {
			f()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

// Command returns the command as it is documented: its help, its manual pages, its completions. It is not for running.
func Command() *cobra.Command {
	root := (&app{}).root()
	strict(root)
	return root
}

func (a *app) run(ctx context.Context, args []string) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.ctx = ctx
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.stdin)
	var help bytes.Buffer // as cobra drops errors of writing
	root.SetOut(&help)
	root.SetErr(a.stderr)
	strict(root)
	cmd, err := root.ExecuteContextC(ctx)
	switch asked, _ := root.Flags().GetBool("help"); {
	case err == nil && cmd == root && asked && root.Flags().NArg() > 0: // with --help cobra does not come to RunE
		err = noCommand(root, root.Flags().Arg(0))
	case err == nil && help.Len() > 0:
		_, err = a.output().Write(help.Bytes())
	}
	return a.report(cmd, err)
}

const rootLong = `conq keeps durable, transactional FIFO queues, priority queues and work queues.

They live in a directory, ./conq-data unless --store or CONQ_STORE names
another one, and a queue begins to exist with its first item. An item is any
bytes; commands read and write one a line.

` + serverHelp + `

Exit codes: 0 done or found, 1 nothing there, 2 wrong usage, 3 failure.`

const rootExample = `  conq enqueue emails hello world     # two items in
  conq dequeue emails                 # the first one out
  seq 1000 | conq enqueue numbers     # one item a line
  conq dequeue numbers --all > out    # all of them out, in order
  conq push jobs --priority -5 urgent # a priority queue
  conq pop jobs                       # the lowest priority first
  conq put letters ada                # a work queue: a job, for
  conq work letters -- ./send         # a program that does it
  conq move failed emails --all       # from one queue to another
  conq ls                             # what is there
  conq dump > backup.conq             # all of it, for conq load
  conq demo                           # see it work, and check itself
  conq bench --consumers 64           # how fast it is here`

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "conq",
		Short:         "Durable, transactional FIFO queues, priority queues and work queues",
		Long:          rootLong,
		Example:       rootExample,
		Version:       build(),
		Args:          cobra.ArbitraryArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return a.checkFlags() }
	root.SetVersionTemplate("conq {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usagef("%w%s", err, closestFlag(cmd, err)) })
	a.globalFlags(root)
	a.addCommands(root)
	return root
}

// addCommands adds all commands, in groups for the help.
func (a *app) addCommands(root *cobra.Command) {
	var changes []*cobra.Command
	for _, c := range jobChanges {
		changes = append(changes, a.changeJobs(c))
	}
	for _, group := range []struct {
		title    string
		kind     conq.Kind // that they are for, if it is one
		commands []*cobra.Command
	}{
		{"Queues:", conq.KindQueue, []*cobra.Command{a.enqueue(), a.dequeue()}},
		{"Priority queues:", conq.KindPriorityQueue, []*cobra.Command{a.push(), a.pop()}},
		{"Work queues:", conq.KindWorkQueue, append([]*cobra.Command{a.put(), a.work(), a.jobs(), a.job(), a.every(), a.set(), a.pause(), a.resume()}, changes...)},
		{"All of them:", "", []*cobra.Command{a.ls(), a.top(), a.stat(), a.peek(), a.move(), a.purge(), a.rm()}},
		{"Stores:", "", []*cobra.Command{a.check(), a.dump(), a.load()}},
		{"Servers:", "", []*cobra.Command{a.serve(), a.token()}},
		{"To try it:", "", []*cobra.Command{a.demo(), a.bench()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			if n := strings.Count(c.Use, "QUEUE") + strings.Count(c.Use, " FROM") + strings.Count(c.Use, " TO"); n > 0 {
				if strings.Contains(c.Use, "[QUEUE...]") {
					n = math.MaxInt
				}
				c.ValidArgsFunction = a.completeQueue(group.kind, n)
			} else if c.Name() != "load" {
				c.ValidArgsFunction = cobra.NoFileCompletions
			}
			root.AddCommand(c)
		}
	}
	root.AddCommand(a.demoWorker())
	completeFlags(root)
}

func (a *app) globalFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&a.store, "store", cmp.Or(os.Getenv("CONQ_STORE"), "./conq-data"), "directory or URL of the store, or http://host:7711 of a server (environment: CONQ_STORE)")
	flags.Lookup("store").DefValue = a.shownStore() // for the help
	flags.BoolVar(&a.json, "json", false, "write JSON, one document a line")
	flags.StringVar(&a.codec, "codec", "bytes", "form of the items: "+codecNames())
	flags.StringVar(&a.durability, "durability", "",
		"of an embedded store, while this command has it open: always, interval or memory (default always)")
}

// checkFlags returns what is wrong with the global flags, whether they are used or not.
func (a *app) checkFlags() error {
	if a.store == "" {
		return usagef("--store is empty: it is a directory or the URL of a store")
	}
	if _, ok := codecs[a.codec]; !ok {
		return usagef("unknown codec %.60q: there are %s", a.codec, codecNames())
	}
	return nil
}

// strict has the commands that cobra brings refuse words that they don't know. By
// themselves they print their help then, as if that was what was wanted.
func strict(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
					return noCommand(root, strings.Join(args, " "))
				}
				return nil
			}
		case "completion":
			cmd.Args = cobra.ArbitraryArgs
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if len(args) > 0 { // those that are known are commands
					return usagef("unknown shell %.60q: there are %s", args[0], strings.Join(commandNames(cmd), ", "))
				}
				return cmd.Help()
			}
			for _, shell := range cmd.Commands() {
				shell.Args = noArguments
			}
		}
	}
}

func noCommand(root *cobra.Command, name string) error {
	return usagef("there is no command %.60q%s", name, didYouMean(name, commandNames(root)))
}

func commandNames(of *cobra.Command) (names []string) {
	for _, cmd := range of.Commands() {
		names = append(names, cmd.Name())
	}
	return names
}

// build says which build this is.
func build() string {
	b := version.Read()
	return fmt.Sprintf("%s %s %s/%s", b, b.Go, runtime.GOOS, runtime.GOARCH)
}

// isTerminal tells whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// commands tells whether a stream is a terminal that understands commands: to erase, to colour.
func commands(stream any) bool { return isTerminal(stream) && os.Getenv("TERM") != "dumb" }

// columns returns the width of a terminal, or 0 if that is not known.
func columns(stream any) int {
	f, ok := stream.(*os.File)
	if !ok {
		return 0
	}
	width, _, _ := term.GetSize(int(f.Fd()))
	return width
}
