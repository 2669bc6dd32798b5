package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/internal/layout"
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
			return a.putAll(cmd.Context(), flags, args, goal{conq.KindQueue, plain, nil})
		},
	}
	flags.register(cmd)
	return cmd
}

// target is a queue that items are put into.
type target interface {
	PushAll(ctx context.Context, batch []item) error
	io.Closer
}

// goal says where items are to go, and how they are read.
type goal struct {
	kind  conq.Kind
	parse func([]byte) (item, error)
	open  func(context.Context, backend) (target, error) // nil, if it is a queue or a priority queue
}

// putAll is putInto for the store or server of the command.
func (a *app) putAll(ctx context.Context, flags putFlags, args []string, to goal) error {
	return a.withBackend(ctx, a.open, func(b backend) error { return a.putInto(ctx, b, flags, args, to) })
}

// putInto puts the items of the arguments behind the first, or of standard input,
// into the queue that the first names. It opens the queue, which makes it, when it has
// items: one that gets none must not begin to exist.
func (a *app) putInto(ctx context.Context, b backend, flags putFlags, args []string, to goal) error {
	info, found, err := b.lookup(ctx, args[0])
	switch {
	case err != nil:
		return err
	case found && info.Kind != to.kind:
		return kindError(info, to.kind)
	}
	if to.open == nil {
		to.open = func(ctx context.Context, b backend) (target, error) { return b.open(ctx, args[0], to.kind) }
	}
	var queue target
	defer func() { letGo(ctx, queue) }()
	put := func(ctx context.Context, batch []item) error {
		if queue == nil {
			opened, err := to.open(ctx, b)
			switch {
			case errors.Is(err, kv.ErrCommitUnknown): // whether the queue was made: no item is in
				return fmt.Errorf("%v", err)
			case err != nil:
				return err
			}
			queue = opened
		}
		return queue.PushAll(ctx, batch)
	}
	f, unit := a.input(args[1:], flags.null, b.limits(), to.parse)
	p := putter{app: a, flags: flags, queue: args[0], unit: unit, put: put}
	if unit != argument && !flags.ack {
		p.progress = a.inputProgress()
	}
	return p.run(ctx, f)
}

// queueArgument takes the name of a queue and whatever follows.
func queueArgument(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s needs the name of a queue", cmd.Name())
	}
	return layout.CheckName(args[0])
}

// onlyQueueArgument takes the name of a queue.
func onlyQueueArgument(cmd *cobra.Command, args []string) error {
	if wait := cmd.Flags().Lookup("wait"); len(args) == 2 && wait != nil && wait.Changed {
		if _, err := time.ParseDuration(args[1]); err == nil {
			return usagef("a time for --wait stands behind a =, as in --wait=%s", args[1])
		}
	}
	if len(args) > 1 {
		return usagef("%s takes one queue, %d arguments were given", cmd.Name(), len(args))
	}
	return queueArgument(cmd, args)
}

// noArguments takes none.
func noArguments(cmd *cobra.Command, args []string) error {
	if n := len(args); n > 0 {
		return usagef("%s takes no arguments, %d %s given", cmd.Name(), n, map[bool]string{true: "was", false: "were"}[n == 1])
	}
	return nil
}
