package cli

import (
	"context"
	"errors"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
	"github.com/conq-go/conq/kv"
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
		out := a.sink(flags.print)
		out.file = nil // nothing is removed that would have to be on disk first
		done, err := b.peek(ctx, info, from, n, out)
		if failed := out.flush(); err == nil {
			err = failed
		}
		if err == nil && done == 0 {
			err = errNothing
		}
		return err
	})
}

func peekFirst(ctx context.Context, q queue, n int, out *sink) (done int, err error) {
	for it, err := range q.all(ctx) {
		if err == nil {
			err = out.add(it)
		}
		if err != nil {
			return done, err
		}
		if done++; done == n {
			break
		}
	}
	return done, nil
}

// errUndo ends a transaction of which nothing is to remain.
var errUndo = errors.New("transaction is not to be committed")

// peekMax takes the items in transactions that are then given up: there is no other way to see
// them in the order in which they would be popped. Each takes a page, behind that of the one
// before, so that neither time nor memory grows with the queue.
func (p *priority) peekMax(ctx context.Context, db kv.DB, n int, out *sink) (done int, err error) {
	size := layout.BatchFor(db.Limits(), itemOperations).Items
	var last []byte // the key of the last item that was printed
	for done < n {
		var keys []string
		var page []item
		err := db.Transact(ctx, func(tx kv.Tx) (err error) {
			if err = p.clearUpTo(tx, last); err != nil {
				return err
			}
			if keys, err = firstKeys(p, tx.Snapshot(), min(size, n-done)); err != nil {
				return err
			}
			if page, err = p.take(tx, max(1, len(keys))); err != nil {
				return err
			}
			return errUndo
		})
		switch {
		case errors.Is(err, conq.ErrEmpty):
			return done, nil
		case !errors.Is(err, errUndo):
			return done, err
		}
		for _, it := range page {
			if err := out.add(it); err != nil {
				return done, err
			}
			done++
		}
		last = []byte(keys[len(page)-1])
	}
	return done, nil
}

// clearUpTo clears the item of a key, if it is not nil, and all that come before it with --max.
func (p *priority) clearUpTo(tx kv.Tx, last []byte) error {
	seen := kv.Range{Begin: last, End: p.space.Range().End}
	switch {
	case last == nil:
		return nil
	case p.ends.ties == "first":
		group, err := p.groupOf(last)
		if err != nil {
			return err
		}
		same := group.Range()
		tx.ClearRange(kv.Range{Begin: same.Begin, End: kv.After(last)})
		seen.Begin = same.End
	}
	tx.ClearRange(seen)
	return nil
}
