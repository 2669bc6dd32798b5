package cli

import (
	"github.com/conq-go/conq"
	"github.com/spf13/cobra"
)

const popLong = `Remove items from a priority queue and print them, one a line: by default one
item, of the lowest priority. If there is none the exit code is 1.

Of equal priorities the one that was pushed first comes first. With --max the
last one does, as in FoundationDB's recipe, unless --ties first is given.

` + waitHelp + deliveryHelp

const popExample = `  conq pop jobs
  conq pop jobs --max --with-priority
  conq pop jobs --all --max --ties first
  conq pop jobs --wait=1m`

func (a *app) pop() *cobra.Command {
	var flags takeFlags
	var from ends
	cmd := &cobra.Command{
		Use:     "pop QUEUE",
		Short:   "Remove items from a priority queue and print them",
		Long:    popLong,
		Example: popExample,
		Args:    onlyQueueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := from.check(cmd); err != nil {
				return err
			}
			return a.takeAll(cmd, args[0], conq.KindPriorityQueue, flags, from)
		},
	}
	flags.register(cmd)
	from.register(cmd)
	registerWithPriority(cmd, &flags.print)
	return cmd
}

func registerWithPriority(cmd *cobra.Command, flags *printFlags) {
	cmd.Flags().BoolVar(&flags.priority, "with-priority", false, "print PRIORITY<TAB>ITEM")
}
