package cli

import (
	"github.com/conq-go/conq"
	"github.com/spf13/cobra"
)

const dequeueLong = `Remove items from the start of a queue and print them, one a line: by default
one item. If there is none the exit code is 1.

` + waitHelp + deliveryHelp

const dequeueExample = `  conq dequeue emails
  conq dequeue numbers --all > numbers.txt
  conq dequeue files -n 10 -0 | xargs -0 ls -l
  conq dequeue emails --wait=30s
  conq dequeue emails --follow | while read -r item; do echo "got $item"; done`

func (a *app) dequeue() *cobra.Command {
	var flags takeFlags
	cmd := &cobra.Command{
		Use:     "dequeue QUEUE",
		Short:   "Remove items from the start of a queue and print them",
		Long:    dequeueLong,
		Example: dequeueExample,
		Args:    onlyQueueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.takeAll(cmd, args[0], conq.KindQueue, flags, ends{})
		},
	}
	flags.register(cmd)
	return cmd
}
