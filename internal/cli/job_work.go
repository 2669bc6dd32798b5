package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/conq-go/conq/work"
	"github.com/spf13/cobra"
)

const workLong = `Do the jobs of a work queue: for each one, run a command with the item on its
standard input. Its environment has CONQ_QUEUE, CONQ_JOB_ID, CONQ_JOB_ATTEMPT,
CONQ_JOB_DEADLINE (when the lease is over unless it is extended) and, if the job has
one, CONQ_JOB_KEY.

If the command exits with 0, the job is done. With 75 (EX_TEMPFAIL) it is released: it
is ready again after --release-delay, and the attempt does not count. With anything else
it is tried again later, after 1, 16, 81... seconds, and is dead after its last attempt.
The end of what the command wrote to standard error is kept with the job.

The lease of a job is extended while its command runs. SIGTERM or SIGINT ends the
command when those that run have ended, for which they have --grace; after that
they are killed, and their jobs are ready again.

It runs until it is told to end; with --drain until no job is ready.`

const workExample = `  conq work emails -j 8 -- ./send
  conq work numbers --drain -- sh -c 'read -r n; echo $((n * n))'
  conq work videos --lease 10m -- sh -c 'cat > "$CONQ_JOB_ID.mp4"'`

type workFlags struct {
	workers        int
	lease, grace   time.Duration
	releaseDelay   time.Duration
	drain, relaxed bool
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
			o := work.Options{Lease: flags.lease}
			if flags.relaxed {
				o.Order = work.Relaxed
			}
			return a.withNewJobs(cmd.Context(), args[0], o, func(q jobQueue) error { return a.runJobs(cmd.Context(), q, args, flags) })
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(true)
	integerFlag(f, &flags.workers, "jobs", "j", 1, "how many commands run at once")
	f.DurationVar(&flags.lease, "lease", 30*time.Second, "how long a job stays away if this command dies")
	f.DurationVar(&flags.grace, "grace", 30*time.Second, "how long running commands have when this one is to end")
	f.DurationVar(&flags.releaseDelay, "release-delay", time.Second, "how long a job waits whose command exits with 75")
	f.BoolVar(&flags.drain, "drain", false, "end when no job is ready")
	f.BoolVar(&flags.relaxed, "relaxed", false, "take jobs only roughly in order, so that many processes do not collide")
	return cmd
}

func (a *app) runJobs(ctx context.Context, q jobQueue, args []string, flags workFlags) error {
	d := &doer{app: a, queue: args[0], command: args[1:], flags: flags}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if flags.drain {
		d.stopWhenDrained(ctx, q, stop)
	}
	err := work.Run(ctx, q, d.do, work.RunOptions{Workers: flags.workers, Grace: flags.grace, OnError: d.tell})
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

	mu           sync.Mutex
	done, failed int
}

// exitReleases is the exit code by which a command puts its job off: EX_TEMPFAIL of sysexits.h.
const exitReleases = 75

// errorBytes is how much of a command's standard error is kept.
const errorBytes = 2000

func (d *doer) do(ctx context.Context, l *work.Lease[[]byte]) error {
	cmd := exec.CommandContext(ctx, d.command[0], d.command[1:]...)
	cmd.Stdin = bytes.NewReader(l.Value)
	cmd.Stdout = d.app.stdout
	kept := &tail{max: errorBytes}
	cmd.Stderr = kept
	cmd.Env = append(os.Environ(), "CONQ_QUEUE="+d.queue, fmt.Sprintf("CONQ_JOB_ID=%d", l.ID), fmt.Sprintf("CONQ_JOB_ATTEMPT=%d", l.Attempt),
		"CONQ_JOB_DEADLINE="+l.Deadline().UTC().Format(time.RFC3339Nano))
	if l.Key != "" {
		cmd.Env = append(cmd.Env, "CONQ_JOB_KEY="+l.Key)
	}
	ownGroup(cmd) // an interrupt of the terminal is for this command, which then waits for it
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exitReleases {
		return work.Snooze(d.flags.releaseDelay)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.done++
		return nil
	}
	if ctx.Err() == nil { // else it was killed, as the job was cancelled, or this command is to end
		d.failed++
	}
	if text := strings.TrimSpace(kept.String()); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

func (d *doer) tell(id work.ID, err error) {
	fmt.Fprintln(d.app.stderr, oneLine(fmt.Sprintf("job %d: %v", id, err), ""))
}

// stopWhenDrained stops the runner when no job is ready, nor leased by a worker.
func (d *doer) stopWhenDrained(ctx context.Context, q jobQueue, stop func()) {
	go func() {
		defer stop()
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			s, err := q.Stats(ctx)
			if err != nil || s.Paused || s.Ready == 0 && s.Leased == 0 { // a blocked job may be behind one that is tried again in days
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
}

// tail keeps the last bytes that are written to it.
type tail struct {
	max int
	b   []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	if n := len(t.b) - t.max; n > 0 {
		t.b = append(t.b[:0], t.b[n:]...)
	}
	return len(b), nil
}

func (t *tail) String() string { return string(t.b) }
