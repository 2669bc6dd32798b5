package cli

import (
	"context"
	"errors"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/subspace"
	"github.com/spf13/cobra"
)

const peekLong = `Print the first items of a queue of either kind, one a line, and leave them
there: by default one item. If there is none the exit code is 1.

A priority queue shows its lowest priorities first, with --max its highest.`

const peekExample = `  conq peek emails
  conq peek numbers --all | wc -l
  conq peek jobs -n 5 --max --with-priority`

func (a *app) peek() *cobra.Command {
	var flags takeFlags
	var from ends
	cmd := &cobra.Command{
		Use:     "peek QUEUE",
		Short:   "Print the first items of a queue and leave them there",
		Long:    peekLong,
		Example: peekExample,
		Args:    onlyQueueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := from.check(cmd); err != nil {
				return err
			}
			return a.peekAll(cmd, args[0], flags, from)
		},
	}
	integerFlag(cmd.Flags(), &flags.n, "count", "n", 1, "print up to so many items")
	cmd.Flags().BoolVar(&flags.all, "all", false, "print all items")
	flags.print.register(cmd)
	from.register(cmd)
	registerWithPriority(cmd, &flags.print)
	return cmd
}

func (a *app) peekAll(cmd *cobra.Command, name string, flags takeFlags, from ends) error {
	ctx := cmd.Context()
	n, err := flags.limit(cmd)
	if err != nil {
		return err
	}
	return a.withBackend(ctx, a.openExisting, func(b backend) error {
		info, err := b.find(ctx, name)
		switch {
		case err != nil:
			return err
		case info.Kind == conq.KindWorkQueue:
			return usagef("%q is a %s: conq jobs shows it", name, info.Kind)
		case info.Kind == conq.KindQueue && (from.max || flags.print.priority):
			return usagef("--max and --with-priority are for priority queues, and %q is a queue", name)
		}
		if from.firstOfTies() && a.isServer() {
			return usagef("--ties first needs the store itself")
		}
		q, err := b.open(ctx, name, info.Kind)
		if err != nil {
			return err
		}
		out := a.sink(flags.print)
		out.file = nil // nothing is removed that would have to be on disk first
		done, err := printItems(ctx, q, from, n, out)
		if failed := out.flush(); err == nil {
			err = failed
		}
		if err == nil && done == 0 {
			err = errNothing
		}
		return err
	})
}

func printItems(ctx context.Context, q itemQueue, from ends, n int, out *sink) (done int, err error) {
	if from.firstOfTies() {
		return printFirstOfTies(ctx, q, n, out)
	}
	return printPages(ctx, q, from.end(), nil, n, func(item) bool { return true }, out)
}

// printPages prints up to n items from behind a place on, as long as they are wanted.
func printPages(ctx context.Context, q itemQueue, from conq.End, after []byte, n int, wanted func(item) bool, out *sink) (done int, err error) {
	for size := mostAtOnce; done < n; {
		page, next, err := q.Page(ctx, from, after, min(size, n-done))
		switch {
		case errors.Is(err, conq.ErrDecode) && size > 1:
			size = 1 // those that come before the one that does not decode
			continue
		case err != nil:
			return done, err
		}
		for _, it := range page {
			if !wanted(it) {
				return done, nil
			}
			if err := out.add(it); err != nil {
				return done, err
			}
			done++
		}
		if after = next; after == nil {
			break
		}
	}
	return done, nil
}

// printFirstOfTies prints up to n items, the highest priority first, and of each the one first that was pushed first.
func printFirstOfTies(ctx context.Context, q itemQueue, n int, out *sink) (done int, err error) {
	for above := []byte(nil); done < n; {
		highest, _, err := q.Page(ctx, conq.Max, above, 1)
		if err != nil || len(highest) == 0 {
			return done, err
		}
		priority := highest[0].Priority
		group, err := subspace.Named(q.Name()).Sub(priority)
		if err != nil {
			return done, err
		}
		above = group.Bytes() // which comes before its items
		printed, err := printPages(ctx, q, conq.Min, above, n-done, func(it item) bool { return it.Priority == priority }, out)
		if done += printed; err != nil {
			return done, err
		}
	}
	return done, nil
}
