package cli

import (
	"context"

	"github.com/conq-go/conq/kv"
	"github.com/spf13/cobra"
)

const enqueueLong = `Put items at the end of a queue, which is made if there is none.

Items are the arguments or, without any (or with "-"), the lines of standard
input: every byte but the line end belongs to the item, an empty line is an
empty item. What is there is stored together, and nothing waits for more, so
that "tail -f log | conq enqueue lines" works. The items are on disk, in order,
when the command ends; with --ack it says how many are while it runs.`

const enqueueExample = `  conq enqueue emails hello world
  conq enqueue numbers < numbers.txt
  find . -print0 | conq enqueue files -0
  conq enqueue -- words -starts-with-a-dash`

func (a *app) enqueue() *cobra.Command {
	var flags putFlags
	cmd := &cobra.Command{
		Use:     "enqueue QUEUE [ITEM...]",
		Short:   "Put items at the end of a queue",
		Long:    enqueueLong,
		Example: enqueueExample,
		Args:    queueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			return withStore(a.open, func(db kv.DB) error {
				q, err := a.openQueue(db, args[0])
				if err != nil {
					return err
				}
				return a.putAll(cmd.Context(), db, flags, args, plain, q.put)
			})
		},
	}
	flags.register(cmd)
	return cmd
}

// putAll puts the items of the arguments behind the first, or of standard input,
// into the queue that the first names.
func (a *app) putAll(
	ctx context.Context, db kv.DB, flags putFlags, args []string,
	parse func([]byte) (item, error), put func(context.Context, []item) error,
) error {
	f, unit := a.input(args[1:], flags.null, db, parse)
	p := putter{app: a, flags: flags, queue: args[0], unit: unit, put: put}
	if unit == "line" && !flags.ack {
		p.progress = a.newProgress(a.stdinSize())
	}
	return p.run(ctx, f)
}

// queueArgument takes the name of a queue and whatever follows.
func queueArgument(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s needs the name of a queue", cmd.Name())
	}
	return nil
}

// onlyQueueArgument takes the name of a queue.
func onlyQueueArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%s takes one queue, %d arguments were given", cmd.Name(), len(args))
	}
	return queueArgument(cmd, args)
}

// noArguments takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("%s takes no arguments, %d were given", cmd.Name(), len(args))
	}
	return nil
}
