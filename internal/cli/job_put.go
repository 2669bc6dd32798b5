package cli

import (
	"context"
	"errors"
	"time"

	"github.com/conq-go/conq"
	"github.com/conq-go/conq/kv"
	"github.com/conq-go/conq/kv/memory"
	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const putLong = `Put jobs into a work queue, which is made if there is none.

A job is leased to a worker, and comes back when the worker dies. Jobs are ready in
the order of their priority, the lowest first, and of their arrival. Of jobs with the
same --key one runs after the other.

Items are the arguments or, without any (or with "-"), the lines of standard input,
as "conq enqueue" takes them. --ids prints the ids that the jobs have got, or
of one that --unique kept out that of the job that is there. Ids are not
one after the other, as each process takes some at a time.`

const putExample = `  conq put emails hello world
  conq put reports --at 2030-01-02T03:04:05Z "year's end"
  conq put calls --key customer-7 --priority -1 "call back"
  seq 1000 | conq put numbers
  conq work numbers -j 4 -- sh -c 'read -r n; echo $((n * n))'`

// jobFlags say how jobs are put.
type jobFlags struct {
	job work.Job
	at  string
	ids bool
}

// registerJob has a command take what any job may have.
func registerJob(flags *pflag.FlagSet, job *work.Job) {
	integerFlag(flags, &job.Priority, "priority", "p", 0, "priority: the lowest is first")
	flags.StringVar(&job.Key, "key", "", "jobs of one key run one after the other")
	integerFlag(flags, &job.MaxAttempts, "max-attempts", "", 0, "how often a job is tried before it is dead; -1 is without end (default 20)")
	flags.StringVar(&job.Unique, "unique", "", "put nothing while a job with the same one is not done")
	flags.DurationVar(&job.UniqueFor, "unique-for", 0, "how long --unique holds at least")
	flags.DurationVar(&job.Lease, "lease", 0, "how long a worker has a job before others get it (default: as the worker says)")
	flags.Var(parsed[time.Duration]{&job.Timeout, work.ParseTimeout}, "timeout", "how long each attempt may run before its worker ends it, or none (default: as the settings say)")
}

// jobNumbers are those of them that mean nothing when they are 0.
var jobNumbers = []string{"max-attempts", "unique-for", "lease", "timeout"}

func (j *jobFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	registerJob(flags, &j.job)
	flags.DurationVar(&j.job.Delay, "delay", 0, "how long until the jobs are ready, as 90s or 24h")
	flags.StringVar(&j.at, "at", "", "when the jobs are ready, as 2030-01-02T03:04:05Z")
}

// complete reads what is not a value of a flag by itself, and returns what is wrong with the flags: with each job, then.
func (j *jobFlags) complete(ctx context.Context, queue string) (err error) {
	if j.at != "" {
		if j.job.At, err = time.Parse(time.RFC3339, j.at); err != nil {
			return usagef("--at=%.40s: not a time, as 2030-01-02T03:04:05Z", j.at)
		}
	}
	scratch := memory.New(memory.Options{}) // a queue there says what it would say
	defer scratch.Close()
	q, err := work.Open(ctx, scratch, queue, conq.Bytes())
	if err == nil {
		defer q.Close()
		_, err = q.Put(ctx, nil, j.job)
	}
	return usage(err)
}

func (a *app) put() *cobra.Command {
	var flags putFlags
	var jobs jobFlags
	cmd := &cobra.Command{
		Use:     "put QUEUE [ITEM...]",
		Short:   "Put jobs into a work queue",
		Long:    putLong,
		Example: putExample,
		Args:    queueArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := noZero(cmd, jobNumbers...); err != nil {
				return err
			}
			if err := jobs.complete(cmd.Context(), args[0]); err != nil {
				return err
			}
			open := func(ctx context.Context, b backend) (target, error) {
				q, err := b.jobs(ctx, args[0], a.itemCodec(), 0)
				if err != nil {
					return nil, usage(err)
				}
				return &jobTarget{q, a, jobs}, nil
			}
			return a.putAll(cmd.Context(), flags, args, goal{conq.KindWorkQueue, plain, open})
		},
	}
	flags.register(cmd)
	jobs.register(cmd)
	cmd.Flags().BoolVar(&jobs.ids, "ids", false, "print the ids of the jobs, one a line")
	return cmd
}

// jobTarget is a work queue that jobs are put into.
type jobTarget struct {
	jobQueue
	app   *app
	flags jobFlags
}

// usage makes a wrong use of the command of an argument that is out of its bounds.
func usage(err error) error {
	if errors.Is(err, kv.ErrInvalid) {
		return usagef("%w", err)
	}
	return err
}

func (t *jobTarget) PushAll(ctx context.Context, batch []item) error {
	all := make([]work.New[[]byte], len(batch))
	for i, it := range batch {
		all[i] = work.New[[]byte]{Value: it.Value, Job: t.flags.job}
	}
	ids, duplicates, err := t.PutAll(ctx, all)
	if err != nil {
		return usage(err)
	}
	for i := 0; t.flags.ids && i < len(ids); i++ {
		if err := t.app.printf("%d\n", ids[i]); err != nil {
			return err
		}
	}
	if duplicates > 0 {
		err := nothingf("%d of %d jobs were not put: job %d has --unique %q already", duplicates, len(batch), ids[len(ids)-1], t.flags.job.Unique)
		return &partlyPut{err, len(batch) - duplicates}
	}
	return nil
}
