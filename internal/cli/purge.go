package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

const purgeLong = `Remove all items of a queue of any kind. They are gone for good, so on a
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
			return a.withBackend(cmd.Context(), a.openExisting, func(b backend) error {
				return a.purgeQueue(cmd.Context(), b, args[0], yes)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) purgeQueue(ctx context.Context, b backend, name string, yes bool) error {
	found, err := b.find(ctx, name)
	if err != nil {
		return err
	}
	q, err := openAny(ctx, b, found)
	if err != nil {
		return err
	}
	defer letGo(ctx, q)
	if stored, ok := q.(reclaimer); ok {
		_ = stored.Reclaim(ctx) // what was staged and never collected counts, too; if it is damaged it does not, and it goes
	}
	n, err := q.Len(ctx)
	if err == nil && !yes {
		err = a.confirm(ctx, fmt.Sprintf("Remove %s of %s %q?", items(n), found.Kind, name))
	}
	if err == nil {
		err = q.Clear(ctx) // where others use the store at the same time, it may be some items more or less
	}
	if err != nil {
		return err
	}
	return after(a.printPurged(name, n), fmt.Sprintf("%s removed from %q", items(n), name))
}

func (a *app) printPurged(name string, n int) error {
	return a.answer(struct {
		Queue   string `json:"queue"`
		Removed int    `json:"removed"`
	}{name, n}, "removed %s from %q\n", items(n), name)
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
