package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/spf13/cobra"
)

const moveLong = `Move items from the start of a queue to the end of another one: by default one item.
Each batch is one transaction, so that an item is always in exactly one of them. Items
of a priority queue go to a priority queue, lowest priority first, and keep their
priorities. A queue TO begins to exist with its first item, of the kind of FROM. If there is
nothing to move the exit code is 1.`

const moveExample = `  conq move failed emails --all
  conq move jobs urgent -n 10`

func (a *app) move() *cobra.Command {
	var flags takeFlags
	cmd := &cobra.Command{
		Use:     "move FROM TO",
		Short:   "Move items from one queue to another",
		Long:    moveLong,
		Example: moveExample,
		Args:    twoQueues,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := flags.limit(cmd)
			if err != nil {
				return err
			}
			return a.withBackend(cmd.Context(), a.openExisting, func(b backend) error {
				return a.moveItems(cmd.Context(), b, args[0], args[1], n)
			})
		},
	}
	integerFlag(cmd.Flags(), &flags.n, "count", "n", 1, "move up to so many items")
	cmd.Flags().BoolVar(&flags.all, "all", false, "move all items")
	return cmd
}

func twoQueues(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) != 2:
		return usagef("%s needs the names of two queues, %d were given", cmd.Name(), len(args))
	case args[0] == args[1]:
		return usagef("%s needs two queues, %.200q was given twice", cmd.Name(), args[0])
	}
	return nil
}

func (a *app) moveItems(ctx context.Context, b backend, from, to string, n int) error {
	info, err := b.find(ctx, from)
	if err != nil {
		return err
	}
	target, found, err := b.lookup(ctx, to)
	if err != nil {
		return err
	}
	if found && target.Kind != info.Kind {
		return fmt.Errorf("%w: %.200q is a %s and %.200q a %s: items move between queues of one kind",
			conq.ErrKind, from, info.Kind, to, target.Kind)
	}
	moved, err := b.move(ctx, info, to, n)
	switch {
	case err != nil && !errors.Is(err, conq.ErrEmpty):
		return fmt.Errorf("%w; %s moved before that", err, items(moved))
	case moved == 0:
		return errNothing
	}
	return after(a.printMoved(from, to, moved), fmt.Sprintf("%s moved to %q", items(moved), to))
}

func (a *app) printMoved(from, to string, n int) error {
	return a.answer(struct {
		From  string `json:"from"`
		To    string `json:"to"`
		Moved int    `json:"moved"`
	}{from, to, n}, "moved %s from %q to %q\n", items(n), from, to)
}
