package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

const workLong = `Do the jobs of a work queue: for each one, run a command with the item on its
standard input. Its environment has CONQ_QUEUE, CONQ_JOB_ID, CONQ_JOB_ATTEMPT,
CONQ_JOB_BYTES (how long the input is), CONQ_JOB_DEADLINE (when the lease is over unless
it is extended) and, if the job has one, CONQ_JOB_KEY.

If the command exits with 0, the job is done, whatever it has left running. With 75
(EX_TEMPFAIL) it is released: it is ready again after --release-delay, and the attempt
does not count. With anything else it is tried again later, after 1, 16, 81... seconds,
and is dead after its last attempt. The end of what the command wrote to standard error
is kept with the job.

The lease of a job is extended while its command runs. If it can't be extended, the
command is killed before the lease is over. It is killed, too, when its job is
cancelled, and on Linux when this process is. A command that has run for the --timeout
of its job, or of the queue, gets SIGTERM, with all that it has started, and is killed
after --grace, or at half of what is left of its lease. The attempt has failed then,
whatever it exits with.

SIGTERM or SIGINT: it takes no more jobs, and ends when the commands that run have
ended, for which they have --grace; then they are killed, and their jobs are ready
again. A second signal kills them at once. A command that dies of such a signal itself,
as a service manager sends it to all, gives its job back. A command runs in a process
group of its own, so that Ctrl-C does not reach it.

It runs until it is told to end; with --drain until no job is left that it could do: none
is ready, with what is due made ready, and none is leased by a worker that might give
it back. Jobs for later, and those that are tried again later, are not waited for.`

const workExample = `  conq work emails -j 8 -- ./send
  conq work numbers --drain -- sh -c 'read -r n; echo $((n * n))'
  conq work videos --lease 10m -- sh -c 'cat > "$CONQ_JOB_ID.mp4"'`

type workFlags struct {
	workers      int
	lease, grace time.Duration
	releaseDelay time.Duration
	drain        bool
}

func (a *app) work() *cobra.Command {
	var flags workFlags
	cmd := &cobra.Command{
		Use:     "work QUEUE [-j N] -- COMMAND [ARG...]",
		Short:   "Do jobs of a work queue by running a command for each",
		Long:    workLong,
		Example: workExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := queueArgument(cmd, args); err != nil {
				return err
			}
			if len(args) < 2 {
				return usagef("work needs a command behind the queue: conq work %s -- COMMAND [ARG...]", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := exec.LookPath(args[1]); err != nil {
				return usagef("%w", err)
			}
			if err := noZero(cmd, "jobs", "lease"); err != nil {
				return err
			}
			a.lasts = true
			run := func(q jobQueue) error { return a.runJobs(cmd.Context(), q, args, flags) }
			if flags.drain { // of a queue that is not there nothing would ever come
				return a.withJobsOf(cmd.Context(), args[0], a.itemCodec(), flags.lease, run)
			}
			return a.withNewJobs(cmd.Context(), args[0], flags.lease, run)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(true)
	integerFlag(f, &flags.workers, "jobs", "j", 1, "how many commands run at once")
	f.DurationVar(&flags.lease, "lease", 0, "how long a job stays away if this command dies (default: as the job or the queue says)")
	f.DurationVar(&flags.grace, "grace", 30*time.Second, "how long running commands have when this one is to end")
	f.DurationVar(&flags.releaseDelay, "release-delay", time.Second, "how long a job waits whose command exits with 75")
	f.BoolVar(&flags.drain, "drain", false, "end when no job is ready, nor leased")
	return cmd
}

func (a *app) runJobs(ctx context.Context, q jobQueue, args []string, flags workFlags) error {
	kills, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	defer onSecondSignal(func() {
		fmt.Fprintln(a.stderr, "conq: told to end again: kills its commands")
		kill()
	})()
	if isTerminal(a.stderr) {
		defer context.AfterFunc(ctx, func() {
			fmt.Fprintf(a.stderr, "conq: waits for the commands that run, up to %v; interrupt again to kill them\n", flags.grace)
		})()
	}
	d := &doer{app: a, queue: args[0], command: args[1:], flags: flags, start: newStarter(), runs: ctx, kills: kills}
	defer d.start.stop()
	err := work.Run(ctx, q, d.do, work.RunOptions{Workers: flags.workers, Grace: flags.grace, Drain: flags.drain, OnError: d.tell})
	if err == nil && !a.json {
		fmt.Fprintf(a.stderr, "conq: %s done, %s failed\n", count(d.done), count(d.failed))
	}
	return usage(err)
}

// doer runs the command for each job.
type doer struct {
	app     *app
	queue   string
	command []string
	flags   workFlags
	start   *starter
	runs    context.Context // ends when this command is to end
	kills   context.Context // ends when the commands are not to go on any longer

	mu           sync.Mutex
	done, failed int
}

// exitReleases is the exit code by which a command puts its job off: EX_TEMPFAIL of sysexits.h.
const exitReleases = 75

// signalsMeet is how long after a command was ended by a signal that ends this one, too, this one may get it. A service manager
// sends it to all processes of a service, in any order.
const signalsMeet = time.Second

func (d *doer) do(ctx context.Context, l *work.Lease[[]byte]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.kills, cancel)()
	said, err := d.execute(ctx, l)
	var exit *exec.ExitError
	late := errors.Is(context.Cause(ctx), work.ErrTimeout)
	switch {
	case err == nil || late:
	case errors.As(err, &exit) && exit.ExitCode() == exitReleases:
		return work.Snooze(d.flags.releaseDelay)
	case d.kills.Err() != nil, ctx.Err() == nil && endedAsThis(err) && d.ends(ctx):
		return work.Snooze(0) // it is given back
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && !late {
		d.done++
		return nil
	}
	if late || ctx.Err() == nil { // else it was killed, as the job was cancelled, its lease is over, or this command is to end
		d.failed++
	}
	switch {
	case said == "":
		return err
	case err == nil:
		return errors.New(said)
	}
	return fmt.Errorf("%w: %s", err, said)
}

// ends tells whether this command is to end, or is told so in a moment.
func (d *doer) ends(ctx context.Context) bool {
	timer := time.NewTimer(signalsMeet)
	defer timer.Stop()
	select {
	case <-d.runs.Done():
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// execute runs the command for a job, and returns what it said last on standard error.
func (d *doer) execute(ctx context.Context, l *work.Lease[[]byte]) (said string, err error) {
	killed, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	cmd := exec.CommandContext(killed, d.command[0], d.command[1:]...)
	cmd.Env = append(os.Environ(), "CONQ_QUEUE="+d.queue, fmt.Sprintf("CONQ_JOB_ID=%d", l.ID), fmt.Sprintf("CONQ_JOB_ATTEMPT=%d", l.Attempt),
		"CONQ_JOB_DEADLINE="+l.Deadline().UTC().Format(time.RFC3339Nano), fmt.Sprintf("CONQ_JOB_BYTES=%d", len(l.Value)))
	if l.Key != "" {
		cmd.Env = append(cmd.Env, "CONQ_JOB_KEY="+l.Key)
	}
	isolate(cmd)
	cmd.Stdout, cmd.WaitDelay = d.app.stdout, lastWords
	defer give(cmd, l.Value)()
	words, err := listen(cmd)
	if err != nil {
		return "", err
	}
	defer func() { said = words() }()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err := d.start.start(cmd); err != nil {
		return "", err
	}
	defer d.stop(ctx, cmd, l, kill)()
	if err = cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has ended with 0, and left something running
	}
	return "", err
}

// stop kills a command when its context ends. One that has timed out is told to end before, for which it has the grace, at most half
// of what is left of the lease. What it returns is to be called when the command has ended: of one that has timed out nothing runs on.
func (d *doer) stop(ctx context.Context, cmd *exec.Cmd, l *work.Lease[[]byte], kill context.CancelFunc) (ended func()) {
	isLate := func() bool { return errors.Is(context.Cause(ctx), work.ErrTimeout) }
	over := make(chan struct{})
	told := context.AfterFunc(ctx, func() {
		if isLate() && terminate(cmd) == nil {
			timer := time.NewTimer(min(d.flags.grace, time.Until(l.Deadline())/2))
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-d.kills.Done():
			case <-over:
			}
		}
		kill()
	})
	return func() {
		close(over)
		if !told() && isLate() {
			_ = killAll(cmd)
		}
	}
}

func (d *doer) tell(id work.ID, err error) {
	if id == 0 {
		fmt.Fprintln(d.app.stderr, oneLine(err.Error(), ""))
		return
	}
	fmt.Fprintln(d.app.stderr, oneLine(fmt.Sprintf("job %d: %v", id, err), ""))
}
