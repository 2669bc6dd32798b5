package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

// jobQueue is a work queue of a store or a server.
type jobQueue interface {
	work.Source[[]byte]
	PutAll(ctx context.Context, all []work.New[[]byte]) (ids []work.ID, duplicates int, err error)
	Get(ctx context.Context, id work.ID) (*work.Info[[]byte], error)
	List(ctx context.Context, f work.Filter) iter.Seq2[*work.Info[[]byte], error]
	Stats(ctx context.Context) (work.Stats, error)
	Len(ctx context.Context) (int, error)
	Clear(ctx context.Context) error
	Kick(ctx context.Context, id work.ID) error
	Bury(ctx context.Context, id work.ID, reason string) error
	Delete(ctx context.Context, id work.ID) error
	Cancel(ctx context.Context, id work.ID) error
	KickAll(ctx context.Context, f work.Filter, progress func(int)) (int, error)
	BuryAll(ctx context.Context, f work.Filter, reason string, progress func(int)) (int, error)
	DeleteAll(ctx context.Context, f work.Filter, progress func(int)) (int, error)
	CancelAll(ctx context.Context, f work.Filter, progress func(int)) (int, error)
	Settings(ctx context.Context) (work.Settings, int64, error)
	ConfigureFrom(ctx context.Context, s work.Settings, version int64) (int64, error)
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	Every(ctx context.Context, name, spec string, value []byte, options ...work.EveryOptions) error
	RemovePeriodic(ctx context.Context, name string) error
	RunPeriodic(ctx context.Context, name string) (work.ID, error)
	Periodics(ctx context.Context) ([]work.Periodic, error)
	Close() error
}

// jobChange is a command that does something to jobs.
type jobChange struct {
	name, short, long string
	past              string // what was done to them
	one               func(jobQueue, context.Context, work.ID) error
	all               func(jobQueue, context.Context, work.Filter, func(int)) (int, error)
}

const buriedText = "buried by an operator"

var jobChanges = []jobChange{
	{
		name: "kick", past: "made ready", short: "Make dead or scheduled jobs ready now",
		long: "Make dead or scheduled jobs ready now. Dead ones have at least one more attempt.",
		one:  jobQueue.Kick,
		all:  jobQueue.KickAll,
	}, {
		name: "retry", past: "made ready", short: "Try dead jobs again",
		long: "Make dead jobs ready again, with at least one more attempt; with --all-matching only dead ones.",
		one:  jobQueue.Kick,
		all: func(q jobQueue, ctx context.Context, f work.Filter, p func(int)) (int, error) {
			if f.State == 0 {
				f.State = work.Dead
			}
			return q.KickAll(ctx, f, p)
		},
	}, {
		name: "bury", past: "buried", short: "Make jobs dead, to be looked at",
		long: "Make jobs dead: they are not tried again until they are kicked. A worker that holds one has lost its lease.",
		one:  func(q jobQueue, ctx context.Context, id work.ID) error { return q.Bury(ctx, id, buriedText) },
		all: func(q jobQueue, ctx context.Context, f work.Filter, p func(int)) (int, error) {
			return q.BuryAll(ctx, f, buriedText, p)
		},
	}, {
		name: "delete", past: "deleted", short: "Delete jobs for good",
		long: "Delete jobs in any state. A worker that holds one has lost its lease.",
		one:  jobQueue.Delete,
		all:  jobQueue.DeleteAll,
	}, {
		name: "cancel", past: "cancelled", short: "Cancel jobs",
		long: "Make jobs dead. Of one that a worker holds the handler is told to end: at once if it has the job from the same server, and else\n" +
			"within 5 s.",
		one: jobQueue.Cancel,
		all: jobQueue.CancelAll,
	},
}

const matchingHelp = `

Jobs are named by their ids, or by --all-matching with conditions that all must hold:
state=STATE, key=KEY, contains=TEXT, min-attempts=N, holder=HOLDER and before=TIME,
as "conq jobs" has them, separated by commas, a comma in a text as \,; "all" is all jobs. Those that match are
done some in each transaction; if the command is interrupted, what was done stays.`

func (a *app) changeJobs(c jobChange) *cobra.Command {
	var matching string
	cmd := &cobra.Command{
		Use:     c.name + " QUEUE ID... | --all-matching FILTER",
		Short:   c.short,
		Long:    c.long + matchingHelp,
		Example: fmt.Sprintf("  conq %[1]s emails 17 18\n  conq %[1]s emails --all-matching state=dead,contains=timeout", c.name),
		Args:    queueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (matching != "") == (len(args) > 1) {
				return usagef("%s needs either ids of jobs or --all-matching", c.name)
			}
			var ids []work.ID
			for _, arg := range args[1:] {
				id, err := jobID(arg)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			filter, err := parseFilter(matching)
			if err != nil {
				return err
			}
			return a.withJobs(cmd.Context(), args[0], func(q jobQueue) error {
				if matching == "" {
					return a.changeEach(cmd.Context(), q, c, ids)
				}
				p := a.jobProgress()
				n, err := c.all(q, cmd.Context(), filter, func(n int) { p.set(plural(n, "job"), int64(n)) })
				p.finish()
				if err != nil {
					return fmt.Errorf("%w; %s %s before that", err, plural(n, "job"), c.past)
				}
				return a.printChanged(c, n)
			})
		},
	}
	cmd.Flags().StringVar(&matching, "all-matching", "", "all jobs that match, as state=dead,contains=timeout")
	return cmd
}

func (a *app) changeEach(ctx context.Context, q jobQueue, c jobChange, ids []work.ID) error {
	for i, id := range ids {
		err := c.one(q, ctx, id)
		if errors.Is(err, work.ErrNotFound) {
			err = nothingf("there is no job %d in %.200q", id, q.Name())
		}
		if err != nil {
			return fmt.Errorf("%w; %s %s before that", err, plural(i, "job"), c.past)
		}
	}
	return a.printChanged(c, len(ids))
}

func (a *app) printChanged(c jobChange, n int) error {
	done := plural(n, "job") + " " + c.past
	return after(a.answer(struct {
		Jobs int `json:"jobs"`
	}{n}, "%s\n", done), done)
}

func (a *app) pause() *cobra.Command {
	return a.simpleJobs(cobra.Command{
		Use:     "pause QUEUE",
		Short:   "Have a work queue give out no jobs",
		Long:    "Have a work queue give out no jobs, to any process, until it is resumed. Jobs that workers hold go on.",
		Example: "  conq pause emails\n  conq resume emails",
	}, jobQueue.Pause)
}

func (a *app) resume() *cobra.Command {
	return a.simpleJobs(cobra.Command{
		Use:     "resume QUEUE",
		Short:   "Have a paused work queue give out jobs again",
		Long:    "Have a paused work queue give out jobs again.",
		Example: "  conq resume emails",
	}, jobQueue.Resume)
}

// simpleJobs completes a command that does f to a work queue, without flags.
func (a *app) simpleJobs(cmd cobra.Command, f func(jobQueue, context.Context) error) *cobra.Command {
	cmd.Args = onlyQueueArgument
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withJobs(cmd.Context(), args[0], func(q jobQueue) error { return f(q, cmd.Context()) })
	}
	return &cmd
}
