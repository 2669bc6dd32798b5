package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
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
			if a.isServer() {
				return a.moveOnServer(cmd.Context(), args[0], args[1], n)
			}
			return withStore(a.openExisting, func(db kv.DB) error { return a.moveItems(cmd.Context(), db, args[0], args[1], n) })
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

func (a *app) moveItems(ctx context.Context, db kv.DB, from, to string, n int) error {
	info, err := find(ctx, db, from)
	if err != nil {
		return err
	}
	target, found, err := conq.Lookup(ctx, db, to)
	if err != nil {
		return err
	}
	if found && target.Kind != info.Kind {
		return fmt.Errorf("%w: %.200q is a %s and %.200q a %s: items move between queues of one kind",
			conq.ErrKind, from, info.Kind, to, target.Kind)
	}
	moved, err := moveAll(ctx, db, info.Kind, from, to, n)
	switch {
	case err != nil:
		return fmt.Errorf("%w; %s moved before that", err, items(moved))
	case moved == 0:
		return errNothing
	}
	return after(a.printMoved(from, to, moved), fmt.Sprintf("%s moved to %q", items(moved), to))
}

// moveAll moves up to n items, their bytes as they are whatever their codec, a batch a transaction,
// and returns how many it has.
func moveAll(ctx context.Context, db kv.DB, kind conq.Kind, from, to string, n int) (moved int, err error) {
	plain := &app{codec: "bytes"}
	source, err := plain.openKind(db, kind, from, ends{})
	if err != nil {
		return 0, err
	}
	target, err := plain.openKind(db, kind, to, ends{})
	if err != nil {
		return 0, err
	}
	if err := source.Reclaim(ctx); err != nil { // take does not
		return 0, err
	}
	size := boundsFor(db.Limits()).items
	for again := true; moved < n; {
		var batch []item
		err := db.Transact(ctx, func(tx kv.Tx) (err error) {
			if batch, err = source.take(tx, min(size, n-moved)); err != nil {
				return err
			}
			return target.putIn(tx, batch)
		})
		switch {
		case again && errors.Is(err, conq.ErrEmpty): // the deadline of some may have come since
			again = false
			if err := source.Reclaim(ctx); err != nil {
				return moved, err
			}
		case errors.Is(err, conq.ErrEmpty):
			return moved, nil
		case err != nil:
			return moved, err
		default:
			moved += len(batch)
		}
	}
	return moved, nil
}

func (a *app) printMoved(from, to string, n int) error {
	if a.json {
		return a.printJSON(struct {
			From  string `json:"from"`
			To    string `json:"to"`
			Moved int    `json:"moved"`
		}{from, to, n})
	}
	return a.printf("moved %s from %q to %q\n", items(n), from, to)
}
