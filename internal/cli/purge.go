package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

const purgeLong = `Remove all items of a queue of either kind. They are gone for good, so on a
terminal it asks first; elsewhere --yes must be given. If the answer is no, nothing
is removed and the exit code is 1.

The number of items that it prints is of those in the queue. What consumers on a
shared store are just being given, by staging, is removed with them, uncounted.`

func (a *app) purge() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:     "purge QUEUE",
		Short:   "Remove all items of a queue",
		Long:    purgeLong,
		Example: "  conq purge emails\n  conq purge jobs --yes",
		Args:    onlyQueueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !isTerminal(a.stdin) {
				return usagef("purge removes all items for good: give --yes if that is meant")
			}
			if a.isServer() {
				return a.purgeOnServer(cmd.Context(), args[0], yes)
			}
			return withStore(a.openExisting, func(db kv.DB) error {
				return a.purgeQueue(cmd.Context(), db, args[0], yes)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) purgeQueue(ctx context.Context, db kv.DB, name string, yes bool) error {
	found, err := find(ctx, db, name)
	if err != nil {
		return err
	}
	queue, err := a.openPurged(db, found)
	if err != nil {
		return err
	}
	defer letGo(ctx, queue)
	// What was staged and never collected counts, too. If it is damaged it does not, and it goes.
	_ = queue.Reclaim(ctx)
	n, err := queue.Len(ctx)
	if err != nil {
		return err
	}
	if !yes {
		if err := a.confirm(ctx, fmt.Sprintf("Remove %s of %s %q?", items(n), found.Kind, name)); err != nil {
			return err
		}
	}
	// Where others use the store at the same time, it may be some items more or less.
	if err := queue.Clear(ctx); err != nil {
		return err
	}
	return after(a.printPurged(name, n), fmt.Sprintf("%s removed from %q", items(n), name))
}

// purged is a queue of any kind.
type purged interface {
	Reclaim(ctx context.Context) error
	Len(ctx context.Context) (int, error)
	Clear(ctx context.Context) error
	Close() error
}

func (a *app) openPurged(db kv.DB, found conq.Info) (purged, error) {
	if found.Kind == conq.KindWorkQueue {
		return work.Open(db, found.Name, conq.Bytes())
	}
	return a.openKind(db, found.Kind, found.Name, ends{})
}

func (a *app) printPurged(name string, n int) error {
	if a.json {
		return a.printJSON(struct {
			Queue   string `json:"queue"`
			Removed int    `json:"removed"`
		}{name, n})
	}
	return a.printf("removed %s from %q\n", items(n), name)
}

// confirm asks on the terminal. It returns an error if the answer is not yes, or ctx ends.
func (a *app) confirm(ctx context.Context, question string) error {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answer, err := bufio.NewReader(until(ctx, a.stdin)).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.stderr)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w; nothing was removed", context.Cause(ctx))
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return nothingf("nothing was removed")
}
