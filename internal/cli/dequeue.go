package cli

import (
	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/spf13/cobra"
)

const dequeueLong = `Remove items from the start of a queue and print them, one a line: by default
one item. If there is none the exit code is 1.

` + deliveryHelp

const dequeueExample = `  conq dequeue emails
  conq dequeue numbers --all > numbers.txt
  conq dequeue files -n 10 -0 | xargs -0 ls -l
  while item=$(conq dequeue emails); do echo "got $item"; done`

func (a *app) dequeue() *cobra.Command {
	var flags takeFlags
	cmd := &cobra.Command{
		Use:     "dequeue QUEUE",
		Short:   "Remove items from the start of a queue and print them",
		Long:    dequeueLong,
		Example: dequeueExample,
		Args:    onlyQueueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.takeAll(cmd, args[0], conq.KindQueue, flags, func(db kv.DB) (source, error) {
				return a.openQueue(db, args[0])
			})
		},
	}
	flags.register(cmd)
	return cmd
}

// takeAll takes what the flags say out of an existing queue and prints it.
func (a *app) takeAll(
	cmd *cobra.Command, name string, kind conq.Kind, flags takeFlags, open func(kv.DB) (source, error),
) error {
	ctx := cmd.Context()
	n, err := flags.limit(cmd)
	if err != nil {
		return err
	}
	return withStore(a.openExisting, func(db kv.DB) error {
		if err := existing(ctx, db, name, kind); err != nil {
			return err
		}
		from, err := open(db)
		if err != nil {
			return err
		}
		d := delivery{db: db, source: from, sink: a.sink(flags.print), commitFirst: flags.commitFirst}
		done, err := d.run(ctx, n)
		if err == nil && done == 0 {
			return errNothing
		}
		return err
	})
}
