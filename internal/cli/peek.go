package cli

import (
	"context"
	"errors"
	"math"

	"github.com/conq-go/conq"
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
	return withStore(a.openExisting, func(db kv.DB) error {
		info, err := find(ctx, db, name)
		if err != nil {
			return err
		}
		out := a.sink(flags.print)
		out.file = nil // nothing is removed that would have to be on disk first
		var done int
		switch {
		case info.Kind == conq.KindPriorityQueue:
			done, err = a.peekPriority(ctx, db, name, n, from, out)
		case from.max || flags.print.priority:
			return usagef("--max and --with-priority are for priority queues, and %q is a queue", name)
		default:
			done, err = a.peekQueue(ctx, db, name, n, out)
		}
		if failed := out.flush(); err == nil {
			err = failed
		}
		if err == nil && done == 0 {
			err = errNothing
		}
		return err
	})
}

func (a *app) peekQueue(ctx context.Context, db kv.DB, name string, n int, out *sink) (done int, err error) {
	q, err := a.openQueue(db, name)
	if err != nil {
		return 0, err
	}
	for v, err := range q.queue.All(ctx) {
		if err == nil {
			err = out.add(item{value: v})
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

func (a *app) peekPriority(ctx context.Context, db kv.DB, name string, n int, from ends, out *sink) (done int, err error) {
	p, err := a.openPriority(db, name, from)
	if err != nil {
		return 0, err
	}
	if from.max {
		return p.peekMax(ctx, db, n, out)
	}
	for v, err := range p.queue.All(ctx) {
		if err == nil {
			err = out.add(item{v.Value, v.Priority})
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

// peekMax takes the items in a transaction that is then given up: there is no
// other way to see them in the order in which they would be popped. So they are
// all in memory before the first is printed.
func (p *priority) peekMax(ctx context.Context, db kv.DB, n int, out *sink) (done int, err error) {
	var seen []item
	err = db.Transact(ctx, func(tx kv.Tx) error {
		seen = nil
		for len(seen) < n {
			batch, err := p.take(tx, min(n-len(seen), math.MaxInt32))
			if errors.Is(err, conq.ErrEmpty) {
				break
			}
			if err != nil {
				return err
			}
			seen = append(seen, batch...)
		}
		return errUndo
	})
	if !errors.Is(err, errUndo) {
		return 0, err
	}
	for _, it := range seen {
		if err := out.add(it); err != nil {
			return 0, err
		}
	}
	return len(seen), nil
}
