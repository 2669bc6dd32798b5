package cli

import (
	"github.com/conq-go/conq"
	"github.com/spf13/cobra"
)

const pushLong = `Put items into a priority queue, which is made if there is none.

A priority is any integer of 64 bits. Items of one priority keep the order in
which they were pushed. Items are the arguments, with the priority that
--priority gives, or without any (or with "-") the lines of standard input:
"PRIORITY<TAB>ITEM" each, or just items if --priority is given. In all else
lines are taken as "conq enqueue" takes them.`

const pushExample = `  conq push jobs --priority 10 "tidy up"
  conq push jobs -p -5 urgent more-urgent
  printf '1\tfirst\n2\tsecond\n' | conq push jobs`

func (a *app) push() *cobra.Command {
	var flags putFlags
	var priority int64
	cmd := &cobra.Command{
		Use:     "push QUEUE [ITEM...]",
		Short:   "Put items into a priority queue",
		Long:    pushLong,
		Example: pushExample,
		Args:    queueArgument,
	}
	integerFlag(cmd.Flags(), &priority, "priority", "p", 0, "priority of all items")
	flags.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		parse := withPriority
		if cmd.Flags().Changed("priority") {
			parse = func(b []byte) (item, error) { return item{Value: b, Priority: priority}, nil }
		} else if !fromStdin(args[1:]) {
			return usagef("push needs --priority for items that are arguments")
		}
		return a.putAll(cmd.Context(), flags, args, goal{conq.KindPriorityQueue, parse, nil})
	}
	return cmd
}
