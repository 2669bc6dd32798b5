package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/spf13/cobra"
)

const rmLong = `Delete a queue of any kind, with all that it has: items, jobs, periodic jobs and
settings. They are gone for good, so on a terminal it asks first; elsewhere --yes must
be given. If the answer is no, nothing is deleted and the exit code is 1.

Programs that have the queue open find it empty, their leases are lost, and what they add
makes it anew. A deletion that was broken off, which ls shows, is completed.
"conq purge" empties a queue that stays.`

func (a *app) rm() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:     "rm QUEUE",
		Short:   "Delete a queue",
		Long:    rmLong,
		Example: "  conq rm emails\n  conq rm jobs --yes",
		Args:    onlyQueueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes && !isTerminal(a.stdin) {
				return usagef("rm deletes the queue for good: give --yes if that is meant")
			}
			return a.withBackend(cmd.Context(), a.openExisting, func(b backend) error {
				return a.removeQueue(cmd.Context(), b, args[0], yes)
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

func (a *app) removeQueue(ctx context.Context, b backend, name string, yes bool) error {
	found, err := b.find(ctx, name)
	if err == nil && !yes {
		err = a.confirmRemoval(ctx, b, found)
	}
	if errors.Is(err, conq.ErrNoQueue) { // something of it may be left all the same
		if b.remove(ctx, name) == nil {
			err = nil
		}
	} else if err == nil {
		err = b.remove(ctx, name)
	}
	if err != nil {
		return err
	}
	return after(a.answer(struct {
		Queue   string `json:"queue"`
		Deleted bool   `json:"deleted"`
	}{name, true}, "deleted %q\n", name), fmt.Sprintf("%q is deleted", name))
}

func (a *app) confirmRemoval(ctx context.Context, b backend, found conq.Info) error {
	what := "what is left"
	if !found.Deleting {
		q, err := openAny(ctx, b, found)
		if err != nil {
			return err
		}
		n, err := q.Len(ctx)
		letGo(ctx, q)
		if err != nil {
			return err
		}
		what = items(n)
	}
	return a.confirm(ctx, fmt.Sprintf("Delete %s %q with %s?", found.Kind, found.Name, what))
}
