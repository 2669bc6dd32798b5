package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/dump/stream"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/embedded"
	"github.com/spf13/cobra"
)

const loadLong = `Put the queues of a dump (see conq dump) from standard input into the store:
their items in the same order, with the same priorities. Queues that are missing
are made, and so is the store.

First it looks at all queues of the dump: if one of them is of another kind, or
has items, nothing is changed. --append puts the items behind those that are
there, --replace removes those first. Jobs of a work queue keep their ids; those
that were leased are ready.

Nothing is loaded that was not checked. Of a dump that was cut off, or has
changed on its way, all items before that place are loaded; the error says how
many there are. --dry-run reads all of the dump and changes nothing.`

const loadExample = `  conq load < backup.conq
  conq load --dry-run < backup.conq       # is it whole?
  conq load --append < more.conq
  conq dump | conq load --store etcd://localhost:2379`

// loadFlags are the flags of load.
type loadFlags struct{ add, replace, dryRun bool }

func (l *loadFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&l.add, "append", false, "queues may have items: the new ones go behind them")
	flags.BoolVar(&l.replace, "replace", false, "queues may have items: they are removed first, for good")
	flags.BoolVar(&l.dryRun, "dry-run", false, "only say what would be loaded")
}

func (a *app) load() *cobra.Command {
	var flags loadFlags
	cmd := &cobra.Command{
		Use:     "load",
		Short:   "Put the queues of a dump into the store",
		Long:    loadLong,
		Example: loadExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.add && flags.replace {
				return usagef("--append and --replace exclude each other")
			}
			if isTerminal(a.stdin) {
				return usagef("load reads a dump from standard input, which is a terminal: conq load < FILE")
			}
			return a.loadQueues(cmd.Context(), flags)
		},
	}
	flags.register(cmd)
	return cmd
}

func (a *app) loadQueues(ctx context.Context, flags loadFlags) error {
	if _, err := a.storeURL(); err != nil {
		return err
	}
	in := &counting{r: until(ctx, a.stdin)}
	r := bufio.NewReader(in)
	// What is no dump must not make a store. Only a directory is made by opening it; what else a
	// URL may mean is known by then.
	if _, ok := a.storeDir(); ok {
		if err := checkDump(r); err != nil {
			return err
		}
	}
	open := a.open
	if flags.dryRun {
		open = a.openToLook
	}
	return withStore(open, func(db kv.DB) error {
		if err := checkDump(r); err != nil {
			return err
		}
		return a.loadInto(ctx, db, r, in, flags)
	})
}

// checkDump returns an error if what r is going to give does not begin as a dump.
func checkDump(r *bufio.Reader) error {
	header, err := r.Peek(stream.HeaderSize)
	if err != nil && err != io.EOF {
		return fmt.Errorf("reading standard input: %w", err)
	}
	if err := stream.CheckHeader(header); errors.Is(err, stream.ErrBroken) {
		return fmt.Errorf("standard input is not a dump: %w", err)
	}
	return nil
}

// openToLook opens the store if there is one, and else one like it, without files.
func (a *app) openToLook() (kv.DB, error) {
	dir, ok := a.storeDir()
	if _, err := a.storeURL(); err != nil || !ok || hasFiles(dir) {
		return a.open()
	}
	// A file system in memory does not know directories whose names begin with a dot.
	return embedded.Open(context.Background(), "store", embedded.Options{FS: vfs.NewMem(), Durability: embedded.Memory})
}

func (a *app) loadInto(ctx context.Context, db kv.DB, r io.Reader, in *counting, flags loadFlags) error {
	began := time.Now()
	progress := a.inputProgress()
	o := conq.LoadOptions{
		DryRun:   flags.dryRun,
		Progress: func(p conq.Progress) { progress.set(items(p.Items), in.n) },
	}
	switch {
	case flags.add:
		o.Existing = conq.ExistingAppend
	case flags.replace:
		o.Existing = conq.ExistingReplace
	}
	report, err := conq.Load(ctx, db, r, o)
	progress.finish()
	if err != nil {
		err = loadError(err, report, flags)
	}
	verb, what := "loaded", items(report.Items)
	if flags.dryRun {
		verb = "would load"
	}
	to := plural(len(report.Queues), "queue")
	if err == nil || a.json && report.Items > 0 {
		err = cmp.Or(err, a.answer(moved{
			Queues: append([]conq.QueueReport{}, report.Queues...), Items: report.Items, Bytes: report.Bytes,
			Seconds: time.Since(began).Seconds(), DryRun: flags.dryRun,
		}, "%s %s into %s%s\n", verb, what, to, exceptions(report)))
	}
	if flags.dryRun {
		return err
	}
	return after(err, fmt.Sprintf("%s loaded into %s", what, to))
}

// exceptions says which jobs are not as the dump has them, and which are not given out.
func exceptions(report conq.LoadReport) (text string) {
	duplicates, ids := 0, 0
	for _, q := range report.Queues {
		duplicates, ids = duplicates+q.Duplicates, ids+q.NewIDs
	}
	if duplicates > 0 {
		text = fmt.Sprintf("; %s left out, as one of the same --unique is there", plural(duplicates, "job"))
	}
	switch {
	case ids == 1:
		text += "; 1 job has another id"
	case ids > 1:
		text += fmt.Sprintf("; %s jobs have another id", count(ids))
	}
	for _, q := range report.Queues {
		if q.Paused {
			text += fmt.Sprintf("; %q is paused: conq resume has it give out jobs", q.Name)
		}
	}
	return text
}

// loadError says what to do about an error, and what was loaded before it.
func loadError(err error, report conq.LoadReport, flags loadFlags) error {
	switch {
	case errors.Is(err, conq.ErrFormat):
		return err
	case errors.Is(err, conq.ErrNotEmpty):
		return fmt.Errorf("%v; nothing was loaded: --append puts the new ones behind them, --replace removes them first", err)
	case report.Items == 0 && !errors.Is(err, kv.ErrCommitUnknown):
		return fmt.Errorf("%v; nothing was loaded", err)
	case flags.dryRun:
		return fmt.Errorf("%v; %s before that are right", err, items(report.Items))
	}
	last := ""
	for _, q := range report.Queues {
		if q.Items > 0 {
			last = fmt.Sprintf(", the last into %q", q.Name)
		}
	}
	advice := "to begin anew give --replace"
	if flags.add { // which would remove what was there before, too
		advice = "to load it again would put these in twice"
	}
	return fmt.Errorf("%v; %s loaded before that%s; %s", err, items(report.Items), last, advice)
}

// counting counts what is read.
type counting struct {
	r io.Reader
	n int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// until returns what r gives, until ctx ends: then reading fails with its cause at once.
func until(ctx context.Context, r io.Reader) io.Reader {
	out, in := io.Pipe()
	go func() {
		_, err := io.Copy(in, r)
		in.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { in.CloseWithError(context.Cause(ctx)) })
	return out
}
