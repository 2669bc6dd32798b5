package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/spf13/cobra"
)

const dumpLong = `Write queues to standard output: names, kinds, and items in order, with their
priorities, each byte as it is; of work queues jobs in all states. conq load reads it, into a store of any engine.
Without QUEUE it writes all that "conq ls" lists. Nothing is removed.

It sees one moment of the store, if that can be read and written in the time
that the engine allows (5 s), and else goes on in a later one, item by item,
nothing twice: so what is to be moved as a whole should be at rest. With --json
it says which it was ("snapshots"), and how much, on standard error.

A dump that failed has no end, and conq load says so.`

const dumpExample = `  conq dump > backup.conq
  conq dump emails jobs > two.conq
  conq dump | conq load --store etcd://localhost:2379
  conq load --dry-run < backup.conq       # is it whole?`

func (a *app) dump() *cobra.Command {
	return &cobra.Command{
		Use:     "dump [QUEUE...]",
		Short:   "Write queues to standard output, for conq load",
		Long:    dumpLong,
		Example: dumpExample,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if isTerminal(a.stdout) {
				return usagef("dump writes bytes that are no text: send them to a file, or to conq load")
			}
			for i, name := range args {
				if slices.Contains(args[:i], name) {
					return usagef("queue %.200q is named twice", name)
				}
			}
			return withStore(a.openExisting, func(db kv.DB) error {
				return a.dumpQueues(cmd.Context(), db, args)
			})
		},
	}
}

func (a *app) dumpQueues(ctx context.Context, db kv.DB, names []string) error {
	began := time.Now()
	progress := a.newProgress(-1)
	report, err := conq.Dump(ctx, db, a.stdout, conq.DumpOptions{
		Queues:   names,
		Progress: func(p conq.Progress) { progress.set(items(p.Items), p.Bytes) },
	})
	if err == nil {
		err = synced(a.stdout)
	}
	progress.finish()
	if err != nil {
		return dumpError(err, report)
	}
	moved := moved{
		Queues: append([]conq.QueueReport{}, report.Queues...), Items: report.Items, Bytes: report.Bytes, Snapshots: report.Snapshots,
		Seconds: time.Since(began).Seconds(),
	}
	if a.json {
		_, err := a.stderr.Write(append(marshal(moved), '\n'))
		return err
	}
	if isTerminal(a.stderr) {
		fmt.Fprintf(a.stderr, "%s (%s) of %s dumped in %.2f s%s\n", items(report.Items), size(report.Bytes),
			plural(len(report.Queues), "queue"), moved.Seconds, seenOver(report.Snapshots))
	}
	return nil
}

func seenOver(snapshots int) string {
	if snapshots == 1 {
		return ""
	}
	return fmt.Sprintf(", as they were at %s moments", count(snapshots))
}

// dumpError is the error of a dump. A reader that goes away has not had enough, unlike
// one of items: the dump is not whole. So it is no quiet end.
func dumpError(err error, report conq.DumpReport) error {
	text := fmt.Errorf("%v", err)
	switch {
	case errors.Is(err, conq.ErrNoQueue):
		return nothingf("%w", text)
	case errors.Is(err, conq.ErrName), errors.Is(err, conq.ErrFormat):
		return err
	case errors.Is(err, conq.ErrDecode):
		text = fmt.Errorf("%v; conq check tells what is wrong", err)
	}
	if vfs.IsNoSpaceError(err) {
		text = fmt.Errorf("%v; make room where it is written to, then dump again", err)
	}
	if report.Items > 0 {
		return fmt.Errorf("%w; what was written is not a whole dump", text)
	}
	return text
}

// moved is what was dumped or loaded, with --json.
type moved struct {
	Queues    []conq.QueueReport `json:"queues"`
	Items     int                `json:"items"`
	Bytes     int64              `json:"bytes"`
	Snapshots int                `json:"snapshots,omitempty"` // of a dump
	Seconds   float64            `json:"seconds"`
	DryRun    bool               `json:"dry_run,omitempty"`
}
